//! What CI runs, in the order that fails soonest.

use crate::run::{Outcome, Steps, cargo, root, run};
use crate::watchdog::{End, Limits, Output, SILENCE, TEST, watch};
use crate::{browser, layers, long};
use std::fs;
use std::ops::ControlFlow;
use std::process::Command;

/// Runs every check, then says what each took. Each is also a task or a cargo command of its own.
pub fn all() -> Outcome {
    let mut steps = Steps::default();
    let outcome = each(&mut steps);
    steps.print();
    outcome
}

fn each(steps: &mut Steps) -> Outcome {
    steps.step("format", || run("format", &mut cargo(["fmt", "--all", "--check"])))?;
    steps.step("layers", layers::check)?;
    steps.step("lints", || {
        run("lints", &mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    steps.step("docs", || {
        run("docs", cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.step("tests", readme_test)?;
    steps.step("browser", browser::look)?;
    steps.step("explorer", long::explore)?;
    steps.step("loom", long::loom)
}

/// Runs the command that the README gives for the tests, word by word, so that it cannot rot. A test that hangs is named and ended.
fn readme_test() -> Outcome {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let line = readme
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("cargo test"))
        .ok_or("README.md names no test command (a line that begins with `cargo test`)")?;
    println!("== the README's tests: {line}");
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(root());
    match watch(&mut command, Limits { test: TEST, silence: SILENCE, total: None }, Output::Shown, |_| {
        ControlFlow::Continue(())
    })? {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(status) => Err(format!("{line}: failed ({status})").into()),
        End::Hung(test) => Err(format!("{line}: killed, because this hangs: {test}").into()),
        End::TimedOut | End::Stopped => Err(format!("{line}: not done in time").into()),
    }
}
