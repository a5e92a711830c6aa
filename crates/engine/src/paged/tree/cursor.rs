//! Scanning in both directions. A scan copies a batch of entries of some leaves at a time, under
//! their latches, and returns the bound from which to continue.
//!
//! A scan descends from the root and walks along the leaves of one parent. It holds the parent's
//! latch meanwhile, so that these leaves are neighbours. Of these leaves, the scan waits only for
//! the first. If a further leaf is not in memory or is being changed, the scan releases its
//! latches. Then it finds the leaf again from the root, by the leaf's fence. If the batch still has
//! room after the last leaf of the parent, the scan descends again for the leaves of the next
//! parent. No latch is held between two batches. Changes of the pages meanwhile do not matter,
//! because the next batch is found from the root, by the last key or the leaf's fence. Locks, not
//! the scan, guard against keys that are inserted or deleted between two batches.
//!
//! If the next leaf is not in memory, and reads of the file can overlap (`Pool::ahead_max`), the
//! scan reads this leaf together with the further leaves that it is likely to need
//! (`Pool::prefetch`). The scan holds no latch meanwhile, and then continues from the root.
//!
//! A transaction that has locked the keys of a batch has to know whether the batch is still right.
//! Every change of a leaf raises its page LSN, under its latch, and a leaf that is merged away is
//! formatted as a free page. So a leaf with an unchanged LSN has the same entries, and their keys
//! still belong in it. The leaves need not be checked at one moment: locked entries do not change
//! any more. A split or merge of a leaf after its check only moves these entries.
//!
//! Fences prove that a leaf is in its place: the first leaf of a scan has the scan's beginning
//! between its fences, and leaves under one parent adjoin. A leaf that is not in its place is
//! corrupt. So a scan of a damaged tree advances with each leaf, and ends.

use super::batch::Batch;
use super::descend::{Target, expect_node};
use super::handle::{Tree, corrupt};
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::paged::page::{InnerRef, LeafRef, PageId, Value, header};
use crate::paged::pool::Pool;
use std::ops::Bound;

/// Maximum number of leaves that a scan reads ahead at once.
const AHEAD_MAX: usize = 32;

/// The range of a scan, and the size of its batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanRequest<'a> {
    pub(crate) low: Bound<&'a [u8]>,
    pub(crate) high: Bound<&'a [u8]>,
    /// The end from which the scan begins: `low` or `high`.
    pub(crate) direction: Direction,
    /// Maximum number of entries in a batch; at least one.
    pub(crate) entries: usize,
    /// Bytes of entries after which a batch ends.
    pub(crate) bytes: usize,
}

/// Entries of a leaf, in the order of a scan.
pub(crate) type LeafEntries<'i, 'l> = &'i mut dyn Iterator<Item = (&'l [u8], Value<'l>)>;

/// Shows the entries of leaves as a reader must see them, whatever the leaves hold by now.
pub(crate) trait Lens {
    /// Returns whether, at the moment, the lens shows every leaf as it is. Called with the leaf's
    /// latch held.
    fn is_clear(&self) -> bool;

    /// Returns whether the lens shows the entries between the bounds as the leaf has them. Called
    /// with the leaf's latch held; the bounds lie between the leaf's fences.
    fn is_clear_between(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool;

    /// Shows to `see` the entries between the bounds, in the order of the scan, until `see` returns
    /// false. `leaf` has the leaf's entries in that order. Called with the leaf's latch held; the
    /// bounds lie between the leaf's fences. Returns whether `see` was shown all entries.
    fn show(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        leaf: LeafEntries<'_, '_>,
        see: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> bool;
}

/// Reason why copying from a leaf has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyEnd {
    /// The batch is full. The leaf may have more entries of the request.
    Full,
    /// The leaf has no more entries of the request.
    Behind,
    /// No leaf has more entries of the request.
    Over,
}

/// The first slot of a leaf at or above the bound.
fn slot_above(leaf: LeafRef<'_>, low: Bound<&[u8]>) -> usize {
    match low {
        Bound::Unbounded => 0,
        Bound::Included(key) => leaf.search(key).unwrap_or_else(|slot| slot),
        Bound::Excluded(key) => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
    }
}

/// One more than the last slot of a leaf at or below the bound.
fn slot_below(leaf: LeafRef<'_>, high: Bound<&[u8]>) -> usize {
    match high {
        Bound::Unbounded => leaf.len(),
        Bound::Included(key) => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
        Bound::Excluded(key) => leaf.search(key).unwrap_or_else(|slot| slot),
    }
}

impl<'a> ScanRequest<'a> {
    fn target(&self) -> Target<'a> {
        match self.direction {
            Direction::Up => Target::ascending(self.low),
            Direction::Down => Target::descending(self.high),
        }
    }

