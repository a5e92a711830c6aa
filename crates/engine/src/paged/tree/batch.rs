//! Entries that a scan has copied out of the leaves, and the leaves that it has read.
//!
//! Keys and values lie one after another in one piece of memory. A thread retains the memory of a
//! finished scan for its next scan, so that short scans allocate nothing.

use super::chain::Chain;
use crate::Lsn;
use crate::paged::page::{PageId, Value};
use crate::paged::pool::PageRead;
use std::cell::Cell;
use std::ops::Range;

/// Maximum capacity, in bytes, of a batch that a thread retains.
const SPARE_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Option<Batch>> = const { Cell::new(None) };
}

/// A value in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchValue<'b> {
    /// The bytes of the value.
    Inline(&'b [u8]),
    /// A long value, to be read with [`super::read_chain`].
    Chain(Chain),
}

#[derive(Debug)]
enum Stored {
    Inline(Range<usize>),
    Chain(Chain),
}

/// Some entries of a tree, in the order of the scan that copied them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Stored)>,
    /// Bytes of keys and values, including values in chains.
    weight: usize,
    /// The leaves that the scan has read, and their page LSNs at that time.
    leaves: Vec<(PageId, Lsn)>,
}

impl Batch {
    /// A batch without entries or memory.
    pub(crate) const EMPTY: Batch =
        Batch { bytes: Vec::new(), entries: Vec::new(), weight: 0, leaves: Vec::new() };

    /// Returns an empty batch, which may have memory already.
    pub(crate) fn spare() -> Self {
        // A thread whose locals are being destroyed has no spare batch.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Retains the batch for this thread's next scan.
    pub(crate) fn keep(mut self) {
        if (1..=SPARE_BYTES_MAX).contains(&self.bytes.capacity()) {
            self.clear();
            // A thread whose locals are being destroyed scans no more.
            drop(SPARE.try_with(|spare| spare.replace(Some(self))));
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the batch has no entry. If so, the scan has reached its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the keys and values, including long values, which are not in the batch itself.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns key number `index`. Panics if the batch has no such entry.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.entries[index].0.clone()]
    }

    /// Returns value number `index`. Panics if the batch has no such entry.
    pub(crate) fn value(&self, index: usize) -> BatchValue<'_> {
        match &self.entries[index].1 {
            Stored::Inline(range) => BatchValue::Inline(&self.bytes[range.clone()]),
            Stored::Chain(chain) => BatchValue::Chain(*chain),
        }
    }

    /// Iterates over all entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], BatchValue<'_>)> {
        (0..self.len()).map(|index| (self.key(index), self.value(index)))
    }

    /// The last key, in the order of the scan.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|last| self.key(last))
    }

    /// The leaves that the scan has read, and their page LSNs at that time.
    pub(super) fn leaves(&self) -> &[(PageId, Lsn)] {
        &self.leaves
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.weight = 0;
        self.leaves.clear();
    }

    pub(super) fn came_to(&mut self, page: &PageRead) {
        self.leaves.push((page.id(), page.lsn()));
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    pub(super) fn push(&mut self, key: &[u8], value: Value<'_>) {
        self.weight += key.len() + value.bytes();
        let key = self.store(key);
        let value = match value {
            Value::Inline(bytes) => Stored::Inline(self.store(bytes)),
            Value::Overflow { head, length } => Stored::Chain(Chain { head, length }),
        };
        self.entries.push((key, value));
    }
}
