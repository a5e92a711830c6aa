//! Spreading threads over what they need not share.
//!
//! Each thread draws a number once, so that a log session, free slots and counters of a shard are
//! mostly touched by one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Shards: a power of two, at least the number of threads that are expected to commit at once.
pub(crate) const SHARDS: usize = 64;

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

/// Runs `work` on a thread that has a number of its test's choice, instead of one that depends on
/// the tests beside it. The numbers begin where no drawn one comes.
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

/// The number of the calling thread, which no other thread ever had.
pub(crate) fn thread_number() -> usize {
    #[cfg(test)]
    if let Some(number) = CHOSEN.get() {
        return number;
    }
    // While a thread's locals are being destroyed it has none.
    THREAD.try_with(|thread| *thread).unwrap_or(usize::MAX)
}

/// The shard of the calling thread.
pub(crate) fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}
