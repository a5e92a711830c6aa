//! The process of an experiment: this program with other arguments.
//!
//! One thread waits for the process. Any thread may ask the process to stop, before, while or after
//! the process runs.

use super::state::ResultFolder;
use katydid_command::failure::{Failure, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Interval between two updates of the progress.
const TICK: Duration = Duration::from_millis(500);

/// The running child process, if there is one.
#[derive(Debug, Default)]
pub struct Child {
    stopped: AtomicBool,
    /// Process id of the child while the child may be signalled; `None` when it has ended.
    running: Mutex<Option<u32>>,
}

/// End of a child.
#[derive(Debug)]
pub enum Ended {
    Well,
    Stopped,
    /// The failure in words.
    Badly(String),
}

impl Child {
    /// Asks the running child to stop. A child that is started later is asked to stop at once.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.signal();
    }

    /// Returns whether `stop` was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn signal(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = running.and_then(|pid| Pid::from_raw(pid as i32)) {
            // A child that has just ended need not be signalled.
            let _may_be_gone = kill_process(pid, Signal::INT);
        }
    }

    /// Runs this program with these arguments. Its output goes to files in `kept`.
    pub fn run(&self, arguments: &[String], kept: &ResultFolder, tick: &mut dyn FnMut(f64)) -> Result<Ended> {
        let failed =
            |what: &str, error: std::io::Error| Failure::failed(format_args!("cannot {what}: {error}"));
        let file = |name: &str| File::create(kept.file(name)).map_err(|error| failed("create a file", error));
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("output.txt")?)
            .stderr(file("errors.txt")?)
            .spawn()
            .map_err(|error| failed("start this program again", error))?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
        if self.is_stopped() {
            self.signal();
        }
        let since = Instant::now();
        let (sender, receiver) = mpsc::channel();
        let status: ExitStatus = std::thread::scope(|scope| {
            // This thread ends when the child does.
            scope.spawn(move || {
                if let Some(pid) = Pid::from_raw(child.id() as i32) {
                    // `NOWAIT`: this call does not reap the child, so no other process gets the
                    // child's id. If this call fails, `wait` reports the reason.
                    let _ended = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
                }
                *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
                sender.send(child.wait())
            });
            loop {
                match receiver.recv_timeout(TICK) {
                    Ok(status) => return status.map_err(|error| failed("wait for this program", error)),
                    Err(mpsc::RecvTimeoutError::Timeout) => tick(since.elapsed().as_secs_f64()),
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        return Err(Failure::failed("no program waits for this one"));
                    }
                }
            }
        })?;
        Ok(match status.success() {
            _ if self.is_stopped() && !status.success() => Ended::Stopped,
            true => Ended::Well,
            false => Ended::Badly(status.to_string()),
        })
    }
}
