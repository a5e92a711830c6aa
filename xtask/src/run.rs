//! Starting other programs and saying what failed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The result of a task: the message of what failed.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// A cargo command in the workspace's root.
pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command, with its output shown, and fails if it does.
pub fn run(title: &str, command: &mut Command) -> Outcome {
    println!("== {title}");
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{title}: cannot start {command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{title}: failed ({status}): {command:?}").into());
    }
    println!("== {title}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
