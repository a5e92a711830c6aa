//! The index of a table: the table's keys in order and by hash.
//!
//! Any thread runs this code. The directory maps lower fences to leaves; the first leaf begins at
//! the empty key. A thread takes the directory's latch exclusively only to split a full leaf, to
//! join an empty leaf with its neighbour, or to put in the leaves of a loaded table. A thread that
//! holds a leaf's latch holds the directory's latch shared. No thread waits for a transaction under
//! these latches. These latches have rank 6. A thread takes them in this order: the directory's,
//! one leaf's, one shard's of the hash table, one chain's.

mod fence;
mod leaf;
mod ordering;
mod points;
#[cfg(test)]
mod tests;

use super::found::{Bytes, RecoveredVersion};
use super::record::{Key, Record};
use crate::direction::Direction;
use crate::ids::TableId;
use crate::latch::{RwLock, ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use fence::Fence;
use katydid_kernels::txn::Timestamp;
use leaf::Leaf;
use points::Points;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

type Directory = BTreeMap<Fence, RwLock<Leaf>>;

/// The end of a walk, or the fence at which the walk continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reached {
    /// The walk has reached the bound.
    End,
    /// The walk has reached this fence. The remaining keys of an upward walk lie at or above the
    /// fence, those of a downward walk lie below the fence.
    Fence(Key),
}

/// Error: the key's gap was found empty at this timestamp, which is later than the writer's.
#[derive(Debug)]
pub(super) struct GapRead(pub(super) Timestamp);

pub(super) struct Index {
    table: TableId,
    directory: ShardedLock<Directory>,
    points: Points,
}

impl Index {
    pub(super) fn new(table: TableId) -> Self {
        let first = (Fence::at(b""), RwLock::new(Leaf::new(Timestamp::ZERO)));
        Index { table, directory: ShardedLock::new(Directory::from([first])), points: Points::new() }
    }

    fn shared(&self) -> ShardedLockReadGuard<'_, Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> ShardedLockWriteGuard<'_, Directory> {
        self.directory.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of records, including those without a value.
    pub(super) fn records(&self) -> u64 {
        self.points.len()
    }

    /// The hash of `key` for [`Index::get_hashed`].
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.points.hash(key)
    }

    /// The record of `key`, if there is one.
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Record>> {
        self.get_hashed(self.hash(key), key)
    }

    /// The record of `key`, found by the key's hash.
    pub(super) fn get_hashed(&self, hash: u64, key: &[u8]) -> Option<Arc<Record>> {
        self.points.get(hash, key)
    }

