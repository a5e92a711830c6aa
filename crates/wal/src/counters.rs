//! Counters of a log. Threads count while they hold the baton (the right to lead), or on slow
//! paths, where counting costs nothing.

use katydid_kernels::counter::Counter;
use katydid_kernels::sync::SyncTally;

/// The values of the counters at one moment. Each counter only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Writes to segments; a write takes one or more system calls.
    pub writes: u64,
    /// Durable writes and syncs. A sync that a protocol repeats counts, although it makes no more
    /// bytes durable.
    pub syncs: u64,
    /// Bytes handed to the device, rewritten partial blocks and padding included.
    pub bytes_written: u64,
    /// Bytes of the log that became durable.
    pub bytes_synced: u64,
    /// Blocked callers that another thread's write or sync released. `released / syncs` is the
    /// number of callers that each write or sync released.
    pub released: u64,
    /// Number of times that a blocked caller took the sync lock or led, and wrote or synced on its
    /// own thread.
    pub sync_locks: u64,
    /// Nanoseconds that the callers counted by `sync_locks` had waited for the sync lock or the
    /// baton.
    pub sync_lock_ns: u64,
    /// Nanoseconds that the callers counted by `released` had waited.
    pub completion_ns: u64,
    /// Queues of requests that were served; one thread syncs once for a whole queue (`Aggregated`).
    pub sync_queues: u64,
    /// Requests in the queues counted by `sync_queues`. `sync_queued / sync_queues` is the number
    /// of requests that a sync aggregated.
    pub sync_queued: u64,
    /// Slots in which committers met before the write (`Slotted`, and `Aggregated` with slots).
    pub slots: u64,
    /// Threads in the slots counted by `slots`. `slot_threads / slots` is the number of threads
    /// that a slot consolidated.
    pub slot_threads: u64,
    /// Nanoseconds that threads had waited for the thread that syncs for their slot. This time is
    /// part of `completion_ns`.
    pub slot_wait_ns: u64,
    /// Nanoseconds of the durable writes and the syncs. If writes overlap in time, each of them
    /// counts in full.
    pub sync_ns: u64,
    /// Bytes of the log on their way to durability, integrated over time. `byte_ns / bytes_synced`
    /// is the mean time in nanoseconds from a byte's reservation to its durability (Little's law).
    /// Updated at each durable write or sync.
    pub byte_ns: u64,
    /// Maximum writes in flight.
    pub depth: u32,
    /// Callbacks that have run.
    pub callbacks: u64,
    /// Appends that found the ring full or the space used up, or reached the run-ahead limit.
    pub stalls: u64,
    /// Bytes of the log that inserter `Chunked` has filled with padding.
    pub padding: u64,
    /// Bytes over which inserter `Grasshopper` crawled, record by record, to find the filled
    /// frontier.
    pub crawled: u64,
    /// Bytes over which inserter `Grasshopper` hopped, a filled range at a time, to find the filled
    /// frontier.
    pub hopped: u64,
    /// Times that syncer threads woke up.
    pub syncer_wakeups: u64,
    /// Times the maintenance thread woke up.
    pub maintenance_wakeups: u64,
    /// Times the tracker thread of `Grasshopper` or `Bitmap` woke up.
    pub tracker_wakeups: u64,
}

impl Counters {
    /// Returns the sums of two streams' counters; for `depth`, the larger value.
    pub(crate) fn plus(&self, other: &Counters) -> Counters {
        Counters {
            writes: self.writes + other.writes,
            syncs: self.syncs + other.syncs,
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_synced: self.bytes_synced + other.bytes_synced,
            released: self.released + other.released,
            sync_locks: self.sync_locks + other.sync_locks,
            sync_lock_ns: self.sync_lock_ns + other.sync_lock_ns,
            completion_ns: self.completion_ns + other.completion_ns,
            sync_queues: self.sync_queues + other.sync_queues,
            sync_queued: self.sync_queued + other.sync_queued,
            slots: self.slots + other.slots,
            slot_threads: self.slot_threads + other.slot_threads,
            slot_wait_ns: self.slot_wait_ns + other.slot_wait_ns,
            sync_ns: self.sync_ns + other.sync_ns,
            byte_ns: self.byte_ns + other.byte_ns,
            depth: self.depth.max(other.depth),
            callbacks: self.callbacks + other.callbacks,
            stalls: self.stalls + other.stalls,
            padding: self.padding + other.padding,
            crawled: self.crawled + other.crawled,
            hopped: self.hopped + other.hopped,
            syncer_wakeups: self.syncer_wakeups + other.syncer_wakeups,
            maintenance_wakeups: self.maintenance_wakeups + other.maintenance_wakeups,
            tracker_wakeups: self.tracker_wakeups + other.tracker_wakeups,
        }
    }
}

/// The counters of an open log. Accesses are Relaxed, because no counter orders other memory.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) writes: Counter,
    pub(crate) syncs: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) sync: SyncTally,
    pub(crate) callbacks: Counter,
    pub(crate) stalls: Counter,
}
