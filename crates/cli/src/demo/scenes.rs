//! Two databases under equal load. The first database is in files, which a child process writes;
//! the child can be killed. The second is on a simulated device in the program's own process; the
//! power of the device can be cut. After a power cut, bytes that were not synced are lost, torn or
//! kept, as the seed decides.
//!
//! Each database has a tally of acknowledgements. The child sends its acknowledgements through a
//! pipe, and a thread of the program adds them to the tally. After a kill this thread reads the
//! pipe to the end before the comparison begins. Only acknowledgements that could be read count.
//! The clients on the simulated device add theirs to the tally directly.

use super::clients;
use super::tally::{Ack, Tally, Verdict};
use katydid::Database;
use katydid_command::failure::{Failure, Result};
use katydid_device::SimDevice;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A tally that other threads fill: the thread that reads the pipe, or the clients' threads.
type Shared = Arc<Mutex<Tally>>;

fn locked(tally: &Shared) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The database in files, which another process writes.
pub struct Killed {
    dir: PathBuf,
    clients: u32,
    tally: Shared,
    child: Child,
    hearing: Option<JoinHandle<Result<()>>>,
}

impl Killed {
    /// Starts a process that writes a database in `dir`.
    pub fn start(dir: PathBuf, clients: u32) -> Result<Killed> {
        let tally = Arc::new(Mutex::new(Tally::new(clients)?));
        let (child, hearing) = spawn(&dir, clients, &tally)?;
        Ok(Killed { dir, clients, tally, child, hearing: Some(hearing) })
    }

    /// Returns the number of commits acknowledged since the last comparison, and the 99th
    /// percentile of their latencies in milliseconds.
    pub fn so_far(&self) -> (u64, f64) {
        let tally = locked(&self.tally);
        (tally.acknowledged(), tally.p99_millis())
    }

    /// Returns whether the process runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process, opens the database, and compares it with the acknowledgements.
    pub fn kill(&mut self) -> Result<Verdict> {
        self.end()?;
        let database = Database::open_with(&self.dir, clients::options())?;
        let verdict = locked(&self.tally).compare(&database)?;
        database.close()?;
        Ok(verdict)
    }

    /// Starts the process again.
    pub fn again(&mut self) -> Result<()> {
        let (child, hearing) = spawn(&self.dir, self.clients, &self.tally)?;
        (self.child, self.hearing) = (child, Some(hearing));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(hearing) = self.hearing.take() else { return Ok(()) };
        let failed =
            |error: std::io::Error| Failure::failed(format_args!("cannot kill the clients: {error}"));
        let ended = self.child.try_wait().map_err(failed)?;
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        joined(hearing)?;
        match ended {
            Some(status) => Err(Failure::failed(format_args!("the clients ended by themselves: {status}"))),
            None => Ok(()),
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // No comparison follows. If a failure has ended the demonstration, it was reported already.
        let _nothing_to_add = self.end();
    }
}

fn spawn(dir: &PathBuf, clients: u32, tally: &Shared) -> Result<(Child, JoinHandle<Result<()>>)> {
    let failed = |error: std::io::Error| Failure::failed(format_args!("cannot start the clients: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["demo", "clients", "--clients", &clients.to_string(), "--dir"]).arg(dir);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let Some(pipe) = child.stdout.take() else {
        return Err(Failure::failed("the clients have no standard output"));
    };
    let tally = tally.clone();
    Ok((child, thread::spawn(move || collect(pipe, &tally))))
}

/// Adds acknowledgements to the tally up to the end of the pipe. The last one may be incomplete,
/// and is then not counted.
fn collect(pipe: ChildStdout, tally: &Shared) -> Result<()> {
    let mut pipe = BufReader::with_capacity(1 << 16, pipe);
    let mut bytes = [0; Ack::BYTES];
    loop {
        let mut filled = 0;
        while filled < bytes.len() {
            match pipe.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Failure::failed(format_args!("cannot read from the clients: {error}")));
                }
            }
        }
        locked(tally).note(&[Ack::decode(bytes)]);
    }
}

/// The database on a simulated device.
pub struct Cut {
    clients: u32,
    seed: u64,
    device: SimDevice,
    tally: Shared,
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Cut {
    /// Starts clients of a database on a new device. `seed` decides which unsynced bytes survive.
    pub fn start(clients: u32, seed: u64) -> Result<Cut> {
        let tally = Arc::new(Mutex::new(Tally::new(clients)?));
        let mut cut =
            Cut { clients, seed, device: SimDevice::new(seed), tally, stop: Arc::default(), running: None };
        cut.again()?;
        Ok(cut)
    }

    /// Returns the number of acknowledged commits and the 99th percentile of the latency, like
    /// [`Killed::so_far`].
    pub fn so_far(&self) -> (u64, f64) {
        let tally = locked(&self.tally);
        (tally.acknowledged(), tally.p99_millis())
    }

    /// Returns whether the clients run.
    pub fn runs(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.is_finished())
    }

    /// Cuts the power, opens the database that the device has kept, and compares it with the
    /// acknowledgements.
    pub fn cut(&mut self) -> Result<Verdict> {
        if !self.runs() {
            self.end()?;
            return Err(Failure::failed("the clients of the simulated device ended by themselves"));
        }
        self.device.freeze();
        // The clients fail because the device is frozen.
        let _crashed = self.end();
        self.seed = self.seed.wrapping_add(1);
        self.device = self.device.reopen_after_crash(self.seed);
        let database = Database::open_in(self.device.directory(), clients::options())?;
        let verdict = locked(&self.tally).compare(&database)?;
        database.close()?;
        Ok(verdict)
    }

    /// Starts the clients again.
    pub fn again(&mut self) -> Result<()> {
        let database = Database::open_in(self.device.directory(), clients::options())?;
        let (tally, stop, clients) = (self.tally.clone(), Arc::<AtomicBool>::default(), self.clients);
        self.stop = stop.clone();
        self.running = Some(thread::spawn(move || {
            clients::run(&database, clients, &stop, |acks| {
                locked(&tally).note(acks);
                Ok(())
            })
        }));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.running.take().map_or(Ok(()), joined)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.device.freeze();
        let _crashed = self.end();
    }
}
