//! The log's background threads: started, told to end, waited for; and the thread that does their
//! work where there are none.
//!
//! Each thread keeps the inside of the log until it ends; dropping the last handle ends the threads
//! (`log.rs`).

use super::{Core, locked};
use crate::options::Background;
use katydid_device::Verb;
use katydid_kernels::insert;

impl Core {
    /// Starts those that a log always has; the syncer comes when it is first needed.
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
        // Appenders may run so far ahead of what it found.
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

    /// Tells the background threads to end.
    pub(crate) fn stop_threads(&self) {
        self.protocol.stop();
        self.maintenance.stop();
        self.stop_tracker();
    }

    /// Waits for the end of the background threads.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *locked(&self.threads));
        for thread in threads {
            // A thread cannot wait for itself, should the code of a directory that runs on it drop
            // the last handle. Wakers run on none of these (`wakers.rs`).
            if thread.thread().id() != std::thread::current().id() {
                // A panic there has been reported by the thread itself.
                let _panicked = thread.join();
            }
        }
    }

    pub(super) fn stop_tracker(&self) {
        if let Some(tracker) = self.inserter.tracker() {
            tracker.stop();
        }
    }

    /// Does what was asked of the maintenance thread, if there is to be none.
    pub(crate) fn maintain_here(&self) {
        if self.background == Background::Caller {
            self.maintenance.run_pending(|reach| self.medium.prepare(self, reach), |error| self.fail(error));
        }
    }

    /// Does what was requested of background threads, if there are to be none.
    pub(crate) fn run_background(&self) {
        if self.background == Background::Caller {
            self.protocol.serve(self, 0);
            self.maintain_here();
            self.wakers.call_due();
        }
    }
}
