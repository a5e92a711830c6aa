//! The locks of one table: points in hash-sharded ordered maps, ranges in a list. This file also
//! has the fast paths, which grant a lock without a wait.
//!
//! Rules:
//!
//! 1. `range_count` is the number of granted and waiting ranges in the list. The acquirer of a
//!    range counts the range before it visits the shards. A thread that removes a range from the
//!    list lowers the count afterwards. Either thread holds the range mutex meanwhile.
//! 2. An exclusive lock is granted without the range mutex only in a critical section of the key's
//!    shard that reads a `range_count` of zero.
//!
//! Why a range and an exclusive point always find each other: the acquirer of the range visits the
//! point's shard after it has counted the range. If the point's critical section comes before the
//! visit, the visit finds the holder. If the critical section comes after the visit, the shard's
//! mutex makes the count visible. The writer then reads a count of at least one as long as the
//! range is registered, takes the range mutex, and finds the range in the list. If a range were
//! counted after the visit, a writer could read zero in between, and the scan would miss the
//! writer's key: a phantom. (The shards' mutexes order the accesses, so the atomic needs no
//! ordering of its own; it is Acquire/AcqRel until a measurement shows that Relaxed is faster.)
//!
//! Any thread runs this code. The range mutex is taken before a shard's mutex; no thread holds two
//! shards.

use super::dependence::Dependence;
use super::entry::Entry;
use super::locked_keys::LockedKeys;
use super::mode::PointMode;
use super::range::{Interval, Ranges};
use super::resource::Resource;
use crate::Lsn;
use crate::ids::{TableId, TxnId};
use crate::key_hash;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Binary logarithm of the number of shards of a table. With 32 shards, 64 threads rarely wait for
/// a preempted thread that holds a shard, and a visit of all shards costs less than reading a page.
const SHARD_BITS: u32 = 5;

/// Number of stripes of a table lock. A table lock is a point lock in the space of all tables, on
/// the table's id and a stripe. A transaction that uses the table locks one stripe, chosen by the
/// transaction's id, so that the transactions of one table do not contend for one lock. A
/// transaction that drops, checks or bulk-loads the table locks all stripes.
pub(super) const STRIPES: u8 = 8;

/// Kind of the keys of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Stripes of tables.
    Tables,
    /// Keys of one table.
    Of(TableId),
}

/// One shard: the locked keys hashed to it.
#[derive(Debug, Default)]
pub(super) struct Shard {
    entries: LockedKeys,
    pub(super) dependence: Dependence,
}

impl Shard {
    /// The lock of `key`; adds a vacant one if there is none.
    pub(super) fn entry(&mut self, key: &[u8]) -> &mut Entry {
        // Two searches cost less than a copy of the key, and only a new key needs the copy.
        if self.entries.get_mut(key).is_none() {
            self.entries.insert(key, Entry::default());
        }
        self.entries.get_mut(key).expect("was just inserted")
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// Removes the lock of `key`, which must be vacant.
    pub(super) fn remove(&mut self, key: &[u8]) {
        self.entries.remove(key);
    }

    /// Removes the lock of `key` if it is vacant.
    pub(super) fn tidy(&mut self, key: &[u8]) {
        if self.entries.get_mut(key).is_some_and(|entry| entry.is_vacant()) {
            self.entries.remove(key);
        }
    }
}

/// The result of a visit of all shards for an interval.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Other transactions that hold a key in the interval exclusively.
    pub(super) writers: Vec<TxnId>,
    /// Dependency of a holder of the interval.
    pub(super) depends_on: Lsn,
}

/// The lock space of one table.
#[derive(Debug)]
pub(crate) struct LockSpace {
    keys: Keys,
    seed: u64,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    pub(super) ranges: Mutex<Ranges>,
    range_count: AtomicUsize,
    /// The greatest commit end of a transaction that removed a key. The transaction writes this
    /// value before it releases its locks. So a thread that finds the key's lock released also
    /// reads this value; the mutex of the key's shard orders the write before the read.
    removed: AtomicU64,
    /// The table's name, for errors. No other latch is taken under this mutex. The name is empty
    /// until the table gets its handle.
    name: Mutex<Arc<str>>,
}

impl LockSpace {
    pub(super) fn new(keys: Keys, seed: u64) -> Self {
        LockSpace {
            keys,
            seed,
            shards: (0..1 << SHARD_BITS).map(|_| CachePadded::default()).collect(),
            ranges: Mutex::default(),
            range_count: AtomicUsize::new(0),
            removed: AtomicU64::new(0),
            name: Mutex::default(),
        }
    }

    /// The table of this space.
    pub(crate) fn table(&self) -> TableId {
        match self.keys {
            Keys::Of(table) => table,
            Keys::Tables => TableId::CATALOG,
        }
    }

    /// The table's name.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }

