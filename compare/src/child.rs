//! This program as a child process of itself, with other arguments.
//!
//! 1. A child begins when its parent says so, so the parent can first put the child into a control
//!    group.
//! 2. A child kills itself when its standard input ends: when its parent stops it, and when its
//!    parent has ended in any way. So no child outlives the program.
//! 3. At the first SIGINT or SIGTERM the parent ends the standard input of its child, and makes no
//!    further children. The second signal ends the parent at once.

use crate::Result;
use crate::process::Process;
use signal_hook::consts::{SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{BufRead, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Command of a child; the command that the child runs follows.
pub const COMMAND: &str = "child";

/// Line with which a parent lets its child begin.
const GO: &[u8] = b"go\n";

/// True after a signal. The thread of signals and the thread that waits for a child write it; the
/// latter also reads it. The mutex `INPUT` orders these accesses.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Standard input of the child that runs. At the first signal the thread of signals takes and
/// closes it.
static INPUT: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// Error: a signal has stopped the program.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by a signal")
    }
}

impl std::error::Error for Stopped {}

/// Starts the thread of signals. Called once, before the first child.
pub fn stop_at_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut forever = signals.forever();
        if forever.next().is_some() {
            let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
            STOPPED.store(true, Ordering::SeqCst);
            drop(input.take());
        }
        if let Some(signal) = forever.next() {
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// Runs this program with `arguments`, and waits until it has ended. `before` gets the id of the
/// process, which begins its work after `before` returns.
///
/// # Errors
/// [`Stopped`] if a signal has stopped this program.
pub fn run(arguments: &[String], before: impl FnOnce(u32) -> Result<()>) -> Result<ExitStatus> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut process = Process::start(command.arg(COMMAND).args(arguments).stdin(Stdio::piped()))?;
    before(process.0.id())?;
    {
        let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
        if STOPPED.load(Ordering::SeqCst) {
            return Err(Stopped.into());
        }
        let pipe = process.0.stdin.take().ok_or("a child has no standard input")?;
        // A child that has already ended cannot read. Its exit status gives the reason.
        let _may_have_ended = input.insert(pipe).write_all(GO);
    }
    let status = process.0.wait()?;
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    drop(input.take());
    // A terminal sends its signals to the child too. The child may end before this process gets
    // the signal.
    let stopped = STOPPED.load(Ordering::SeqCst) || matches!(status.signal(), Some(SIGINT | SIGTERM));
    STOPPED.store(stopped, Ordering::SeqCst);
    if stopped { Err(Stopped.into()) } else { Ok(status) }
}

/// Waits in a child until the parent lets it begin.
pub fn begin() -> Result<()> {
    let mut line = Vec::new();
    std::io::stdin().lock().read_until(b'\n', &mut line)?;
    if line != GO {
        return Err(format!("{COMMAND} is a command that only this program itself runs").into());
    }
    std::thread::Builder::new().name("parent".to_owned()).spawn(|| {
        // The parent writes nothing more, so the call returns when the parent has closed the pipe.
        let _ended = std::io::stdin().lock().read_to_end(&mut Vec::new());
        // Stores do nothing at this exit: their files are removed. An error of this call is
        // ignored, because the parent, which would print it, is gone.
        let _never_returns = signal_hook::low_level::raise(SIGKILL);
    })?;
    Ok(())
}
