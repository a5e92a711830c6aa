//! Reading an inner page: `n` sorted separators and `n + 1` children. Child 0 is in the header;
//! child `i + 1` holds the keys from separator `i` on.
//!
//! A cell is `child u64, separator`.

use super::id::PageId;
use super::{header, slots};
use crate::TableId;

/// Bytes of a cell before the separator.
pub(super) const CELL_HEADER: usize = 8;

#[inline]
pub(super) fn key_of(cell: &[u8]) -> &[u8] {
    &cell[CELL_HEADER..]
}

/// A checked inner page that can be read.
#[derive(Clone, Copy)]
pub(crate) struct InnerRef<'a>(&'a [u8]);

impl<'a> InnerRef<'a> {
    /// The inner page in these bytes, which passed [`super::check()`] and are of kind `Inner`.
    #[inline]
    pub(crate) fn new(page: &'a [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Inner));
        InnerRef(page)
    }

    /// The page's id.
    pub(crate) fn page_id(self) -> PageId {
        header::page_id(self.0)
    }

    /// The page's table.
    pub(crate) fn table(self) -> TableId {
        header::table(self.0)
    }

    /// Height above the leaves, at least 1.
    pub(crate) fn level(self) -> u8 {
        header::level(self.0)
    }

    /// Number of separators, one less than the number of children.
    #[inline]
    pub(crate) fn len(self) -> usize {
        header::count(self.0)
    }

    /// The first key that may be in the subtree of this page; empty means no bound.
    pub(crate) fn lower_fence(self) -> &'a [u8] {
        slots::lower_fence(self.0)
    }

    /// The first key beyond the subtree of this page; `None` means no bound.
    pub(crate) fn upper_fence(self) -> Option<&'a [u8]> {
        slots::upper_fence(self.0)
    }

    /// Index of a separator (`Ok`), or the index at which it belongs (`Err`).
    pub(crate) fn search(self, separator: &[u8]) -> Result<usize, usize> {
        slots::search(self.0, separator, key_of)
    }

    /// Number of the child that holds `key`.
    #[inline]
    pub(crate) fn child_index(self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(index) => index + 1,
            Err(index) => index,
        }
    }

    /// The child that holds `key`.
    #[inline]
    pub(crate) fn child_for(self, key: &[u8]) -> PageId {
        self.child(self.child_index(key))
    }

    /// Child number `index`; `index <= len()`.
    #[inline]
    pub(crate) fn child(self, index: usize) -> PageId {
        match index.checked_sub(1) {
            None => header::link(self.0),
            Some(slot) => PageId::new(header::u64_at(slots::cell(self.0, slot), 0)),
        }
    }

    /// Separator number `index`: the lower fence of child `index + 1`; `index < len()`.
    #[inline]
    pub(crate) fn separator(self, index: usize) -> &'a [u8] {
        key_of(slots::cell(self.0, index))
    }

    /// The fences of child `index`; `index <= len()`.
    pub(crate) fn child_fences(self, index: usize) -> (&'a [u8], Option<&'a [u8]>) {
        let lower = if index == 0 { self.lower_fence() } else { self.separator(index - 1) };
        let upper = if index == self.len() { self.upper_fence() } else { Some(self.separator(index)) };
        (lower, upper)
    }

    /// All separators, each with the child to its right.
    pub(crate) fn entries(
        self,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], PageId)> + ExactSizeIterator + Clone {
        (0..self.len()).map(move |index| (self.separator(index), self.child(index + 1)))
    }

    /// Bytes that are free for cells and slots, after compaction.
    pub(crate) fn free_space(self) -> usize {
        slots::free_space(self.0)
    }

    /// Bytes that slots and cells take.
    pub(crate) fn used_bytes(self) -> usize {
        slots::used_bytes(self.0)
    }

    /// Bytes that a separator of this length takes, the slot included.
    pub(crate) fn entry_bytes(separator: &[u8]) -> usize {
        slots::SLOT + CELL_HEADER + separator.len()
    }

    /// Returns the index of the separator at which to split the page into halves of about equal
    /// bytes. This separator moves up to the parent. The separators before this one stay. The
    /// separators after this one go to the right page, whose leftmost child is the child to the
    /// right of this separator. At least one separator stays on either side. Needs three
    /// separators.
    pub(crate) fn split_point(self) -> usize {
        slots::split_point(self.0).clamp(1, self.len().saturating_sub(2).max(1))
    }
}
