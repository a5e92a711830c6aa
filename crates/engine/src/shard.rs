//! Distributes threads over shards of data that they need not share.
//!
//! Each thread draws a number once; the number modulo [`SHARDS`] is the thread's shard. So the log
//! session, the free slots and the counters of a shard are mostly used by one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of shards: a power of two, at least the number of threads that are expected to commit at
/// once.
pub(crate) const SHARDS: usize = 64;

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

/// Runs `work` while the calling thread has a number that the test chooses. A drawn number would
/// depend on the tests that run at the same time. Chosen numbers are above all drawn ones.
#[cfg(test)]
pub(crate) fn with_number<R>(number: usize, work: impl FnOnce() -> R) -> R {
    CHOSEN.set(Some((SHARDS << 32) + number));
    let result = work();
    CHOSEN.set(None);
    result
}

#[cfg(test)]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Returns the number of the calling thread, which no other thread ever had.
pub(crate) fn thread_number() -> usize {
    #[cfg(test)]
    if let Some(number) = CHOSEN.get() {
        return number;
    }
    // A thread has no number while its locals are being destroyed.
    THREAD.try_with(|thread| *thread).unwrap_or(usize::MAX)
}

/// Returns the shard of the calling thread.
pub(crate) fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}
