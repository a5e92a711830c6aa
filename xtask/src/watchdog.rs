//! Runs a test command under limits, and names the test that hangs.
//!
//! libtest prints a line when a test has run for 60 seconds, and a line when a test ends. The
//! watchdog reads these lines: a test hangs if it has not ended within [`Limits::test`] after its
//! 60-second line. A program that prints nothing for [`Limits::silence`] also hangs. If libtest
//! runs one test at a time, it prints no 60-second line, so silence is the only sign. A build may
//! be silent for [`BUILD_SILENCE`]. The watchdog kills a command that hangs, with all its
//! descendants.
//!
//! Time in which the machine sleeps, or in which the watchdog is stopped (by a signal, or by the
//! host of a virtual machine), says nothing about the command. The watchdog therefore counts only
//! time that it saw pass ([`Seen`]).
//!
//! The calling thread judges. Two threads read the command's output line by line, and send the
//! lines to the calling thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a test may run after libtest's 60-second line, which makes five minutes in total.
pub const TEST: Duration = Duration::from_secs(240);

/// Maximum time without output of a program that cargo runs. A caller adds the planned run time of
/// a program that is meant to run longer.
pub const SILENCE: Duration = Duration::from_secs(600);

/// Maximum time without output of a build. The largest crate took 11 minutes in the release profile
/// on a machine with ten other tasks. A compiler does not hang as tests do.
const BUILD_SILENCE: Duration = Duration::from_secs(3600);

/// Name of the current program until cargo prints that it runs a program.
const BUILD: &str = "the build";

/// Interval at which the watchdog reads the clock.
const TICK: Duration = Duration::from_millis(500);

/// Limits of a command. The watchdog counts only time that it saw pass.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Time that a test may run beyond its first 60 seconds.
    pub test: Duration,
    /// Maximum time without output of a program that cargo runs.
    pub silence: Duration,
    /// Time that the whole command may take.
    pub total: Option<Duration>,
}

/// End of a command.
#[derive(Debug)]
pub enum End {
    /// The command ended by itself.
    Exited(ExitStatus),
    /// The watchdog killed the command because this test, or the last program that cargo started,
    /// hung.
    Hung(String),
    /// The watchdog killed the command because [`Limits::total`] was over.
    TimedOut,
    /// The watchdog killed the command because the callback `seen` asked for it.
    Stopped,
}

/// Destination of the output.
pub enum Output<'a> {
    /// The command's output goes to the output of this program.
    Shown,
    /// The command's output is appended to this file.
    Kept(&'a Path),
}