    /// Bound at which the scan begins.
    #[cfg(test)]
    pub(super) fn begin(&self) -> Bound<&'a [u8]> {
        match self.direction {
            Direction::Up => self.low,
            Direction::Down => self.high,
        }
    }

    /// Returns the rest of the request, from `bound` on.
    pub(super) fn from(mut self, bound: Bound<&'a [u8]>) -> Self {
        match self.direction {
            Direction::Up => self.low = bound,
            Direction::Down => self.high = bound,
        }
        self
    }

    /// Returns whether the request ends in this leaf or before it.
    fn ends_in(&self, leaf: LeafRef<'_>) -> bool {
        match self.direction {
            Direction::Up => match (leaf.upper_fence(), self.high) {
                (None, _) => true,
                (Some(fence), Bound::Included(high)) => fence > high,
                (Some(fence), Bound::Excluded(high)) => fence >= high,
                (Some(_), Bound::Unbounded) => false,
            },
            Direction::Down => match (leaf.lower_fence(), self.low) {
                ([], _) => true,
                (fence, Bound::Included(low) | Bound::Excluded(low)) => fence <= low,
                (_, Bound::Unbounded) => false,
            },
        }
    }

    /// Copies the entries of the request that `leaf` has, as the lens shows them, while the batch
    /// has room.
    fn copy(&self, leaf: LeafRef<'_>, lens: Option<&dyn Lens>, batch: &mut Batch) -> CopyEnd {
        match lens {
            Some(lens) if !lens.is_clear() => self.copy_through(leaf, lens, batch),
            _ => self.copy_leaf(leaf, batch),
        }
    }

    /// Returns the request's bounds, or the leaf's fences where these are nearer.
    fn bounds_in<'l>(&'l self, leaf: LeafRef<'l>) -> (Bound<&'l [u8]>, Bound<&'l [u8]>) {
        let low = match self.low {
            Bound::Included(key) | Bound::Excluded(key) if key >= leaf.lower_fence() => self.low,
            _ => Bound::Included(leaf.lower_fence()),
        };
        let high = match (self.high, leaf.upper_fence()) {
            (high, None) => high,
            (Bound::Included(key), Some(fence)) if key < fence => self.high,
            (Bound::Excluded(key), Some(fence)) if key <= fence => self.high,
            (_, Some(fence)) => Bound::Excluded(fence),
        };
        (low, high)
    }

    /// Copies the entries that the lens shows, which may have keys that the leaf does not have.
    fn copy_through(&self, leaf: LeafRef<'_>, lens: &dyn Lens, batch: &mut Batch) -> CopyEnd {
        let (low, high) = self.bounds_in(leaf);
        if lens.is_clear_between(low, high) {
            return self.copy_leaf(leaf, batch);
        }
        let mut up =
            (slot_above(leaf, low)..slot_below(leaf, high)).map(|slot| (leaf.key(slot), leaf.value(slot)));
        let mut down = up.clone().rev();
        let entries: LeafEntries<'_, '_> = match self.direction {
            Direction::Up => &mut up,
            Direction::Down => &mut down,
        };
        let all = lens.show((low, high), self.direction, entries, &mut |key, value| {
            let room = !self.is_full(batch);
            if room {
                batch.push(key, value);
            }
            room
        });
        match (all, self.ends_in(leaf)) {
            (false, _) => CopyEnd::Full,
            (true, false) => CopyEnd::Behind,
            (true, true) => CopyEnd::Over,
        }
    }

    fn copy_leaf(&self, leaf: LeafRef<'_>, batch: &mut Batch) -> CopyEnd {
        let ends = self.ends_in(leaf);
        let far = |bound| if ends { bound } else { Bound::Unbounded };
        let (low, high) = match self.direction {
            Direction::Up => (self.low, far(self.high)),
            Direction::Down => (far(self.low), self.high),
        };
        let mut slots = slot_above(leaf, low)..slot_below(leaf, high);
        loop {
            let next = match self.direction {
                Direction::Up => slots.next(),
                Direction::Down => slots.next_back(),
            };
            let Some(slot) = next else { return if ends { CopyEnd::Over } else { CopyEnd::Behind } };
            if self.is_full(batch) {
                return CopyEnd::Full;
            }
            batch.push(leaf.key(slot), leaf.value(slot));
        }
    }

    fn is_full(&self, batch: &Batch) -> bool {
        !batch.is_empty() && (batch.len() >= self.entries || batch.weight() >= self.bytes)
    }

    /// Estimates how many further leaves will fill the batch, if each has `entries` entries.
    fn leaves_wanted(&self, entries: usize, page_bytes: usize, batch: &Batch) -> usize {
        let by_entries = self.entries.saturating_sub(batch.len()).div_ceil(entries.max(1));
        let by_bytes = self.bytes.saturating_sub(batch.weight()).div_ceil(page_bytes);
        by_entries.min(by_bytes).min(AHEAD_MAX)
    }

    /// Returns the children from number `at` on, in the direction of the request, that may have
    /// entries of the request; at most `most`.
    fn leaves_from(&self, inner: InnerRef<'_>, at: usize, most: usize) -> Vec<PageId> {
        let is_within = |index: &usize| match self.direction {
            Direction::Up => match (inner.child_fences(*index).0, self.high) {
                (_, Bound::Unbounded) => true,
                (lower, Bound::Included(high)) => lower <= high,
                (lower, Bound::Excluded(high)) => lower < high,
            },
            Direction::Down => match (inner.child_fences(*index).1, self.low) {
                (None, _) | (_, Bound::Unbounded) => true,
                (Some(upper), Bound::Included(low) | Bound::Excluded(low)) => upper > low,
            },
        };
        let mut up = at..inner.len() + 1;
        let mut down = (0..at + 1).rev();
        let indexes: &mut dyn Iterator<Item = usize> = match self.direction {
            Direction::Up => &mut up,
            Direction::Down => &mut down,
        };
        indexes.take_while(is_within).take(most).map(|index| inner.child(index)).collect()
    }

    /// Returns whether the bound at which the request begins lies between the fences of this leaf.
    fn begins_in(&self, leaf: LeafRef<'_>) -> bool {
        let (lower, upper) = (leaf.lower_fence(), leaf.upper_fence());
        match (self.direction, self.low, self.high) {
            (Direction::Up, Bound::Unbounded, _) => lower.is_empty(),
            (Direction::Up, Bound::Included(key) | Bound::Excluded(key), _)
            | (Direction::Down, _, Bound::Included(key)) => {
                lower <= key && upper.is_none_or(|upper| key < upper)
            }
            (Direction::Down, _, Bound::Excluded(key)) => {
                (lower < key || lower.is_empty()) && upper.is_none_or(|upper| key <= upper)
            }
            (Direction::Down, _, Bound::Unbounded) => upper.is_none(),
        }
    }

    /// Returns the bound from which to continue: after the last key if the batch is full, otherwise
    /// beyond the last leaf that was read; `None` if the scan is over.
    fn onward(&self, stand: CopyEnd, leaf: LeafRef<'_>, batch: &Batch) -> Option<Bound<Vec<u8>>> {
        match (stand, self.direction) {
            (CopyEnd::Over, _) => None,
            (CopyEnd::Full, _) => batch.last_key().map(|key| Bound::Excluded(key.to_vec())),
            (CopyEnd::Behind, Direction::Up) => {
                leaf.upper_fence().map(|fence| Bound::Included(fence.to_vec()))
            }
            (CopyEnd::Behind, Direction::Down) => Some(Bound::Excluded(leaf.lower_fence().to_vec())),
        }
    }
}

