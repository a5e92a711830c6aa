//! A notification of a worker: those that come before the worker takes one count as one.
//!
//! Any thread notifies, after it has changed what the work is to see. The worker takes the
//! notification before it looks. Each change is seen by the work that follows its notification. A
//! thread that finds a notification pending does nothing more: the word alone must show the worker
//! what that thread has changed.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `pending` | threads that notify, the worker when it takes it | the same | exchanges, AcqRel: a plain store of the worker would acquire nothing from a thread that found it pending |

use crate::sync_shim::{AtomicBool, Ordering};

#[cfg(test)]
mod checks;

/// See the head of this file.
#[derive(Debug)]
pub struct Notification {
    pending: AtomicBool,
}

impl Default for Notification {
    fn default() -> Self {
        Self::new()
    }
}

impl Notification {
    /// Makes one that is not pending.
    pub fn new() -> Self {
        Notification { pending: AtomicBool::new(false) }
    }

    /// Notifies. Returns whether the caller must wake the worker: no notification was pending.
    #[inline]
    pub fn give(&self) -> bool {
        !self.pending.swap(true, Ordering::AcqRel)
    }

    /// Takes the pending notification. The worker reads its work after this.
    pub fn take(&self) {
        self.pending.swap(false, Ordering::AcqRel);
    }
}
