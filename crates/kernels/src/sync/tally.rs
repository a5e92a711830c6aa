//! What stage three counts. Relaxed: each counter stands for itself.

use crate::counter::Counter;

/// The counters of stage three of one log. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct SyncTally {
    /// Bytes of the log that became durable.
    pub durable_bytes: Counter,
    /// Bytes of the log on their way to durability, integrated over time.
    pub byte_ns: Counter,
    /// Time in writes and syncs that made something durable; side by side they count twice.
    pub sync_ns: Counter,
    /// Blocked callers that were released by another thread's write or sync.
    pub released: Counter,
    /// Times a blocked caller got to write or sync itself.
    pub locks: Counter,
    /// Time that those had waited for that.
    pub lock_ns: Counter,
    /// Time that the others had waited.
    pub completion_ns: Counter,
}

impl SyncTally {
    /// `callers` blocked callers are being released.
    pub fn told(&self, callers: u64) {
        if callers > 0 {
            self.released.add(callers);
        }
    }

    /// A blocked caller that has waited for `nanoseconds` writes and syncs itself from now on.
    pub fn got_lock(&self, nanoseconds: u64) {
        self.locks.add(1);
        self.lock_ns.add(nanoseconds);
    }

    /// A blocked caller has waited for `nanoseconds`, and was released, or leads.
    pub fn waited(&self, nanoseconds: u64, leads: bool) {
        if leads {
            self.got_lock(nanoseconds);
        } else {
            self.completion_ns.add(nanoseconds);
        }
    }
}
