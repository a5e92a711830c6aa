//! The copy of the tree into which mutants are put, and the verdicts of its tests.

use super::mutant::Mutant;
use crate::run::{Outcome, cargo, root, target};
use crate::watchdog::{End, Limits, Output, SILENCE, watch};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Outcome of a mutant.
pub enum Verdict {
    /// A test failed; this is its name.
    Caught(String),
    /// The tests did not succeed, although no test failed; the text says how they ended.
    Aborted(String),
    /// A test or program did not end; this is its name.
    Hung(String),
    /// All tests passed.
    Survived,
    /// The mutant does not compile; these are the compiler's errors.
    Unbuilt(String),
    /// The mutant's tests also fail without the mutant.
    Unfit,
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(by) => write!(to, "caught by {by}"),
            Self::Aborted(how) => write!(to, "ABORTED, {how}"),
            Self::Hung(what) => write!(to, "HUNG, {what}"),
            Self::Survived => to.write_str("SURVIVED"),
            Self::Unbuilt(errors) => write!(to, "DOES NOT BUILD\n{errors}"),
            Self::Unfit => to.write_str("NOT TRIED, its tests fail without it"),
        }
    }
}

/// Build options of the copy. For each mutant cargo compiles at least one crate again, and
/// compiling mostly takes longer than the tests. The crates with most mutants are therefore not
/// optimised, which makes compiling them five times as fast.
const CHEAPLY: [&str; 8] = [
    "profile.dev.package.katydid.opt-level=0",
    "profile.dev.package.katydid.debug=false",
    "profile.dev.package.katydid-device.opt-level=0",
    "profile.dev.package.katydid-device.debug=false",
    "profile.dev.package.katydid-kernels.opt-level=0",
    "profile.dev.package.katydid-kernels.debug=false",
    "profile.dev.package.katydid-wal.opt-level=0",
    "profile.dev.package.katydid-wal.debug=false",
];

/// The copy of the tree.
pub struct Bench {
    tree: PathBuf,
    /// Folder of the copy's builds.
    target: PathBuf,
    /// File of the tests' output.
    log: PathBuf,
    /// Maximum time of the tests of one mutant.
    limit: Duration,
}

impl Bench {
    /// Makes the copy, or updates an existing one.
    pub fn new(limit: Duration) -> Result<Self, Box<dyn std::error::Error>> {
        let target = target().join("mutants");
        let bench = Self { tree: target.join("tree"), log: target.join("tests.log"), target, limit };
        copy_tree(&bench.tree)?;
        Ok(bench)
    }

    /// Runs the tests on the copy without a mutant. The verdict is [`Verdict::Survived`] if all
    /// pass.
    pub fn without_any(&self, tests: &[&str]) -> Result<Verdict, Box<dyn std::error::Error>> {
        self.build_and_test(tests)
    }

    pub fn try_mutant(&self, mutant: &Mutant) -> Result<Verdict, Box<dyn std::error::Error>> {
        // Compare with the copy, because the tree may have changed since the copy was made.
        let place = self.tree.join(mutant.file);
        let text = fs::read_to_string(&place)?;
        if text.matches(mutant.old).count() != 1 {
            return Ok(Verdict::Unbuilt(format!("its text is not exactly once in {}", mutant.file)));
        }
        fs::write(&place, text.replacen(mutant.old, mutant.new, 1))?;
        let verdict = self.build_and_test(mutant.tests);
        fs::write(&place, &text)?;
        verdict
    }

    fn build_and_test(&self, tests: &[&str]) -> Result<Verdict, Box<dyn std::error::Error>> {
        let built = self.cargo(&["--no-run"], tests).output()?;
        if built.status.success() {
            self.test(tests)
        } else {
            Ok(Verdict::Unbuilt(String::from_utf8_lossy(&built.stderr).into_owned()))
        }
    }

    /// Runs the tests until one fails.
    fn test(&self, tests: &[&str]) -> Result<Verdict, Box<dyn std::error::Error>> {
        let mut failed = None;
        let limits = Limits { test: self.limit, silence: SILENCE, total: Some(self.limit) };
        fs::write(&self.log, "")?;
        let end = watch(&mut self.cargo(&[], tests), limits, Output::Kept(&self.log), |line| {
            if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
                failed = Some(test.to_owned());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(match (failed, end) {
            (Some(test), _) => Verdict::Caught(test),
            (None, End::Exited(status)) if status.success() => Verdict::Survived,
            (None, End::Exited(status)) => Verdict::Aborted(status.to_string()),
            (None, End::Hung(test)) => Verdict::Hung(test),
            (None, End::TimedOut | End::Stopped) => {
                Verdict::Hung(format!("not done in {} s", self.limit.as_secs()))
            }
        })
    }

    fn cargo(&self, options: &[&str], tests: &[&str]) -> Command {
        let mut command = cargo(["test"]);
        command
            .args(CHEAPLY.iter().flat_map(|setting| ["--config", setting]))
            .args(options)
            .args(tests)
            .current_dir(&self.tree)
            // The copy has its own target folder, because with a shared folder cargo would mistake
            // builds of one tree for builds of the other.
            .env("CARGO_TARGET_DIR", &self.target)
            // Each mutant changes one file, so incremental builds are fast.
            .env("CARGO_INCREMENTAL", "1")
            .env_remove("KATYDID_SECONDS")
            .env_remove("KATYDID_SEED");
        command
    }
}

/// Copies every file that git tracks or does not ignore, and removes all other files. Without the
/// removal, a file that was moved since the last copy would be there twice.
fn copy_tree(to: &Path) -> Outcome {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err("git lists no files".into());
    }
    let mut wanted = BTreeSet::new();
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root().join(name), to.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        wanted.insert(to.clone());
        // Leave an equal file alone, so that cargo does not build it again.
        if fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&to, bytes)?;
    }
    remove_others(to, &wanted)
}

/// Removes all files below `folder` that are not in `wanted`.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), wanted)?;
        } else if !wanted.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
