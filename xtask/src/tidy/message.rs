//! The message of a commit: a subject `area: effect` of at most 72 characters, a blank line, and a
//! body unless the change is trivial.

use crate::run::{Outcome, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUBJECT_MAX: usize = 72;

/// Beginnings of subjects that git generates.
const BY_GIT: &[&str] = &["Merge ", "Revert ", "fixup! ", "squash! ", "amend! "];

/// Areas whose changes need no body.
const TRIVIAL: &[&str] = &["docs", "format"];

const HOOK: &str = "#!/bin/sh\nexec cargo --quiet xtask tidy --message \"$(cd \"$(dirname \"$1\")\" && pwd)/$(basename \"$1\")\"\n";

/// Checks the message in a file, as git passes it to the `commit-msg` hook.
pub fn check(path: &Path) -> Outcome {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(judge(&text)?)
}

fn judge(text: &str) -> Result<(), String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let subject = lines.next().unwrap_or_default().trim_end();
    if BY_GIT.iter().any(|beginning| subject.starts_with(beginning)) {
        return Ok(());
    }
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        return Err(format!("the subject has {length} characters, at most {SUBJECT_MAX}: {subject:?}"));
    }
    let Some((area, effect)) = subject.split_once(": ") else {
        return Err(format!("the subject is not `area: effect`: {subject:?}"));
    };
    if area.is_empty() || area.contains(char::is_whitespace) || effect.trim().is_empty() {
        return Err(format!("the subject is not `area: effect`, with one word for the area: {subject:?}"));
    }
    if subject.ends_with('.') {
        return Err(format!("the subject ends with a full stop: {subject:?}"));
    }
    if lines.next().is_some_and(|line| !line.trim().is_empty()) {
        return Err("the line below the subject is not blank".to_owned());
    }
    if !TRIVIAL.contains(&area) && lines.all(|line| line.trim().is_empty()) {
        let wanted = "the problem, why this way, and what was measured";
        return Err(format!("there is no body ({wanted}); only {TRIVIAL:?} need none"));
    }
    Ok(())
}

/// Writes the `commit-msg` hook of this clone. A different existing hook is an error.
pub fn install() -> Outcome {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--git-path", "hooks"]).current_dir(root()).output()?;
    if !output.status.success() {
        return Err(format!("git rev-parse: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let folder = root().join(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()));
    let path = folder.join("commit-msg");
    match fs::read_to_string(&path) {
        Ok(present) if present != HOOK => {
            return Err(format!("{}: there is another hook already", path.display()).into());
        }
        _ => {}
    }
    fs::create_dir_all(&folder)?;
    fs::write(&path, HOOK).map_err(|error| format!("{}: {error}", path.display()))?;
    make_executable(&path)?;
    println!("== tidy: {} checks each commit message", path.display());
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_message_passes() {
        judge("wal: notify the next leader first\n\nThe released waiters ran before it.\n# remark\n")
            .expect("a good message");
        judge("docs: mend a link\n").expect("a trivial one");
        judge("Revert \"wal: notify the next leader first, in a subject that got longer than it may be\"\n")
            .expect("a message of git's");
    }

    #[test]
    fn each_fault_is_named() {
        let long = format!("wal: {}\n\nBody.\n", "x".repeat(70));
        for (message, fault) in [
            (long.as_str(), "75 characters"),
            ("Notify the next leader\n\nBody.\n", "not `area: effect`"),
            ("the log: notify the leader\n\nBody.\n", "one word"),
            ("wal: notify the leader.\n\nBody.\n", "full stop"),
            ("wal: notify the leader\nBody.\n", "not blank"),
            ("wal: notify the leader\n\n# remark\n", "no body"),
            ("", "not `area: effect`"),
        ] {
            let error = judge(message).expect_err(message);
            assert!(error.contains(fault), "{message:?}: {error}");
        }
    }
}
