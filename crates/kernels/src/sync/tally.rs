//! Counters of a log's sync protocol, which makes filled bytes written and durable. All accesses
//! are relaxed, because the counters are independent.

use crate::counter::Counter;

/// The counters of the sync protocol of one log. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct SyncTally {
    /// Bytes of the log that became durable.
    pub durable_bytes: Counter,
    /// Bytes of the log that are not durable yet, integrated over time: bytes times nanoseconds.
    pub byte_ns: Counter,
    /// Time in writes and syncs that made bytes durable. The time of each of several concurrent
    /// writes counts in full.
    pub sync_ns: Counter,
    /// Number of blocked callers that another thread's write or sync has released.
    pub released: Counter,
    /// Number of times that a blocked caller became the thread that writes or syncs.
    pub locks: Counter,
    /// Time that blocked callers had waited before they became the thread that writes or syncs.
    pub lock_ns: Counter,
    /// Time that released callers had waited.
    pub completion_ns: Counter,
    /// Number of queues for which a thread has synced (`aggregated`).
    pub queues: Counter,
    /// Number of requests in the queues that `queues` counts.
    pub queued: Counter,
    /// Number of slots in which committers met before the write (`slotted`, and `aggregated` with
    /// slots).
    pub slots: Counter,
    /// Number of threads in the slots that `slots` counts.
    pub slot_threads: Counter,
    /// Time that threads had waited for the thread that syncs for their slot. `completion_ns`
    /// includes this time.
    pub slot_wait_ns: Counter,
}

impl SyncTally {
    /// Counts `callers` blocked callers that are being released.
    pub fn count_released(&self, callers: u64) {
        if callers > 0 {
            self.released.add(callers);
        }
    }

    /// Counts a queue for which a thread has synced. The queue had `requests` requests, including
    /// the thread's own.
    pub fn aggregated(&self, requests: u64) {
        self.queues.add(1);
        self.queued.add(requests);
        self.count_released(requests.saturating_sub(1));
    }

    /// Counts a closed slot with this number of threads.
    pub fn consolidated(&self, threads: u64) {
        self.slots.add(1);
        self.slot_threads.add(threads);
    }

    /// Counts `nanoseconds` that a thread has waited for the thread that syncs for its slot.
    pub fn waited_for_slot(&self, nanoseconds: u64) {
        self.slot_wait_ns.add(nanoseconds);
        self.waited(nanoseconds, false);
    }

    /// Counts a blocked caller that has waited for `nanoseconds`, and now writes and syncs itself.
    pub fn got_lock(&self, nanoseconds: u64) {
        self.locks.add(1);
        self.lock_ns.add(nanoseconds);
    }

    /// Counts `nanoseconds` that a blocked caller has waited. If `leads` is true, the caller now
    /// leads; if not, it was released.
    pub fn waited(&self, nanoseconds: u64, leads: bool) {
        if leads {
            self.got_lock(nanoseconds);
        } else {
            self.completion_ns.add(nanoseconds);
        }
    }
}
