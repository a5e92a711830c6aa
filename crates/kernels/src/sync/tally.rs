//! Counters of stage three. Relaxed: each counter stands for itself.

use crate::counter::Counter;

/// The counters of stage three of one log. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct SyncTally {
    /// Bytes of the log that became durable.
    pub durable_bytes: Counter,
    /// Bytes of the log on their way to durability, integrated over time.
    pub byte_ns: Counter,
    /// Time in writes and syncs that made bytes durable. Writes in flight at the same time count
    /// each.
    pub sync_ns: Counter,
    /// Blocked callers that were released by another thread's write or sync.
    pub released: Counter,
    /// Number of times that a blocked caller wrote or synced itself.
    pub locks: Counter,
    /// Time that those callers had waited until they could.
    pub lock_ns: Counter,
    /// Time that the other callers had waited.
    pub completion_ns: Counter,
    /// Queues that a thread synced for (`aggregated`).
    pub queues: Counter,
    /// Requests in those queues.
    pub queued: Counter,
    /// Slots in which committers met before the write (`slotted`, and `aggregated` with slots).
    pub slots: Counter,
    /// Threads in those slots.
    pub slot_threads: Counter,
    /// Time that threads had waited for the thread that syncs for their slot; it is in
    /// `completion_ns` too.
    pub slot_wait_ns: Counter,
}

impl SyncTally {
    /// Counts `callers` blocked callers that are being released.
    pub fn told(&self, callers: u64) {
        if callers > 0 {
            self.released.add(callers);
        }
    }

    /// Counts a queue of this number of requests that a thread has synced for, its own request
    /// included.
    pub fn aggregated(&self, requests: u64) {
        self.queues.add(1);
        self.queued.add(requests);
        self.told(requests.saturating_sub(1));
    }

    /// Counts a slot of this number of threads that was closed.
    pub fn consolidated(&self, threads: u64) {
        self.slots.add(1);
        self.slot_threads.add(threads);
    }

    /// Counts `nanoseconds` that a thread has waited for the one that syncs for its slot.
    pub fn waited_for_slot(&self, nanoseconds: u64) {
        self.slot_wait_ns.add(nanoseconds);
        self.waited(nanoseconds, false);
    }

    /// Counts a blocked caller that has waited for `nanoseconds`, and writes and syncs itself from
    /// now on.
    pub fn got_lock(&self, nanoseconds: u64) {
        self.locks.add(1);
        self.lock_ns.add(nanoseconds);
    }

    /// Counts `nanoseconds` that a blocked caller has waited before it was released, or leads.
    pub fn waited(&self, nanoseconds: u64, leads: bool) {
        if leads {
            self.got_lock(nanoseconds);
        } else {
            self.completion_ns.add(nanoseconds);
        }
    }
}