#[cold]
fn misplaced(page: &[u8]) -> Error {
    corrupt(header::page_id(page), "the leaf's fences are not those of its place in the tree")
}

impl Tree {
    /// Fills `batch` with entries of `request`. Returns the bound from which to continue, or `None`
    /// if the scan has seen everything. Only then can the batch be empty.
    pub(crate) fn scan(
        &self,
        pool: &Pool,
        request: ScanRequest<'_>,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        self.scan_through(pool, request, None, batch)
    }

    /// Scans a range like [`Tree::scan`], with each entry as the lens shows it.
    pub(crate) fn scan_through(
        &self,
        pool: &Pool,
        request: ScanRequest<'_>,
        lens: Option<&dyn Lens>,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        batch.clear();
        let mut onward = self.scan_siblings(pool, request, lens, batch)?;
        while let Some(bound) = &onward
            && !request.is_full(batch)
        {
            let rest = request.from(bound.as_ref().map(Vec::as_slice));
            onward = self.scan_siblings(pool, rest, lens, batch)?;
        }
        Ok(onward)
    }

    /// Copies entries of `request`, from its beginning on, out of the leaves of one parent. Stops
    /// when the batch is full or the next leaf cannot be read without waiting.
    fn scan_siblings(
        &self,
        pool: &Pool,
        request: ScanRequest<'_>,
        lens: Option<&dyn Lens>,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let target = request.target();
        let parent = self.page_for_read(pool, target, 1)?;
        if header::level(&parent) == 0 {
            batch.came_to(&parent);
            let leaf = parent.leaf()?;
            if !request.begins_in(leaf) {
                return Err(misplaced(&parent));
            }
            return Ok(request.onward(request.copy(leaf, lens, batch), leaf, batch));
        }
        let inner = parent.inner()?;
        let mut index = target.child_index(inner);
        let mut page = pool.read(inner.child(index))?;
        expect_node(&page, self.table, 0)?;
        if !request.begins_in(page.leaf()?) {
            return Err(misplaced(&page));
        }
        let mut rest = request;
        loop {
            batch.came_to(&page);
            let leaf = page.leaf()?;
            let stand = rest.copy(leaf, lens, batch);
            let sibling = match request.direction {
                Direction::Up => index.checked_add(1).filter(|index| *index <= inner.len()),
                Direction::Down => index.checked_sub(1),
            };
            let next = match sibling {
                Some(at) if stand == CopyEnd::Behind && !request.is_full(batch) => {
                    index = at;
                    pool.try_read(inner.child(at))
                }
                _ => None,
            };
            let Some(next) = next else {
                let onward = request.onward(stand, leaf, batch);
                let ahead = match sibling {
                    Some(at) if stand == CopyEnd::Behind && !request.is_full(batch) => {
                        let most = request.leaves_wanted(leaf.len(), pool.page_bytes(), batch);
                        request.leaves_from(inner, at, most.min(pool.ahead_max()))
                    }
                    _ => Vec::new(),
                };
                // The latches are released, so that no thread waits for one while the device reads.
                drop((page, parent));
                if !ahead.is_empty() {
                    pool.prefetch(&ahead)?;
                }
                return Ok(onward);
            };
            expect_node(&next, self.table, 0)?;
            let adjoins = match request.direction {
                Direction::Up => leaf.upper_fence() == Some(next.leaf()?.lower_fence()),
                Direction::Down => next.leaf()?.upper_fence() == Some(leaf.lower_fence()),
            };
            if !adjoins {
                return Err(misplaced(&next));
            }
            page = next;
            // The whole next leaf lies beyond the request's beginning.
            rest = request.from(Bound::Unbounded);
        }
    }

    /// Returns whether all leaves from which the scan has filled `batch` are unchanged since then.
    /// If so, the scan would fill the batch with the same entries again. A change outside the
    /// scanned range counts too. Also returns false if the answer could only be found by waiting
    /// for a latch or for the device.
    pub(crate) fn is_unchanged(&self, pool: &Pool, batch: &Batch) -> bool {
        let same = |leaf, lsn| {
            pool.try_read(leaf)
                .is_some_and(|page| page.lsn() == lsn && expect_node(&page, self.table, 0).is_ok())
        };
        batch.leaves().iter().all(|(leaf, lsn)| same(*leaf, *lsn))
    }
}
