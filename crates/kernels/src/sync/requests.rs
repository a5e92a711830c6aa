//! Requests of callers that do not wait, in designs where every committer acts for itself. One
//! thread of the log acts as a further committer for all requests.
//!
//! A request is a level. The thread that takes the request makes everything reserved by then reach
//! that level. No record is missed, because four accesses are sequentially consistent: the caller
//! reserves and then reads the requests; the thread takes the requests and then reads the reserved
//! frontier.

use super::rounds::{Rounds, SyncProtocol};
use super::syncer::Syncers;
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU32, Ordering};
use std::fmt::Debug;

const WRITTEN: u32 = 1;
const DURABLE: u32 = 2;

/// A design in which every committer acts for itself.
pub(super) trait Committer: Send + Sync + Debug {
    /// See [`SyncProtocol::wait`].
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// See [`SyncProtocol::looks_at_frontiers`].
    fn looks_at_frontiers(&self) -> bool {
        true
    }
}

/// The protocol of a design `D` in which every committer acts for itself. The serving thread acts
/// as a committer of `D` for all requests.
#[derive(Debug)]
pub(super) struct Requested<D> {
    design: D,
    requests: Requests,
}

impl<D: Committer> Requested<D> {
    pub(super) fn new(design: D) -> Self {
        Requested { design, requests: Requests::new() }
    }
}

impl<D: Committer> SyncProtocol for Requested<D> {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        self.design.wait(rounds, end, level);
    }

    fn request(&self, rounds: &dyn Rounds, _: Lsn, level: Durability) {
        self.requests.make(rounds, level, |end, level| self.design.wait(rounds, end, level));
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.requests.run(rounds, number, |end, level| self.design.wait(rounds, end, level));
    }

    fn stop(&self) {
        self.requests.thread.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.requests.thread.wakeups()
    }

    fn looks_at_frontiers(&self) -> bool {
        self.design.looks_at_frontiers()
    }
}

/// Requested levels, and the thread that serves them.
#[derive(Debug)]
struct Requests {
    // The requested levels. Any caller sets bits; the serving thread takes them.
    requested: AtomicU32,
    thread: Syncers,
}

impl Requests {
    fn new() -> Self {
        Requests { requested: AtomicU32::new(0), thread: Syncers::new(1) }
    }

    /// Makes a request. If no thread can serve it, the caller serves it with `wait`.
    fn make(&self, rounds: &dyn Rounds, level: Durability, wait: impl Fn(Lsn, Durability)) {
        let request = match level {
            Durability::Buffered => return,
            Durability::Written => WRITTEN,
            Durability::Durable => DURABLE,
        };
        if self.requested.load(Ordering::SeqCst) & request != 0 {
            return;
        }
        // If there was a request already, the serving thread has been notified.
        if self.requested.fetch_or(request, Ordering::SeqCst) == 0 && !self.thread.give(rounds, 1) {
            self.serve(rounds, wait);
        }
    }

    /// The body of the thread that serves requests.
    fn run(&self, rounds: &dyn Rounds, number: usize, wait: impl Fn(Lsn, Durability)) {
        self.thread.run(number, || self.serve(rounds, &wait));
    }

    fn serve(&self, rounds: &dyn Rounds, wait: impl Fn(Lsn, Durability)) {
        loop {
            let requested = self.requested.swap(0, Ordering::SeqCst);
            if requested == 0 {
                return;
            }
            let level = if requested & DURABLE != 0 { Durability::Durable } else { Durability::Written };
            wait(rounds.reserved(), level);
        }
    }
}
