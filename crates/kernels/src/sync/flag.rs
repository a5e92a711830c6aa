//! The completion flag of a committer that another thread syncs for.
//!
//! One atomic: `signal`, WAITING at first. Set by the thread that syncs (Release), read by the
//! owner (Acquire), which takes TRY back. DONE is final: after it the syncing thread touches the
//! request no more, except to wake its owner.

use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU32, Ordering, Thread, current, park, return_token};

const WAITING: u32 = 0;
const TRY: u32 = 1;
const DONE: u32 = 2;

/// A request to sync the log up to `end`. See the head of this file.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) end: Lsn,
    thread: Thread,
    signal: AtomicU32,
}

impl Request {
    /// The calling thread's request.
    pub(super) fn new(end: Lsn) -> Self {
        Request { end, thread: current(), signal: AtomicU32::new(WAITING) }
    }

    /// Blocks the owner until the request is completed (true), or the owner is asked to try the
    /// lock (false).
    pub(super) fn wait(&self) -> bool {
        let mut parked = false;
        let is_completed = loop {
            match self.signal.load(Ordering::Acquire) {
                DONE => break true,
                // Back to WAITING, unless it was completed in the meantime.
                TRY if self.change(TRY, WAITING) => break false,
                TRY => {}
                _ => {
                    park();
                    parked = true;
                }
            }
        };
        if parked {
            return_token();
        }
        is_completed
    }

    /// Completes the request; `owner` says whether the caller owns it, and so need not be woken.
    pub(super) fn complete(&self, owner: bool) {
        self.signal.store(DONE, Ordering::Release);
        if !owner {
            self.thread.unpark();
        }
    }

    /// Asks the owner to try the lock, unless the request is completed.
    pub(super) fn ask_to_try(&self) {
        if self.change(WAITING, TRY) {
            self.thread.unpark();
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.signal.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
