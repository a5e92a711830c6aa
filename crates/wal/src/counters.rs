//! What the log has done so far, counted where it costs nothing: by the holder of the baton, or on slow paths.

use crate::sync_shim::{AtomicU64, Ordering};

/// A look at the counters; each only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Writes to segments (each one or more system calls).
    pub writes: u64,
    /// Writes and syncs after which more was durable.
    pub syncs: u64,
    /// Bytes handed to the device, rewritten partial blocks and padding included.
    pub bytes_written: u64,
    /// Bytes of the log that became durable.
    pub bytes_synced: u64,
    /// Blocked callers that were released by somebody else's write or sync.
    pub released: u64,
    /// Callbacks that have run.
    pub callbacks: u64,
    /// Appends that met a full ring, used-up space or the run-ahead limit.
    pub stalls: u64,
    /// Bytes of the log that inserter `Chunked` has filled with padding.
    pub padding: u64,
    /// Bytes that inserter `Grasshopper` found filled by crawling.
    pub crawled: u64,
    /// Bytes that inserter `Grasshopper` found filled by hopping.
    pub hopped: u64,
    /// Times the syncer thread woke up.
    pub syncer_wakeups: u64,
    /// Times the maintenance thread woke up.
    pub maintenance_wakeups: u64,
    /// Times the tracker thread of `Grasshopper` or `Bitmap` woke up.
    pub tracker_wakeups: u64,
}

/// The counters themselves. Relaxed: each stands for itself.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    // The holder of the baton writes the first five, without read-modify-write.
    pub(crate) writes: Counter,
    pub(crate) syncs: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) bytes_synced: Counter,
    pub(crate) released: Counter,
    // Any thread.
    pub(crate) callbacks: Counter,
    pub(crate) stalls: Counter,
}

/// One number that only grows.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Counter(AtomicU64::new(0))
    }
}

impl Counter {
    /// For a single writer at a time.
    pub(crate) fn add_alone(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// For any thread.
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
