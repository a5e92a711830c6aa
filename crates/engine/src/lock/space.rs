//! The locks of one table: points in hash-sharded ordered maps, ranges in a list. And the fast
//! paths.
//!
//! 1. `range_count` is the number of ranges in the list, granted and waiting. A range is counted
//!    before its acquirer visits the shards, and uncounted after it left the list; both under the
//!    range mutex.
//! 2. An exclusive lock is granted without the range mutex only in a critical section of the key's
//!    shard that reads a `range_count` of zero.
//!
//! Why a range and an exclusive point never miss each other: the range visits the point's shard
//! after it was counted. If the point's critical section comes before the visit, the visit sees the
//! holder. If it comes after, the mutex makes the count visible to it, it reads at least one as
//! long as the range is registered, and goes to the range mutex, under which the range is in the
//! list. A count that was read, so to say, one visit too early would be a phantom. (So the atomic
//! needs no ordering of its own; it is Acquire/AcqRel until a measurement shows a gain.)
//!
//! Threads: any. Ranks: range mutex < shards; no thread holds two shards.

use super::dependence::Dependence;
use super::entry::Entry;
use super::locked_keys::LockedKeys;
use super::mode::PointMode;
use super::range::{Interval, Ranges};
use super::resource::Resource;
use crate::Lsn;
use crate::ids::{TableId, TxnId};
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Shards of a table; a power of two. Enough that 64 threads rarely meet a preempted one in its
/// shard, few enough that visiting them all for a range costs less than reading a page.
const SHARD_BITS: u32 = 5;

/// A table lock is a point lock of the space of all tables, on the table's id and a stripe. In use:
/// one stripe, chosen by the transaction, so that the transactions of one table do not meet in one
/// place. To drop it: all stripes.
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
    /// The lock of `key`, vacant if no transaction has it.
    pub(super) fn entry(&mut self, key: &[u8]) -> &mut Entry {
        // Two searches, but the key is copied only if it is new.
        if self.entries.get_mut(key).is_none() {
            self.entries.insert(key, Entry::default());
        }
        self.entries.get_mut(key).expect("was just inserted")
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// Removes the lock of `key`, which is vacant.
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

/// Findings of a visit of all shards about an interval.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Other transactions that hold a key in it exclusively.
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
    /// The greatest commit end of a transaction that removed a key. Written before the
    /// transaction's locks go. So a thread that has seen in the key's shard that they went reads
    /// it; the shard's mutex orders the two.
    removed: AtomicU64,
    /// The table's name, for errors. A leaf latch; empty until the table gets its handle.
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

    /// The table whose keys these are.
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

    /// From now on errors call the table `name`.
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

    /// The hash of a key: folded multiplications, seeded so that keys which all fall into one shard
    /// cannot be prepared.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        fn fold(a: u64, b: u64) -> u64 {
            let product = u128::from(a) * u128::from(b);
            (product as u64) ^ ((product >> 64) as u64)
        }
        let (chunks, rest) = key.as_chunks::<8>();
        let mut hash = self.seed ^ (key.len() as u64).wrapping_mul(FACTOR);
        for chunk in chunks {
            hash = fold(hash ^ u64::from_le_bytes(*chunk), FACTOR);
        }
        let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        fold(hash ^ rest, FACTOR ^ self.seed)
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

    /// Uncounts ranges that were just removed.
    pub(super) fn uncount_ranges(&self, ranges: usize) {
        self.range_count.fetch_sub(ranges, Ordering::AcqRel);
    }

    /// Grants a point if nothing is in the way; returns what it depends on.
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
                // An upgrade changes what waiters wait for, so with waiters it takes the slow path.
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

    /// Dependency of a holder of the point hashed to `hash`, after a wait.
    pub(super) fn point_dependence(&self, hash: u64) -> Lsn {
        self.shard(hash).dependence.of_point(hash)
    }

    /// Visits all shards for what is in the way of a range.
    pub(super) fn survey(&self, txn: TxnId, interval: &Interval) -> Survey {
        let mut survey = Survey::default();
        for shard in &self.shards {
            // Lets writers run between two visits, where a mistake about the order would show.
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

    /// Dependency of a holder of an interval that has these keys, and no others: on the
    /// transactions that wrote them, and on each transaction that removed a key, because nothing
    /// shows where a key was. It is nearer than the dependency that the grant of the interval has
    /// returned.
    pub(crate) fn dependence_of<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Lsn {
        let removed = Lsn::new(self.removed.load(Ordering::Acquire));
        keys.map(|key| self.point_dependence(self.hash(key))).fold(removed, Lsn::max)
    }

    /// Leaves behind the commit end of a transaction that removed a key and is about to release its
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
