//! Processes that end at the latest when the campaign stops.

use std::io;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of a state that must come.
pub const PAUSE: Duration = Duration::from_millis(10);

/// Tells all threads of the campaign to end. The flag carries no other memory, so its accesses are
/// relaxed.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps for this time. Fails early if the flag is set.
    pub fn sleep(&self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.is_set() {
                return Err("stopped".to_owned());
            }
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(PAUSE));
        }
    }
}

/// A process, which is killed on drop.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Result<Self, String> {
        command.spawn().map(Running).map_err(|error| format!("cannot start {command:?}: {error}"))
    }

    /// Waits for the end of the process, for at most `limit`.
    pub fn wait(&mut self, limit: Duration, stop: &Flag) -> Result<ExitStatus, String> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().map_err(cannot_wait)? {
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(format!("a process did not end within {} s", limit.as_secs()));
            }
            stop.sleep(PAUSE)?;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only if the campaign has failed or was stopped.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

fn cannot_wait(error: io::Error) -> String {
    format!("cannot wait for a process: {error}")
}

/// Runs a command to its end, for at most `limit`. Returns its standard error, and its standard
/// output if `out` is a pipe. Each must be shorter than a pipe's buffer of 64 KiB.
pub fn run(
    command: &mut Command,
    out: impl Into<Stdio>,
    limit: Duration,
    stop: &Flag,
) -> Result<Output, String> {
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    let mut running = Running::start(command)?;
    let status = running.wait(limit, stop).map_err(|why| format!("{command:?}: {why}"))?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    if let Some(mut pipe) = running.0.stdout.take() {
        io::Read::read_to_end(&mut pipe, &mut stdout).map_err(cannot_wait)?;
    }
    if let Some(mut pipe) = running.0.stderr.take() {
        io::Read::read_to_end(&mut pipe, &mut stderr).map_err(cannot_wait)?;
    }
    Ok(Output { status, stdout, stderr })
}
