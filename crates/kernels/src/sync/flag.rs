//! The completion flag of a committer for which another thread syncs.
//!
//! The flag is one atomic, `signal`, which is WAITING at first. The syncing thread stores DONE
//! (Release) when the request is completed. To ask the owner to try the sync lock, the syncing
//! thread exchanges WAITING for TRY. The owner reads the flag (Acquire), and changes TRY back to
//! WAITING. DONE is final: after storing it the syncing thread only wakes the owner.

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
    /// Makes a request of the calling thread.
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
                // The exchange fails if the request was completed in the meantime.
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

    /// Completes the request and wakes its owner, unless the caller is the owner (`owner`).
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
