//! References and metrics that threads do not share: one copy for each shard of threads.
//!
//! Any thread may call this code. A short transaction takes a reference to its database and drops
//! the reference within a microsecond. If all threads used one reference count, or one counter,
//! they would wait for its cache line.

use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared value with one reference count for each shard of threads. The value is dropped with the
/// last reference of any shard.
#[derive(Debug)]
pub(crate) struct ShardedArc<T> {
    value: Arc<T>,
    shards: Arc<[ShardRef<T>]>,
}

/// A reference to the value of a [`ShardedArc`], counted in the shard in which it was taken.
#[derive(Debug)]
pub(crate) struct ShardRef<T>(Arc<CachePadded<Arc<T>>>);

impl<T> ShardedArc<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        let shards = (0..SHARDS).map(|_| ShardRef::new(value.clone())).collect();
        ShardedArc { value, shards }
    }

    /// Returns the reference of the calling thread's shard.
    pub(crate) fn of_thread(&self) -> &ShardRef<T> {
        &self.shards[shard_of_thread()]
    }
}

impl<T> Clone for ShardedArc<T> {
    fn clone(&self) -> Self {
        ShardedArc { value: self.value.clone(), shards: self.shards.clone() }
    }
}

impl<T> Deref for ShardedArc<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T> ShardRef<T> {
    /// Makes a reference with a count of its own.
    pub(crate) fn new(value: Arc<T>) -> Self {
        ShardRef(Arc::new(CachePadded::new(value)))
    }
}

impl<T> Clone for ShardRef<T> {
    fn clone(&self) -> Self {
        ShardRef(self.0.clone())
    }
}

impl<T> Deref for ShardRef<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

/// An engine's metrics of one shard of threads. Accesses are relaxed, because metrics are only
/// reported.
#[derive(Debug, Default)]
struct Shard {
    commits: AtomicU64,
    rollbacks: AtomicU64,
    conflicts: AtomicU64,
    /// Number of transactions that began to write in this shard, minus the number that ended in it.
    /// The difference wraps around below zero if transactions moved between threads.
    writing: AtomicU64,
}

/// An engine's metrics.
#[derive(Debug)]
pub(crate) struct Metrics(Box<[CachePadded<Shard>]>);

/// Sums of [`Metrics`] over all shards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Commits of transactions that had written.
    pub(crate) commits: u64,
    /// Rollbacks of transactions that had written.
    pub(crate) rollbacks: u64,
    /// Calls that failed with a conflict.
    pub(crate) conflicts: u64,
    /// Transactions that have begun to write and not ended.
    pub(crate) writing: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics((0..SHARDS).map(|_| CachePadded::default()).collect())
    }
}

impl Metrics {
    fn shard(&self) -> &Shard {
        &self.0[shard_of_thread()]
    }

    /// Counts a commit of a transaction that has written.
    pub(crate) fn count_commit(&self) {
        self.shard().commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rollback of a transaction that has written.
    pub(crate) fn count_rollback(&self) {
        self.shard().rollbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that failed with a conflict.
    pub(crate) fn count_conflict(&self) {
        self.shard().conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a transaction that has begun to write.
    pub(crate) fn begins_to_write(&self) {
        self.shard().writing.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a transaction that has written.
    pub(crate) fn ends_writing(&self) {
        self.shard().writing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the sums over all shards.
    pub(crate) fn totals(&self) -> Totals {
        let of = |counter: fn(&Shard) -> &AtomicU64| {
            let parts = self.0.iter().map(|shard| counter(shard).load(Ordering::Relaxed));
            parts.fold(0, u64::wrapping_add)
        };
        Totals {
            commits: of(|shard| &shard.commits),
            rollbacks: of(|shard| &shard.rollbacks),
            conflicts: of(|shard| &shard.conflicts),
            writing: of(|shard| &shard.writing),
        }
    }
}
