//! A leaf of the ordered index: the keys between two fences, and the gaps around them.
//!
//! A leaf does no I/O; the index latches it. Invariants:
//!
//! 1. Entries are in the order of their keys. A gap is the interval between two neighbouring keys.
//!    The first gap begins at the leaf's lower fence; the last gap, `top`, ends at its upper fence.
//! 2. A gap's read timestamp (`rts`) is at least the timestamp of every validated transaction that
//!    has found no key in the gap. A key is inserted into a gap only at a timestamp of at least
//!    this `rts`; both halves of the gap and the new record get the same `rts`. When a key is
//!    removed, its two gaps become one, with the greatest of the two gaps' `rts` and the key's
//!    `rts`.
//! 3. The `rts` of a gap is raised under the leaf's shared latch. Gaps are split and joined under
//!    the exclusive latch.

use super::super::record::Record;
use super::fence::prefix;
use katydid_kernels::txn::Timestamp;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of entries of a full leaf.
pub(super) const ENTRIES_MAX: usize = if cfg!(all(test, debug_assertions)) { 6 } else { 64 };

/// The greatest timestamp at which a gap was found empty. A thread raises or reads it under the
/// leaf's latch, so relaxed accesses suffice.
#[derive(Debug)]
struct Gap(AtomicU64);

impl Gap {
    fn new(rts: Timestamp) -> Self {
        Gap(AtomicU64::new(rts.get()))
    }

    fn rts(&self) -> Timestamp {
        Timestamp::new(self.0.load(Relaxed))
    }

    fn raise(&self, to: Timestamp) {
        if self.rts() < to {
            self.0.fetch_max(to.get(), Relaxed);
        }
    }
}

#[derive(Debug)]
struct Entry {
    prefix: u128,
    record: Arc<Record>,
    /// The gap below the key.
    gap: Gap,
}

#[derive(Debug)]
pub(super) struct Leaf {
    entries: Vec<Entry>,
    top: Gap,
}

impl Leaf {
    pub(super) fn new(top: Timestamp) -> Self {
        Leaf { entries: Vec::new(), top: Gap::new(top) }
    }

    /// Makes a leaf of these keys with their prefixes, which are in order. No transaction has found
    /// a gap empty later than at `rts`.
    pub(super) fn of(keys: impl Iterator<Item = (u128, Arc<Record>)>, rts: Timestamp) -> Self {
        let mut entries = Vec::with_capacity(ENTRIES_MAX);
        entries.extend(keys.map(|(prefix, record)| Entry { prefix, record, gap: Gap::new(rts) }));
        Leaf { entries, top: Gap::new(rts) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Index of `key`, or the index at which it would be inserted.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let first = prefix(key);
        self.entries.binary_search_by(|entry| {
            entry.prefix.cmp(&first).then_with(|| entry.record.key.as_slice().cmp(key))
        })
    }

    pub(super) fn record(&self, at: usize) -> &Arc<Record> {
        &self.entries[at].record
    }

    fn gap(&self, at: usize) -> &Gap {
        self.entries.get(at).map_or(&self.top, |entry| &entry.gap)
    }

    /// The latest timestamp at which the gap below index `at` was found empty.
    pub(super) fn gap_rts(&self, at: usize) -> Timestamp {
        self.gap(at).rts()
    }

    /// Inserts `record`, which was made with the `rts` of the gap (invariant 2), at index `at`.
    pub(super) fn insert(&mut self, at: usize, record: Arc<Record>) {
        let gap = Gap::new(self.gap_rts(at));
        self.entries.insert(at, Entry { prefix: prefix(&record.key), record, gap });
    }

    /// Removes the entry at `at`. No key may be inserted at its place at a timestamp below `rts`,
    /// which `Chain::take_out` returned.
    pub(super) fn remove(&mut self, at: usize, rts: Timestamp) {
        let entry = self.entries.remove(at);
        self.gap(at).raise(entry.gap.rts().max(rts));
    }

    /// Takes over the interval of the empty leaf above this one.
    pub(super) fn join(&mut self, empty: &Leaf) {
        self.top.raise(empty.top.rts());
    }

    /// Splits the leaf to make room for `key`, which belongs at index `at`. Returns the lower fence
    /// of the leaf above, and that leaf.
    pub(super) fn split(&mut self, at: usize, key: &[u8]) -> (Vec<u8>, Leaf) {
        if at == self.entries.len() {
            // The full leaf stays full, so keys that are inserted in ascending order fill their
            // leaves.
            return (key.to_vec(), Leaf::new(self.top.rts()));
        }
        let entries = self.entries.split_off(self.entries.len() / 2);
        let fence = entries[0].record.key.to_vec();
        let below = Gap::new(entries[0].gap.rts());
        (fence, Leaf { entries, top: std::mem::replace(&mut self.top, below) })
    }

    /// The indexes of the entries within the bounds.
    pub(super) fn within(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<usize> {
        let place = |key: &[u8], and_it: bool| match self.find(key) {
            Ok(at) => at + usize::from(and_it),
            Err(at) => at,
        };
        let begin = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => place(key, false),
            Bound::Excluded(key) => place(key, true),
        };
        let end = match to {
            Bound::Unbounded => self.entries.len(),
            Bound::Included(key) => place(key, true),
            Bound::Excluded(key) => place(key, false),
        };
        begin..end.max(begin)
    }

    pub(super) fn records(&self, within: Range<usize>) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.entries[within].iter().map(|entry| &entry.record)
    }

    /// Raises the `rts` of all gaps that overlap an interval, whose entries are `within`.
    pub(super) fn raise(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, within: Range<usize>, rts: Timestamp) {
        let is_end = |bound: Bound<&[u8]>, at: usize| match bound {
            Bound::Included(key) => self.entries[at].record.key.as_slice() == key,
            _ => false,
        };
        let (mut begin, mut end) = (within.start, within.end + 1);
        if !within.is_empty() {
            begin += usize::from(is_end(from, within.start));
            end -= usize::from(is_end(to, within.end - 1));
        }
        for at in begin..end {
            self.gap(at).raise(rts);
        }
    }
}
