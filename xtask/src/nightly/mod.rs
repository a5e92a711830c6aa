//! `cargo xtask nightly` runs everything that CI does not run.
//!
//! 1. The checks run first, without a share of the time; each command of a check is stopped after
//!    [`CHECK`]. The campaigns then divide the remaining time by weight; each gets at least
//!    [`LEAST`].
//! 2. A step that fails does not stop the others. The run fails if any step failed.
//! 3. A missing tool fails its step (see `tools`). A run of all steps that cannot make network
//!    namespaces, for example without root, leaves the step `partitions` out and says so.
//! 4. Each step appends a row to `docs/evidence.md` when it ends (see `evidence`). Its output goes
//!    to its own file in the target folder.
//! 5. Every random choice of a campaign follows from its seed. The seed is random unless one is
//!    given, and it is printed.
//!
//! Ctrl-C ends the running step and the run; the rows of earlier steps remain.

mod counts;
pub mod steps;

use crate::evidence::{self, Commit, Ending, FILE, Row};
use crate::run::{Outcome, root, target};
use crate::tools::need_namespaces;
use crate::watchdog::{End, Limits, Output, SILENCE, TEST, watch};
use counts::Counts;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use steps::{PARTITIONS, STEPS, Step, Work};

/// Minimum time of a campaign.
const LEAST: Duration = Duration::from_secs(20);

/// Time that a campaign may take beyond its share, for its last round and for building.
const SLACK: Duration = Duration::from_secs(1800);

/// Maximum time of a command of a check.
const CHECK: Duration = Duration::from_secs(3600);

/// Maximum time of one test of a check after its first 60 seconds. ThreadSanitizer makes a test ten
/// times slower, and other load on the machine makes it slower still. With a limit of five minutes,
/// a test that normally takes half a minute was once killed.
const CHECK_TEST: Duration = Duration::from_secs(40 * 60);

/// Number of lines at the end of a failed step's output that are shown.
const SHOWN: usize = 40;

/// Prints the steps.
pub fn list() {
    for step in STEPS {
        let kind = match step.work {
            Work::Check(..) => "check".to_owned(),
            Work::Tests { weight, .. } | Work::Program { weight, .. } => format!("campaign, weight {weight}"),
        };
        println!("{:14} {kind:20} {}", step.name, step.about);
    }
}

