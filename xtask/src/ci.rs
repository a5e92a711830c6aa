//! What CI runs, in the order that fails soonest.

use crate::run::{Outcome, cargo, root, run};
use crate::{browser, layers, long};
use std::fs;
use std::process::Command;

/// Runs every check. Each is also a task or a cargo command of its own.
pub fn all() -> Outcome {
    run("format", &mut cargo(["fmt", "--all", "--check"]))?;
    layers::check()?;
    run("lints", &mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    run("docs", cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    readme_test()?;
    browser::look()?;
    long::explore()?;
    long::loom()
}

/// Runs the command that the README gives for the tests, word by word, so that it cannot rot.
fn readme_test() -> Outcome {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let line = readme
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("cargo test"))
        .ok_or("README.md names no test command (a line that begins with `cargo test`)")?;
    run(&format!("the README's tests: {line}"), Command::new("sh").args(["-c", line]).current_dir(root()))
}
