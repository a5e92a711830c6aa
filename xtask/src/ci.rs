//! Steps of CI, in an order in which failures show early.
//!
//! The model checkers, the mutants, the lints and the checks of documents and features run in
//! parallel with the tests, because the tests wait for the device during half of their time. The
//! output of each check is shown when the check ends. The model checkers and the mutants have their
//! own build folders; all checks that run in parallel begin when the tests are built.

use crate::run::{Outcome, Steps, cargo, package, root, run, target};
use crate::watchdog::{End, Limits, Output, SILENCE, TEST, watch};
use crate::{browser, layers, long, mutants, tidy};
use std::fs;
use std::ops::ControlFlow;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: Limits = Limits { test: TEST, silence: SILENCE, total: None };

/// Runs every check, then prints the time of each. Each check is also a task or cargo command that
/// can be run alone.
pub fn all() -> Outcome {
    let start = Instant::now();
    let mut steps = Steps::default();
    let outcome = each(&mut steps);
    steps.print(start.elapsed());
    outcome
}

fn each(steps: &mut Steps) -> Outcome {
    steps.step("format", || run("format", &mut cargo(["fmt", "--all", "--check"])))?;
    steps.step("layers", layers::check)?;
    steps.step("tidy", tidy::check)?;
    tests_and_checkers(steps)?;
    // These two steps are offline, because the tests have downloaded all dependencies.
    // The nightly run also builds the packages; here they are only packed.
    steps.step("packages", || {
        run("packages", package().args(["--offline", "--no-verify", "--allow-dirty"]))
    })?;
    steps.step("features", unasked)?;
    steps.step("browser", || browser::look(browser::left_by_tests()))
}

/// Checks that no dependency of an optional feature is linked without the feature.
fn unasked() -> Outcome {
    let mut tree = cargo(["tree", "--offline", "-p", "katydid", "-e", "normal", "--prefix", "none"]);
    let linked = String::from_utf8(tree.output()?.stdout)?;
    if !linked.starts_with("katydid ") {
        return Err("cargo tree shows no dependencies of katydid".into());
    }
    let unasked = ["tracing ", "tracing-core ", "metrics ", "serde "];
    match linked.lines().find(|line| unasked.iter().any(|name| line.starts_with(name))) {
        Some(line) => Err(format!("without its features katydid links {line}").into()),
        None => Ok(()),
    }
}

/// The command that looks for lints in all code, with all features, and fails at a warning.
fn lints() -> Command {
    cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// The command that builds all documentation and fails at a warning.
fn docs() -> Command {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// The command that shows that the engine compiles without warnings if its features are off. All
/// other checks and tests of the workspace run with all features, because its examples enable them.
fn bare() -> Command {
    cargo(["clippy", "-p", "katydid", "--lib", "--", "-D", "warnings"])
}

/// Runs the README's tests. The checks that run in parallel with them start with the first test
/// program.
fn tests_and_checkers(steps: &mut Steps) -> Outcome {
    let mut checkers = None;
    let tests = steps.step("tests", || {
        readme_test(|| {
            checkers.get_or_insert_with(|| {
                thread::spawn(|| {
                    [
                        checker("explorer", long::explore()),
                        checker("loom", long::loom()),
                        checker("mutants", mutants::few()),
                        checker("lints", lints()),
                        checker("docs", docs()),
                        checker("bare", bare()),
                    ]
                })
            });
        })
    });
    let mut failed = tests.err().map(|error| error.to_string());
    if let Some(checkers) = checkers {
        for Checker { name, took, outcome } in
            checkers.join().map_err(|_| "the thread of the checks beside the tests panicked")?
        {
            steps.note(name, took, outcome.is_ok());
            failed = failed.or(outcome.err());
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Outcome of a check that ran in parallel with the tests.
struct Checker {
    name: &'static str,
    took: Duration,
    /// The message of the failure.
    outcome: Result<(), String>,
}

/// Runs a check with its output in a file of the build folder, then prints the output as a whole.
fn checker(name: &'static str, mut command: Command) -> Checker {
    let start = Instant::now();
    let path = target().join(format!("ci-{name}.txt"));
    let outcome =
        fs::write(&path, "").map_err(|error| format!("{}: {error}", path.display())).and_then(|()| {
            let end = watch(&mut command, LIMITS, Output::Kept(&path), |_| ControlFlow::Continue(()));
            judge(name, end.map_err(|error| error.to_string())?)
        });
    let took = start.elapsed();
    match fs::read_to_string(&path) {
        Ok(output) => println!("== {name}\n{output}== {name}: done in {:.0} s", took.as_secs_f64()),
        Err(error) => println!("== {name}: {}: {error}", path.display()),
    }
    Checker { name, took, outcome }
}

/// Runs the README's test command word by word, so that the README cannot become wrong. Names and
/// kills a test that hangs. Calls `at_test` when a test program starts.
fn readme_test(mut at_test: impl FnMut()) -> Outcome {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let line = readme
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("cargo test"))
        .ok_or("README.md names no test command (a line that begins with `cargo test`)")?;
    println!("== the README's tests: {line}");
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(root());
    let end = watch(&mut command, LIMITS, Output::Shown, |line| {
        if line.trim_start().starts_with("Running ") {
            at_test();
        }
        ControlFlow::Continue(())
    })?;
    Ok(judge(line, end)?)
}

/// The message of a command that failed.
fn judge(name: &str, end: End) -> Result<(), String> {
    match end {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(status) => Err(format!("{name}: failed ({status})")),
        End::Hung(test) => Err(format!("{name}: killed, because this hangs: {test}")),
        End::TimedOut | End::Stopped => Err(format!("{name}: not done in time")),
    }
}
