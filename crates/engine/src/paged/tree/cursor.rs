//! Scanning in both directions: a batch of entries of one leaf at a time, copied under its latch, and the bound to go on from.
//!
//! No latch is held between two batches. What happens to the pages meanwhile does not matter: the next batch is found from the
//! root, by the last key or the leaf's fence. Keys that come or go between two batches are the business of locks.
//!
//! Who has locked what a batch covers has to know that it is still so. Every change of a leaf raises its page LSN, under its latch, and
//! a leaf that is merged away is formatted as a free page; so a leaf of the same LSN has the same entries, and is the leaf of its keys.
//! Leaves may be looked at one after the other: what is locked no longer changes, only where it lies.

use super::descend::{Target, expect_node};
use super::{Chain, Tree};
use crate::paged::page::{LeafRef, PageId, Value};
use crate::paged::pool::{PageRead, Pool};
use crate::{Lsn, Result};
use std::ops::{Bound, Range};

/// A value in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchValue<'b> {
    /// The value.
    Inline(&'b [u8]),
    /// To be read with [`super::read_chain`].
    Chain(Chain),
}

#[derive(Debug, Clone)]
enum Stored {
    Inline(Range<usize>),
    Chain(Chain),
}

/// Some entries of a tree, in the order of the scan that filled it. Used again, it allocates nothing new.
#[derive(Debug, Default, Clone)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Stored)>,
    /// The leaves that the scan came to, and their page LSNs then.
    leaves: Vec<(PageId, Lsn)>,
}

impl Batch {
    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none: then the scan is at its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry number `index`; `None` behind the last.
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], BatchValue<'_>)> {
        let (key, value) = self.entries.get(index)?;
        let value = match value {
            Stored::Inline(range) => BatchValue::Inline(&self.bytes[range.clone()]),
            Stored::Chain(chain) => BatchValue::Chain(*chain),
        };
        Some((&self.bytes[key.clone()], value))
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], BatchValue<'_>)> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Bytes of its keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the entries.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.leaves.clear();
    }

    fn came_to(&mut self, page: &PageRead) {
        self.leaves.push((page.id(), page.lsn()));
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    fn push(&mut self, (key, value): (&[u8], Value<'_>)) {
        let key = self.store(key);
        let value = match value {
            Value::Inline(bytes) => Stored::Inline(self.store(bytes)),
            Value::Overflow { head, length } => Stored::Chain(Chain { head, length }),
        };
        self.entries.push((key, value));
    }

    fn last_key(&self) -> Vec<u8> {
        self.entries.last().map_or(Vec::new(), |(key, _)| self.bytes[key.clone()].to_vec())
    }
}

/// The slots of a leaf that a scan from `bound` upwards covers.
fn slots_above(leaf: LeafRef<'_>, bound: Bound<&[u8]>) -> Range<usize> {
    let from = match bound {
        Bound::Unbounded => 0,
        Bound::Included(key) => leaf.search(key).unwrap_or_else(|slot| slot),
        Bound::Excluded(key) => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
    };
    from..leaf.len()
}

/// The slots of a leaf that a scan from `bound` downwards covers.
fn slots_below(leaf: LeafRef<'_>, bound: Bound<&[u8]>) -> Range<usize> {
    let to = match bound {
        Bound::Unbounded => leaf.len(),
        Bound::Included(key) => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
        Bound::Excluded(key) => leaf.search(key).unwrap_or_else(|slot| slot),
    };
    0..to
}

impl Tree {
    /// Fills `batch` with up to `limit` (at least one) entries from `from` upwards, of one leaf. Returns the bound to go on from; `None` if
    /// the scan has seen the last key. A batch is empty only at the end.
    pub(crate) fn scan_up(
        &self,
        pool: &Pool,
        from: Bound<&[u8]>,
        limit: usize,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        batch.clear();
        self.scan_on_up(pool, from, limit, batch)
    }

    /// As [`Tree::scan_up`], behind the entries that `batch` has from before.
    pub(crate) fn scan_on_up(
        &self,
        pool: &Pool,
        from: Bound<&[u8]>,
        limit: usize,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let before = batch.len();
        let mut bound = from.map(<[u8]>::to_vec);
        loop {
            let from = bound.as_ref().map(Vec::as_slice);
            let page = self.leaf_for_read(pool, Target::ascending(from))?;
            batch.came_to(&page);
            let leaf = page.leaf()?;
            let slots = slots_above(leaf, from);
            let cut = slots.len() > limit.max(1);
            slots.take(limit.max(1)).for_each(|slot| batch.push((leaf.key(slot), leaf.value(slot))));
            if cut {
                return Ok(Some(Bound::Excluded(batch.last_key())));
            }
            let Some(fence) = leaf.upper_fence() else { return Ok(None) };
            bound = Bound::Included(fence.to_vec());
            if batch.len() > before {
                return Ok(Some(bound));
            }
        }
    }

    /// As [`Tree::scan_up`], downwards from `from`.
    pub(crate) fn scan_down(
        &self,
        pool: &Pool,
        from: Bound<&[u8]>,
        limit: usize,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        batch.clear();
        self.scan_on_down(pool, from, limit, batch)
    }

    /// Whether the scans that filled `batch` would do so again; false also where that is not seen at once.
    pub(crate) fn is_unchanged(&self, pool: &Pool, batch: &Batch) -> bool {
        let same = |leaf, lsn| {
            pool.try_read(leaf)
                .is_some_and(|page| page.lsn() == lsn && expect_node(&page, self.table, 0).is_ok())
        };
        batch.leaves.iter().all(|(leaf, lsn)| same(*leaf, *lsn))
    }

    /// As [`Tree::scan_down`], behind the entries that `batch` has from before.
    pub(crate) fn scan_on_down(
        &self,
        pool: &Pool,
        from: Bound<&[u8]>,
        limit: usize,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let before = batch.len();
        let mut bound = from.map(<[u8]>::to_vec);
        loop {
            let from = bound.as_ref().map(Vec::as_slice);
            let page = self.leaf_for_read(pool, Target::descending(from))?;
            batch.came_to(&page);
            let leaf = page.leaf()?;
            let slots = slots_below(leaf, from);
            let cut = slots.len() > limit.max(1);
            slots.rev().take(limit.max(1)).for_each(|slot| batch.push((leaf.key(slot), leaf.value(slot))));
            if cut {
                return Ok(Some(Bound::Excluded(batch.last_key())));
            }
            let fence = leaf.lower_fence();
            if fence.is_empty() {
                return Ok(None);
            }
            bound = Bound::Excluded(fence.to_vec());
            if batch.len() > before {
                return Ok(Some(bound));
            }
        }
    }
}
