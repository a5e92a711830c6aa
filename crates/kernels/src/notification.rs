//! A notification of a worker thread. Notifications that are given before the worker takes them
//! count as one.
//!
//! A thread first makes its change and then notifies. The worker first takes the notification and
//! then looks for changes, so it sees every change made before the notification. A thread that
//! finds a notification pending does not wake the worker: `pending` alone must make that thread's
//! change visible to the worker.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `pending` | threads that notify, the worker | the threads that write it | AcqRel exchanges |
//!
//! The worker takes the notification by an exchange, because a plain store would acquire nothing
//! from a thread that found `pending` set.

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
    /// Makes a notification that is not pending.
    pub fn new() -> Self {
        Notification { pending: AtomicBool::new(false) }
    }

    /// Notifies. Returns true if no notification was pending: the caller must then wake the worker.
    #[inline]
    pub fn give(&self) -> bool {
        !self.pending.swap(true, Ordering::AcqRel)
    }

    /// Takes the pending notification. The worker looks for changes after this call.
    pub fn take(&self) {
        self.pending.swap(false, Ordering::AcqRel);
    }
}
