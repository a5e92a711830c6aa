//! The log's background threads: starting, stopping and joining them, and doing their work on the
//! caller's thread if there are none.
//!
//! A background thread keeps the inside of the log alive until the thread ends; dropping the last
//! handle ends the threads (`log.rs`).

use super::{Core, locked};
use crate::options::Background;
use katydid_device::Verb;
use katydid_kernels::insert;

impl Core {
    /// Starts the maintenance thread if the medium prepares space ahead, and the tracker if the
    /// inserter has one. The protocol starts syncer threads when it first needs them.
    pub(crate) fn start_threads(&self) -> std::io::Result<()> {
        if self.background == Background::Caller {
            return Ok(());
        }
        if self.medium.is_prepared_ahead() {
            self.spawn("katydid-log-maintenance", |core| {
                core.maintenance.run(|reach| core.medium.prepare(core, reach), |error| core.fail(error));
            })?;
        }
        if self.inserter.tracker().is_none() {
            return Ok(());
        }
        // The tracker advances the filled frontier, which limits how far appenders run ahead.
        self.spawn("katydid-log-tracker", |core| {
            insert::track(&*core.inserter, &core.buffer, || core.refresh())
        })
    }

    pub(super) fn spawn(&self, name: &str, body: impl FnOnce(&Core) + Send + 'static) -> std::io::Result<()> {
        let Some(core) = self.me.upgrade() else { return Err(std::io::ErrorKind::NotFound.into()) };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || core.guarded(Verb::Write, || body(&core)).unwrap_or(()))?;
        locked(&self.threads).push(thread);
        Ok(())
    }

    /// Makes the background threads end.
    pub(crate) fn stop_threads(&self) {
        self.protocol.stop();
        self.maintenance.stop();
        self.stop_tracker();
    }

    /// Waits for the end of the background threads.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *locked(&self.threads));
        for thread in threads {
            // A thread cannot join itself: a directory's code, which runs on a background thread,
            // may drop the last handle. Wakers run on none of these threads (`wakers.rs`).
            if thread.thread().id() != std::thread::current().id() {
                // The thread itself has reported its panic.
                let _panicked = thread.join();
            }
        }
    }

    pub(super) fn stop_tracker(&self) {
        if let Some(tracker) = self.inserter.tracker() {
            tracker.stop();
        }
    }

    /// Does the work requested of the maintenance thread, if the log has none.
    pub(crate) fn maintain_here(&self) {
        if self.background == Background::Caller {
            self.maintenance.run_pending(|reach| self.medium.prepare(self, reach), |error| self.fail(error));
        }
    }

    /// Does the work requested of background threads, if the log has none.
    pub(crate) fn run_background(&self) {
        if self.background == Background::Caller {
            self.protocol.serve(self, 0);
            self.maintain_here();
            self.wakers.call_due();
        }
    }
}
