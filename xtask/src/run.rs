//! Starts other programs, reports failures, and records the time of each step.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The result of a task. The error is the message of the failure.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// The folder of build results.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command in the workspace's root.
pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// The published crates. A crate comes after those on which it depends.
pub const PUBLISHED: [&str; 5] =
    ["katydid-device", "katydid-kernels", "katydid-wal", "katydid", "katydid-observe"];

/// The command that packs the published crates, and builds each from its package alone.
pub fn package() -> Command {
    let mut package = cargo(["package", "--locked"]);
    package.args(PUBLISHED.iter().flat_map(|name| ["-p", name]));
    package
}

/// Runs a command and shows its output. Fails if the command fails.
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

/// Duration and outcome of each step.
#[derive(Default)]
pub struct Steps(Vec<(&'static str, Duration, &'static str)>);

impl Steps {
    /// Runs one step and records its time, also if the step fails.
    pub fn step(&mut self, name: &'static str, step: impl FnOnce() -> Outcome) -> Outcome {
        let start = Instant::now();
        let outcome = step();
        self.note(name, start.elapsed(), outcome.is_ok());
        outcome
    }

    /// Records a step that ran in parallel with others.
    pub fn note(&mut self, name: &'static str, took: Duration, succeeded: bool) {
        self.0.push((name, took, if succeeded { "" } else { "FAILED" }));
    }

    /// Prints a table of all steps so far, and the time of all together.
    pub fn print(&self, together: Duration) {
        println!("== what each step took");
        for (name, time, mark) in self.0.iter().chain([&("together", together, "")]) {
            println!("{:6.0} s  {name} {mark}", time.as_secs_f64());
        }
    }
}