/// Runs a command to its end under limits. Each line of its output is passed to `seen`, which may
/// stop the command.
///
/// # Errors
/// The command cannot be started, or its output cannot be written.
pub fn watch(
    command: &mut Command,
    limits: Limits,
    output: Output<'_>,
    mut seen: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<End, Box<dyn std::error::Error>> {
    let mut kept = match output {
        Output::Shown => None,
        Output::Kept(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let (sender, lines) = channel();
    hand_on(child.stdout.take(), false, sender.clone());
    hand_on(child.stderr.take(), true, sender);
    let mut time = Seen::new(Instant::now());
    let mut judge = Judge::new();
    let killed = loop {
        match lines.recv_timeout(TICK) {
            Ok((is_error, line)) => {
                judge.line(&line, time.until(Instant::now()));
                match &mut kept {
                    Some(file) => writeln!(file, "{line}")?,
                    None if is_error => eprintln!("{line}"),
                    None => println!("{line}"),
                }
                if seen(&line).is_break() {
                    break Some(End::Stopped);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break None,
        }
        let now = time.until(Instant::now());
        if let Some(name) = judge.hung(now, &limits) {
            break Some(End::Hung(name));
        }
        if limits.total.is_some_and(|total| now > total) {
            break Some(End::TimedOut);
        }
    };
    if killed.is_some() {
        kill_all(child.id());
    }
    let status = child.wait()?;
    Ok(killed.unwrap_or(End::Exited(status)))
}

fn hand_on(from: Option<impl Read + Send + 'static>, is_error: bool, to: Sender<(bool, String)>) {
    let Some(from) = from else { return };
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            if to.send((is_error, text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Counts the time that the watchdog saw pass since it began to watch. Two readings of the clock
/// are about a tick apart, and a little more on a busy machine. If they differ by more than two
/// ticks, the watchdog did not run in the meantime, and only two ticks are counted.
struct Seen {
    counted: Duration,
    last: Instant,
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { counted: Duration::ZERO, last: now }
    }

    fn until(&mut self, now: Instant) -> Duration {
        self.counted += (now - self.last).min(2 * TICK);
        self.last = now;
        self.counted
    }
}

/// State of the program and its tests, according to the lines so far. Times are those of [`Seen`].
struct Judge {
    /// Tests that run for more than 60 seconds, with the time of libtest's line.
    long: BTreeMap<String, Duration>,
    /// Time of the last line.
    last: Duration,
    /// The last program that cargo has started.
    program: String,
}

impl Judge {
    fn new() -> Self {
        Self { long: BTreeMap::new(), last: Duration::ZERO, program: BUILD.to_owned() }
    }

    fn line(&mut self, line: &str, now: Duration) {
        self.last = now;
        let line = line.trim();
        if line.starts_with("Running ") || line.starts_with("Doc-tests ") {
            line.clone_into(&mut self.program);
            self.long.clear();
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(test) = test.strip_suffix(" has been running for over 60 seconds") {
                self.long.insert(test.to_owned(), now);
            } else if let Some((test, _)) = test.rsplit_once(" ... ") {
                self.long.remove(test);
            }
        }
    }

    fn hung(&self, now: Duration, limits: &Limits) -> Option<String> {
        let over: Vec<&str> = self
            .long
            .iter()
            .filter(|(_, since)| now - **since > limits.test)
            .map(|(test, _)| test.as_str())
            .collect();
        if !over.is_empty() {
            return Some(format!("{} of {}", over.join(", "), self.program));
        }
        let silence = if self.program == BUILD { BUILD_SILENCE } else { limits.silence };
        (now - self.last > silence).then(|| self.program.clone())
    }
}

/// Kills a process with all its descendants, parents first, so that no killed process starts
/// another.
fn kill_all(id: u32) {
    let parents = parents();
    let mut family = vec![id];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        let known: BTreeSet<u32> = family.iter().copied().collect();
        family.extend(
            parents
                .iter()
                .filter(|(child, of)| *of == parent && !known.contains(child))
                .map(|(child, _)| *child),
        );
        at += 1;
    }
    let ids: Vec<String> = family.iter().map(u32::to_string).collect();
    if !Command::new("kill").arg("-KILL").args(&ids).status().is_ok_and(|status| status.success()) {
        eprintln!("cannot kill all of {}", ids.join(", "));
    }
}

/// The parent of each process; empty if the system has no `/proc`.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, in parentheses, may contain any character.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((id, parent))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { test: TEST, silence: SILENCE, total: None };

    #[test]
    fn a_test_that_does_not_end_is_named_and_one_that_ends_is_not() {
        let start = Duration::ZERO;
        let second = Duration::from_secs(1);
        let mut judge = Judge::new();
        judge.line("     Running tests/crash/main.rs (target/debug/deps/crash-00)", start);
        judge.line("test turns has been running for over 60 seconds", start);
        judge.line("test clients has been running for over 60 seconds", start);
        judge.line("test turns ... ok", start + second);
        let limits = Limits { test: 9 * second, ..LIMITS };
        assert_eq!(judge.hung(start + 5 * second, &limits), None);
        let hung = judge.hung(start + 10 * second, &limits).expect("one hangs");
        assert!(
            hung.contains("clients") && hung.contains("tests/crash") && !hung.contains("turns"),
            "{hung}"
        );
    }

    #[test]
    fn a_program_that_prints_nothing_is_named() {
        let start = Duration::ZERO;
        let mut judge = Judge::new();
        judge.line("   Doc-tests katydid", start);
        assert_eq!(judge.hung(start + SILENCE / 2, &LIMITS), None);
        assert_eq!(judge.hung(start + SILENCE * 2, &LIMITS).as_deref(), Some("Doc-tests katydid"));
    }

    #[test]
    fn a_build_may_be_silent_for_longer_than_a_program() {
        let start = Duration::ZERO;
        let mut judge = Judge::new();
        judge.line("   Compiling katydid v0.1.0", start);
        assert_eq!(judge.hung(start + SILENCE * 2, &LIMITS), None);
        assert_eq!(judge.hung(start + BUILD_SILENCE * 2, &LIMITS).as_deref(), Some(BUILD));
    }

    #[test]
    fn time_in_which_the_watchdog_was_stopped_is_not_counted() {
        let start = Instant::now();
        let mut time = Seen::new(start);
        let mut judge = Judge::new();
        judge.line("   Doc-tests katydid", time.until(start));
        // The watchdog was stopped for a day, twice, and read the clock once in between.
        let day = Duration::from_secs(86_400);
        assert_eq!(judge.hung(time.until(start + day), &LIMITS), None);
        assert_eq!(judge.hung(time.until(start + 2 * day), &LIMITS), None);
        // Now the time passes tick by tick, for as long as a program may be silent.
        let ticks = u32::try_from(SILENCE.as_millis() / TICK.as_millis()).expect("few");
        let ran: Vec<Duration> = (1..=ticks).map(|tick| time.until(start + 2 * day + tick * TICK)).collect();
        assert_eq!(judge.hung(ran[ran.len() - 5], &LIMITS), None);
        assert_eq!(judge.hung(ran[ran.len() - 1], &LIMITS).as_deref(), Some("Doc-tests katydid"));
    }

    #[test]
    fn a_command_beyond_its_time_is_killed_with_its_children() {
        let limits = Limits { total: Some(Duration::ZERO), ..LIMITS };
        let mut command = Command::new("sh");
        // The shell's child keeps the output open. Reading the output to its end would take 1,000
        // seconds.
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut child = None;
        let end = watch(&mut command, limits, Output::Shown, |line| {
            child = line.parse::<u32>().ok();
            ControlFlow::Continue(())
        });
        assert!(matches!(end, Ok(End::TimedOut)), "{end:?}");
        // The kernel ends a process some time after the call that kills the process. The adopting
        // process collects the dead process later still. If the child were not killed, it would
        // exist for longer than a test may run, and this test would hang.
        let is_there = |child: u32| {
            let stat = fs::read_to_string(format!("/proc/{child}/stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
        };
        while child.is_some_and(is_there) {
            thread::yield_now();
        }
    }
}
