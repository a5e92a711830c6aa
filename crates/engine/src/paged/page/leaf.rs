//! Reading a leaf page: sorted keys, each with its value or with a link to the pages that have its
//! value.
//!
//! A cell is `key length u16, tag u8, zero u8, key, value`. With tag 1 the value is `head page u64,
//! length u32` of a chain of overflow pages.

use super::id::PageId;
use super::{header, slots};
use crate::TableId;

/// Bytes of a cell before the key.
pub(crate) const CELL_HEADER: usize = 4;
pub(super) const TAG_INLINE: u8 = 0;
pub(super) const TAG_OVERFLOW: u8 = 1;
/// Bytes of a cell that stand for a value in overflow pages.
pub(super) const OVERFLOW_BYTES: usize = 12;

/// A value as a leaf stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// A value in a chain of overflow pages.
    Overflow {
        /// The chain's first page.
        head: PageId,
        /// Length of the whole value in bytes.
        length: u32,
    },
}

impl Value<'_> {
    /// Bytes that the value takes in a cell.
    pub(crate) fn cell_bytes(&self) -> usize {
        match self {
            Value::Inline(bytes) => bytes.len(),
            Value::Overflow { .. } => OVERFLOW_BYTES,
        }
    }

    /// Length of the whole value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Value::Inline(bytes) => bytes.len(),
            Value::Overflow { length, .. } => *length as usize,
        }
    }
}

/// Bytes that a key and its value take in a leaf, the slot included.
pub(crate) fn entry_bytes(key: &[u8], value: &Value<'_>) -> usize {
    slots::SLOT + CELL_HEADER + key.len() + value.cell_bytes()
}

#[inline]
pub(super) fn key_of(cell: &[u8]) -> &[u8] {
    &cell[CELL_HEADER..CELL_HEADER + header::u16_at(cell, 0)]
}

pub(super) fn value_of(cell: &[u8]) -> Value<'_> {
    let rest = &cell[CELL_HEADER + header::u16_at(cell, 0)..];
    if cell[2] == TAG_OVERFLOW {
        Value::Overflow { head: PageId::new(header::u64_at(rest, 0)), length: header::u32_at(rest, 8) }
    } else {
        Value::Inline(rest)
    }
}

/// A checked leaf page that can be read.
#[derive(Clone, Copy)]
pub(crate) struct LeafRef<'a>(&'a [u8]);

impl<'a> LeafRef<'a> {
    /// The leaf in these bytes, which passed [`super::check()`] and are of kind `Leaf`.
    #[inline]
    pub(crate) fn new(page: &'a [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Leaf));
        LeafRef(page)
    }

    /// The page's id.
    pub(crate) fn page_id(self) -> PageId {
        header::page_id(self.0)
    }

    /// The page's table.
    pub(crate) fn table(self) -> TableId {
        header::table(self.0)
    }

    /// Number of keys.
    #[inline]
    pub(crate) fn len(self) -> usize {
        header::count(self.0)
    }

    /// Returns whether the leaf has no key.
    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The first key that may be in this leaf; empty means no bound.
    pub(crate) fn lower_fence(self) -> &'a [u8] {
        slots::lower_fence(self.0)
    }

    /// The first key that is beyond this leaf; `None` means no bound.
    pub(crate) fn upper_fence(self) -> Option<&'a [u8]> {
        slots::upper_fence(self.0)
    }

    /// Returns whether `key` belongs in this leaf.
    pub(crate) fn covers(self, key: &[u8]) -> bool {
        key >= self.lower_fence() && self.upper_fence().is_none_or(|upper| key < upper)
    }

    /// Index of `key` (`Ok`), or the index at which it belongs (`Err`).
    #[inline]
    pub(crate) fn search(self, key: &[u8]) -> Result<usize, usize> {
        slots::search(self.0, key, key_of)
    }

    /// Returns the value of `key`, if the leaf has the key.
    #[inline]
    pub(crate) fn get(self, key: &[u8]) -> Option<Value<'a>> {
        self.search(key).ok().map(|index| self.value(index))
    }

    /// Key number `index`, in key order; `index < len()`.
    #[inline]
    pub(crate) fn key(self, index: usize) -> &'a [u8] {
        key_of(slots::cell(self.0, index))
    }

    /// The value of key number `index`; `index < len()`.
    #[inline]
    pub(crate) fn value(self, index: usize) -> Value<'a> {
        value_of(slots::cell(self.0, index))
    }

    /// All keys and values, in key order.
    pub(crate) fn entries(
        self,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Value<'a>)> + ExactSizeIterator + Clone {
        (0..self.len()).map(move |index| (self.key(index), self.value(index)))
    }

    /// Bytes that are free for cells and slots, after compaction.
    pub(crate) fn free_space(self) -> usize {
        slots::free_space(self.0)
    }

    /// Bytes that slots and cells take.
    pub(crate) fn used_bytes(self) -> usize {
        slots::used_bytes(self.0)
    }

    /// Returns whether `insert_at` of this entry would find room.
    pub(crate) fn fits(self, key: &[u8], value: &Value<'_>) -> bool {
        entry_bytes(key, value) <= self.free_space()
    }

    /// Returns whether `replace` of the value of key `index` would find room.
    pub(crate) fn fits_replace(self, index: usize, value: &Value<'_>) -> bool {
        let (_, old) = slots::range(self.0, index);
        let new = CELL_HEADER + self.key(index).len() + value.cell_bytes();
        new <= old + self.free_space()
    }
}