    /// Sets the table's name, for errors.
    pub(crate) fn set_name(&self, name: &str) {
        *self.name.lock() = name.into();
    }

    pub(super) fn resource(&self, key: &[u8]) -> Resource {
        match self.keys {
            Keys::Of(table) => Resource::Point(table, key.into()),
            Keys::Tables => {
                let id = key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
                Resource::Table(TableId::new(id))
            }
        }
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        key_hash::hash(self.seed, key)
    }

    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[(hash >> (64 - SHARD_BITS)) as usize].lock()
    }

    pub(super) fn has_ranges(&self) -> bool {
        self.range_count.load(Ordering::Acquire) != 0
    }

    /// Counts a range that was just registered.
    pub(super) fn count_range(&self) {
        self.range_count.fetch_add(1, Ordering::AcqRel);
    }

    /// Subtracts ranges that were just removed.
    pub(super) fn uncount_ranges(&self, ranges: usize) {
        self.range_count.fetch_sub(ranges, Ordering::AcqRel);
    }

    /// Grants a point if no lock or waiter blocks it, and returns its dependency. While the table
    /// has ranges, no exclusive point is granted here.
    pub(super) fn try_point(
        &self,
        txn: TxnId,
        hash: u64,
        key: &[u8],
        mode: PointMode,
        upgrade: bool,
    ) -> Option<Lsn> {
        let mut shard = self.shard(hash);
        if mode == PointMode::Exclusive && self.has_ranges() {
            return None;
        }
        match shard.entries.get_mut(key) {
            None => shard.entries.insert(key, Entry::held_by(txn, mode)),
            Some(entry) => {
                let queue = entry.queue();
                // An upgrade changes the edges of waiters, so it takes the slow path if there are
                // waiters.
                if entry.is_held_against(txn, mode)
                    || queue.iter().any(|waiter| upgrade || !mode.admits(waiter.mode))
                {
                    return None;
                }
                entry.hold(txn, mode);
            }
        }
        Some(shard.dependence.of_point(hash))
    }

    /// Returns whether a transaction holds the key exclusively.
    pub(crate) fn has_writer(&self, key: &[u8]) -> bool {
        let mut shard = self.shard(self.hash(key));
        shard.get_mut(key).is_some_and(|entry| entry.writer().is_some())
    }

    /// Dependency of a holder of the point hashed to `hash`, after a wait.
    pub(super) fn point_dependence(&self, hash: u64) -> Lsn {
        self.shard(hash).dependence.of_point(hash)
    }

    /// Visits all shards and returns the writers inside an interval, and the dependency of the
    /// interval's holder.
    pub(super) fn survey(&self, txn: TxnId, interval: &Interval) -> Survey {
        let mut survey = Survey::default();
        for shard in &self.shards {
            // In tests, some acquirers yield between two visits, so that writers run there. So a
            // test would fail if shards were visited before the range was counted.
            #[cfg(test)]
            if txn.get().is_multiple_of(4) {
                std::thread::yield_now();
            }
            let shard = shard.lock();
            survey.depends_on = survey.depends_on.max(shard.dependence.of_interval());
            if shard.entries.is_empty() {
                continue;
            }
            for entry in shard.entries.between(interval.as_bounds()) {
                if let Some(writer) = entry.writer()
                    && writer != txn
                    && survey.writers.last() != Some(&writer)
                    && !survey.writers.contains(&writer)
                {
                    survey.writers.push(writer);
                }
            }
        }
        survey
    }

    /// Dependency of a holder of any interval, after a wait.
    pub(super) fn interval_dependence(&self) -> Lsn {
        self.shards.iter().map(|shard| shard.lock().dependence.of_interval()).max().unwrap_or_default()
    }

    /// Returns the commit end on which a holder of an interval depends, if `keys` are all keys in
    /// the interval. The holder depends on the transactions that wrote these keys. It also depends
    /// on each transaction that removed a key of the table, because a removed key leaves no trace,
    /// and may have been in the interval. Mostly the result is below the commit end that the grant
    /// of the interval has returned. The result may be above it, if a commit since then has removed
    /// another key or shares a bucket.
    pub(crate) fn dependence_of<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Lsn {
        let removed = Lsn::new(self.removed.load(Ordering::Acquire));
        keys.map(|key| self.point_dependence(self.hash(key))).fold(removed, Lsn::max)
    }

    /// Publishes the commit end of a transaction that removed a key and is about to release its
    /// locks.
    pub(super) fn publish_removal(&self, commit_end: Lsn) {
        self.removed.fetch_max(commit_end.get(), Ordering::AcqRel);
    }

    /// Returns whether nothing is held or waited for.
    #[cfg(test)]
    pub(super) fn is_vacant(&self) -> bool {
        let shards = self.shards.iter().all(|shard| shard.lock().entries.is_empty());
        shards && self.ranges.lock().is_vacant() && !self.has_ranges()
    }
}