    /// Loads versions that recovery has read; see [`Points::load`]. The ordered index gets their
    /// keys only when recovery calls `Index::put_in_order` (`ordering.rs`).
    pub(super) fn load(
        &self,
        found: &[RecoveredVersion<'_>],
        bytes: &mut Bytes,
        deleted: &mut Vec<Arc<Record>>,
    ) {
        self.points.load(self.table, found, bytes, deleted);
    }

    /// The record of `key` for a writer at `timestamp`, and whether this call has made it.
    pub(super) fn get_or_insert(
        &self,
        key: &[u8],
        timestamp: Timestamp,
    ) -> Result<(Arc<Record>, bool), GapRead> {
        if let Some(record) = self.get(key) {
            return Ok((record, false));
        }
        loop {
            let directory = self.shared();
            let Some((_, leaf)) = directory.range(..=Fence::at(key)).next_back() else { continue };
            let mut leaf = leaf.write();
            let at = match leaf.find(key) {
                Ok(at) => return Ok((leaf.record(at).clone(), false)),
                Err(at) => at,
            };
            let rts = leaf.gap_rts(at);
            if rts > timestamp {
                return Err(GapRead(rts));
            }
            if !leaf.is_full() {
                let record = Arc::new(Record::new(self.table, Key::from_slice(key), rts));
                leaf.insert(at, record.clone());
                self.points.add(record.clone());
                return Ok((record, true));
            }
            drop(leaf);
            drop(directory);
            self.make_room(key);
        }
    }

    fn make_room(&self, key: &[u8]) {
        let mut directory = self.exclusive();
        let Some((_, leaf)) = directory.range_mut(..=Fence::at(key)).next_back() else { return };
        let leaf = leaf.get_mut();
        if let Err(at) = leaf.find(key)
            && leaf.is_full()
        {
            let (fence, above) = leaf.split(at, key);
            directory.insert(Fence::at(&fence), RwLock::new(above));
        }
    }

    /// Removes a record if `can_go` returns true for its chain. Returns whether the record had a
    /// version, or `None` if the record was not removed.
    pub(super) fn remove_if(
        &self,
        record: &Arc<Record>,
        can_go: impl FnOnce(&super::record::Chain) -> bool,
    ) -> Option<bool> {
        let directory = self.shared();
        let (fence, leaf) = directory.range(..=Fence::at(&record.key)).next_back()?;
        let mut leaf = leaf.write();
        let at = leaf.find(&record.key).ok()?;
        if !Arc::ptr_eq(leaf.record(at), record) {
            return None;
        }
        let mut chain = record.chain();
        if !can_go(&chain) {
            return None;
        }
        let (rts, had_version) = chain.take_out();
        drop(chain);
        leaf.remove(at, rts);
        self.points.remove(&record.key);
        if leaf.is_empty() && !fence.key().is_empty() {
            let fence = fence.clone();
            drop(leaf);
            drop(directory);
            self.give_away(&fence);
        }
        Some(had_version)
    }

    /// Gives the interval of an empty leaf to the leaf below.
    fn give_away(&self, fence: &Fence) {
        let mut directory = self.exclusive();
        if directory.get_mut(fence).is_none_or(|leaf| !leaf.get_mut().is_empty()) {
            return;
        }
        if let Some(mut empty) = directory.remove(fence)
            && let Some((_, below)) = directory.range_mut(..fence.clone()).next_back()
        {
            below.get_mut().join(empty.get_mut());
        }
    }

    /// Adds to `out` those records of an interval that lie in the first leaf of the walk, in the
    /// order of the walk.
    pub(super) fn walk(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        out: &mut impl Extend<Arc<Record>>,
    ) -> Reached {
        match direction {
            Direction::Up => {
                self.lowest(from, to, |leaf| out.extend(leaf.records(leaf.within(from, to)).cloned()))
            }
            Direction::Down => {
                self.highest(from, to, |leaf| out.extend(leaf.records(leaf.within(from, to)).rev().cloned()))
            }
        }
    }

    /// Adds to `out` those records of an interval that lie in the lowest leaf of the interval. Also
    /// raises the read timestamps of the leaf's gaps that overlap the interval to at least `rts`.
    /// The call does both under one latch, so each key is either found now, or inserted only at a
    /// later timestamp.
    pub(super) fn pass(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rts: Timestamp,
        out: &mut impl Extend<Arc<Record>>,
    ) -> Reached {
        self.lowest(from, to, |leaf| {
            let within = leaf.within(from, to);
            leaf.raise(from, to, within.clone(), rts);
            out.extend(leaf.records(within).cloned());
        })
    }

    fn lowest(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: impl FnOnce(&Leaf)) -> Reached {
        let directory = self.shared();
        let first = match from {
            Bound::Unbounded => directory.first_key_value(),
            Bound::Included(key) | Bound::Excluded(key) => directory.range(..=Fence::at(key)).next_back(),
        };
        let Some((fence, leaf)) = first else { return Reached::End };
        visit(&leaf.read());
        match directory.range((Bound::Excluded(fence), Bound::Unbounded)).next() {
            Some((next, _)) if is_above(to, next.key()) => Reached::Fence(Key::from_slice(next.key())),
            _ => Reached::End,
        }
    }

    fn highest(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: impl FnOnce(&Leaf)) -> Reached {
        let directory = self.shared();
        let last = match to {
            Bound::Unbounded => directory.last_key_value(),
            Bound::Included(key) => directory.range(..=Fence::at(key)).next_back(),
            Bound::Excluded(key) => directory.range(..Fence::at(key)).next_back(),
        };
        let Some((fence, leaf)) = last else { return Reached::End };
        visit(&leaf.read());
        let is_first = match from {
            Bound::Unbounded => fence.key().is_empty(),
            Bound::Included(key) | Bound::Excluded(key) => fence.key() <= key,
        };
        if is_first { Reached::End } else { Reached::Fence(Key::from_slice(fence.key())) }
    }
}

/// Returns whether `key` lies within the upper bound `to`.
fn is_above(to: Bound<&[u8]>, key: &[u8]) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(to) => to >= key,
        Bound::Excluded(to) => to > key,
    }
}
