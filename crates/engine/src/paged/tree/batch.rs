//! Entries that a scan has copied out of the leaves, and which leaves these were.
//!
//! Keys and values lie behind one another in one piece of memory. A thread keeps the piece that its
//! last scan is done with for the next one, so that short scans allocate nothing.

use super::chain::Chain;
use crate::Lsn;
use crate::paged::page::{PageId, Value};
use crate::paged::pool::PageRead;
use std::cell::Cell;
use std::ops::Range;

/// A batch that has grown larger than this is not kept.
const SPARE_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Option<Batch>> = const { Cell::new(None) };
}

/// A value in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchValue<'b> {
    /// The value.
    Inline(&'b [u8]),
    /// To be read with [`super::read_chain`].
    Chain(Chain),
}

#[derive(Debug)]
enum Stored {
    Inline(Range<usize>),
    Chain(Chain),
}

/// Some entries of a tree, in the order of the scan that filled it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Stored)>,
    /// Bytes of keys and values, those in chains included.
    weight: usize,
    /// The leaves that the scan came to, and their page LSNs then.
    leaves: Vec<(PageId, Lsn)>,
}

impl Batch {
    /// A batch without entries or memory.
    pub(crate) const EMPTY: Batch =
        Batch { bytes: Vec::new(), entries: Vec::new(), weight: 0, leaves: Vec::new() };

    /// An empty one, which may have room already.
    pub(crate) fn spare() -> Self {
        // While a thread's locals are being destroyed there is none.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Keeps it for this thread's next scan.
    pub(crate) fn keep(mut self) {
        if (1..=SPARE_BYTES_MAX).contains(&self.bytes.capacity()) {
            self.clear();
            // While a thread's locals are being destroyed no scan needs it.
            drop(SPARE.try_with(|spare| spare.replace(Some(self))));
        }
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether it has no entry: then the scan has seen everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of its keys and values, long ones included, which it does not have itself.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Key number `index`; panics if there are fewer.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.entries[index].0.clone()]
    }

    /// Value number `index`; panics if there are fewer.
    pub(crate) fn value(&self, index: usize) -> BatchValue<'_> {
        match &self.entries[index].1 {
            Stored::Inline(range) => BatchValue::Inline(&self.bytes[range.clone()]),
            Stored::Chain(chain) => BatchValue::Chain(*chain),
        }
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], BatchValue<'_>)> {
        (0..self.len()).map(|index| (self.key(index), self.value(index)))
    }

    /// The last key, in the order of the scan.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|last| self.key(last))
    }

    /// The leaves that the scan came to, and their page LSNs then.
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
