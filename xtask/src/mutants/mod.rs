//! Faults put into a copy of the tree, one at a time, to see that the tests notice. Not in CI: each costs a build.
//!
//! A mutant is a file, a text that must occur in it exactly once, and what replaces it. The copy lies in the target
//! folder, so the working tree is never touched; it is of the files as they are, committed or not.

mod list;

use crate::run::{Outcome, cargo, root};
use list::LIST;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// One fault.
pub struct Mutant {
    /// What is broken, in a few words.
    name: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
}

/// Exit status of `timeout` when the time was over.
const TIMED_OUT: i32 = 124;

/// Runs the tests against every mutant whose name contains `only`; fails if one survives.
pub fn run(seconds: u64, only: Option<&str>) -> Outcome {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let bench = Bench { tree: target.join("mutants").join("tree"), target: target.join("mutants"), seconds };
    copy_tree(&bench.tree)?;
    let wanted = || LIST.iter().filter(|mutant| only.is_none_or(|only| mutant.name.contains(only)));
    // A test that fails anyway would catch everything.
    let tests: BTreeSet<_> = wanted().map(|mutant| mutant.tests).collect();
    for tests in tests {
        bench.build(tests)?;
        if let Some(by) = bench.test(tests)? {
            return Err(format!("without any mutant: caught by {by}").into());
        }
    }
    let mut survivors = Vec::new();
    for mutant in wanted() {
        let start = Instant::now();
        let verdict = bench.try_mutant(mutant)?;
        let seconds = start.elapsed().as_secs();
        match verdict {
            Some(by) => println!("{seconds:4} s  {}: caught by {by}", mutant.name),
            None => {
                println!("{seconds:4} s  {}: SURVIVED", mutant.name);
                survivors.push(mutant.name);
            }
        }
    }
    if survivors.is_empty() { Ok(()) } else { Err(format!("survived: {}", survivors.join(", ")).into()) }
}

struct Bench {
    tree: PathBuf,
    target: PathBuf,
    seconds: u64,
}

impl Bench {
    /// What noticed the mutant; `None` if nothing did.
    fn try_mutant(&self, mutant: &Mutant) -> Result<Option<String>, Box<dyn std::error::Error>> {
        let original = root().join(mutant.file);
        let text = fs::read_to_string(&original)?;
        if text.matches(mutant.old).count() != 1 {
            let old = mutant.old;
            return Err(format!("{}: not exactly once in {}: {old}", mutant.name, mutant.file).into());
        }
        let place = self.tree.join(mutant.file);
        fs::write(&place, text.replacen(mutant.old, mutant.new, 1))?;
        let verdict = self.build(mutant.tests).and_then(|()| self.test(mutant.tests));
        fs::write(&place, &text)?;
        verdict.map_err(|error| format!("{}: {error}", mutant.name).into())
    }

    fn build(&self, tests: &[&str]) -> Outcome {
        let built = self.cargo(tests).arg("--no-run").output()?;
        if built.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&built.stderr).into_owned();
        Err(format!("does not build:\n{errors}").into())
    }

    /// Runs the tests until the first of them fails.
    fn test(&self, tests: &[&str]) -> Result<Option<String>, Box<dyn std::error::Error>> {
        let mut command = self.cargo(tests);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let printed = child.stdout.take().ok_or("no output to read")?;
        for line in BufReader::new(printed).lines() {
            let line = line?;
            if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
                // `timeout` passes it on to cargo and the tests.
                Command::new("kill").arg(child.id().to_string()).status()?;
                child.wait()?;
                return Ok(Some(test.to_owned()));
            }
        }
        let status = child.wait()?;
        Ok(match status.code() {
            Some(0) => None,
            Some(TIMED_OUT) => Some(format!("the time limit of {} s", self.seconds)),
            _ => Some("an abort".to_owned()),
        })
    }

    fn cargo(&self, tests: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg(self.seconds.to_string())
            .arg(cargo([""; 0]).get_program())
            .arg("test")
            .args(tests)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env_remove("KATYDID_SECONDS");
        command
    }
}

/// A copy of every file that version control knows, and of nothing else: a file that was moved since the last copy would be there
/// twice.
fn copy_tree(to: &Path) -> Outcome {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output()?;
    if !listed.status.success() {
        return Err("git lists no files".into());
    }
    let mut wanted = BTreeSet::new();
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root().join(name), to.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        wanted.insert(to.clone());
        // What is the same is not built again.
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

/// Removes all files below `folder` that are not `wanted`.
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