/// Runs every step, or only the step called `only`.
pub fn run(hours: f64, only: Option<&str>, seed: Option<u64>) -> Outcome {
    let mut wanted: Vec<&Step> =
        STEPS.iter().filter(|step| only.is_none_or(|only| only == step.name)).collect();
    if wanted.is_empty() {
        return Err("no step of this name: see --list".into());
    }
    if only.is_none()
        && let Err(why) = need_namespaces()
    {
        println!("== the step {PARTITIONS} is left out: {why}");
        wanted.retain(|step| step.name != PARTITIONS);
    }
    let length = Duration::try_from_secs_f64(hours * 3600.0)?;
    let commit = Commit::of_the_tree()?;
    let logs = target().join("nightly");
    fs::create_dir_all(&logs)?;
    let checks = of_the_checks(&wanted, &fs::read_to_string(root().join(FILE))?);
    if !checks.is_zero() {
        let left = length.saturating_sub(checks).as_secs() / 60;
        println!(
            "== the checks take about {} min, which leaves {left} min for campaigns",
            checks.as_secs() / 60
        );
    }
    let start = Instant::now();
    let mut failed = Vec::new();
    for (number, step) in wanted.iter().enumerate() {
        let weights: u32 = wanted[number..].iter().map(|step| step.work.weight()).sum();
        let left = length.saturating_sub(start.elapsed());
        let time = (left * step.work.weight()).checked_div(weights.max(1)).unwrap_or_default().max(LEAST);
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        let shown = if step.work.weight() > 0 {
            format!(", {} s, seed {seed}", time.as_secs())
        } else {
            String::new()
        };
        println!("== {} of {}: {}{shown}", number + 1, wanted.len(), step.name);
        let began = Instant::now();
        let log = logs.join(format!("{}.log", step.name));
        fs::write(&log, "")?;
        let done = do_step(step, time, seed, &log);
        let row = Row {
            at: SystemTime::now(),
            commit: &commit,
            step: step.name,
            seed: (step.work.weight() > 0).then_some(done.seed),
            counted: done.counts.to_string(),
            took: began.elapsed(),
            ending: &done.ending,
        };
        println!(
            "== {} of {}: {}: {} in {} s ({})",
            number + 1,
            wanted.len(),
            step.name,
            done.ending,
            began.elapsed().as_secs(),
            done.counts
        );
        row.append_to(&root().join(FILE))?;
        if matches!(done.ending, Ending::Failed(_)) {
            show_end(&log);
            failed.push(step.name);
        }
    }
    println!("== nightly: {} steps in {} s", wanted.len(), start.elapsed().as_secs());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Expected time of the checks among these steps. Each is expected to take as long as when it last
/// passed, according to the page of evidence.
fn of_the_checks(steps: &[&Step], page: &str) -> Duration {
    let expected = |step: &&Step| match step.work {
        Work::Check(minutes, _) => {
            Some(evidence::last_passed(page, step.name).unwrap_or(Duration::from_secs(60 * minutes)))
        }
        _ => None,
    };
    steps.iter().filter_map(expected).sum()
}

/// Outcome of a step.
struct Done {
    ending: Ending,
    counts: Counts,
    /// Seed of the round that failed, or of the first round if none failed.
    seed: u64,
}

fn do_step(step: &Step, time: Duration, seed: u64, log: &Path) -> Done {
    let mut counts = Counts::default();
    let mut failing = seed;
    let outcome = match &step.work {
        Work::Check(_, commands) => commands().and_then(|commands| check(commands, log, &mut counts)),
        Work::Tests { arguments, filter, .. } => {
            let build = steps::tests(arguments, &["--no-run"]);
            check(vec![build], log, &mut counts).and_then(|()| {
                let one = |seed: u64, left: Duration| {
                    let mut command = steps::tests(arguments, &[]);
                    command.arg("--").args(*filter).arg("--nocapture");
                    command.env("KATYDID_SEED", seed.to_string());
                    command.env("KATYDID_SECONDS", left.as_secs().max(1).to_string());
                    command
                };
                rounds(&one, time, seed, log, &mut counts, &mut failing)
            })
        }
        Work::Program { command, .. } => rounds(command, time, seed, log, &mut counts, &mut failing),
    };
    match outcome {
        Ok(()) => Done { ending: Ending::Passed, counts, seed },
        Err(why) => Done { ending: Ending::Failed(why.to_string()), counts, seed: failing },
    }
}

/// Runs commands one after the other, each to its end.
fn check(commands: Vec<Command>, log: &Path, counts: &mut Counts) -> Outcome {
    // Miri runs one test at a time, for minutes each, and prints nothing during a test.
    let limits = Limits { test: CHECK_TEST, silence: CHECK, total: Some(CHECK) };
    commands.into_iter().try_for_each(|mut command| command_under(&mut command, limits, log, counts))
}

/// Runs a command at least once and until the time is over, each time with a new seed.
fn rounds(
    command: &dyn Fn(u64, Duration) -> Command,
    time: Duration,
    seed: u64,
    log: &Path,
    counts: &mut Counts,
    failing: &mut u64,
) -> Outcome {
    let start = Instant::now();
    let mut seeds = fastrand::Rng::with_seed(seed);
    let mut next = seed;
    loop {
        let left = time.saturating_sub(start.elapsed());
        let limits = Limits { test: left + TEST, silence: left + SILENCE, total: Some(left + SLACK) };
        *failing = next;
        command_under(&mut command(next, left), limits, log, counts)
            .map_err(|error| format!("seed {next}: {error}"))?;
        counts.round();
        if start.elapsed() + LEAST / 10 >= time {
            return Ok(());
        }
        next = seeds.u64(..);
    }
}

fn command_under(command: &mut Command, limits: Limits, log: &Path, counts: &mut Counts) -> Outcome {
    let mut failed_tests = Vec::new();
    let end = watch(command, limits, Output::Kept(log), |line| {
        counts.line(line);
        if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            failed_tests.push(test.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    match end {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(_) if !failed_tests.is_empty() => Err(failed_tests.join(", ").into()),
        End::Exited(status) => Err(format!("{status}: {}", shown(command)).into()),
        End::Hung(test) => Err(format!("hangs: {test}").into()),
        End::TimedOut | End::Stopped => Err(format!("not done in time: {}", shown(command)).into()),
    }
}

/// A command as a user would type it, without the folder of the program.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    [program].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn show_end(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    println!("== the end of {}:", log.display());
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        println!("   {line}");
    }
}
