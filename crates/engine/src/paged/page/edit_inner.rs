//! Editing an inner page. The caller holds its exclusive latch and has appended, or is about to
//! append, the log record.

use super::id::PageId;
use super::inner::{CELL_HEADER, InnerRef};
use super::slots::Full;
use super::{header, slots};
use crate::TableId;

/// A checked inner page that can be edited.
pub(crate) struct InnerMut<'a>(&'a mut [u8]);

impl<'a> InnerMut<'a> {
    /// The inner page in these bytes, which passed [`super::check()`] and are of kind `Inner`.
    #[inline]
    pub(crate) fn new(page: &'a mut [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Inner));
        InnerMut(page)
    }

    /// Makes these bytes an inner page with one child. Sets every byte; the page LSN becomes zero.
    /// `level` is at least 1.
    pub(crate) fn format(
        page: &'a mut [u8],
        id: PageId,
        table: TableId,
        level: u8,
        (lower, upper): (&[u8], Option<&[u8]>),
        leftmost: PageId,
    ) -> Self {
        debug_assert!(level > 0);
        page.fill(0);
        header::format(page, id, header::Kind::Inner, level, table);
        slots::set_fences(page, lower, upper);
        header::set_link(page, leftmost);
        InnerMut(page)
    }

    /// Makes these bytes an inner page with `entries` (separator, child to its right), sorted and
    /// between the fences. On `Full` the bytes are an inner page with those entries that fitted.
    pub(crate) fn build<'e>(
        page: &'a mut [u8],
        id: PageId,
        table: TableId,
        level: u8,
        fences: (&[u8], Option<&[u8]>),
        leftmost: PageId,
        entries: impl IntoIterator<Item = (&'e [u8], PageId)>,
    ) -> Result<Self, Full> {
        let mut inner = InnerMut::format(page, id, table, level, fences, leftmost);
        for (index, (separator, child)) in entries.into_iter().enumerate() {
            inner.insert_at(index, separator, child)?;
        }
        Ok(inner)
    }

    /// Returns a view for reading.
    #[inline]
    pub(crate) fn view(&self) -> InnerRef<'_> {
        InnerRef::new(self.0)
    }

    /// Inserts separator number `index`, with `child` to its right.
    pub(crate) fn insert_at(&mut self, index: usize, separator: &[u8], child: PageId) -> Result<(), Full> {
        let head = slots::head_in(self.0, separator);
        let cell = slots::insert(self.0, index, CELL_HEADER + separator.len(), head)?;
        header::set_u64(cell, 0, child.get());
        cell[CELL_HEADER..].copy_from_slice(separator);
        Ok(())
    }

    /// Removes separator `index` and the child to its right.
    pub(crate) fn remove(&mut self, index: usize) {
        slots::remove(self.0, index);
    }

    /// Keeps the separators before `count`, and so `count + 1` children, and sets a new upper
    /// fence. This makes the left page of a split. The page LSN stays. On `Full` nothing is
    /// changed.
    pub(crate) fn truncate(&mut self, count: usize, upper: Option<&[u8]>) -> Result<(), Full> {
        self.rebuild(0..count, None, upper)
    }

    /// Keeps the separators `kept` and the children around them, and sets new fences (`lower: None`
    /// keeps the lower fence). Child `kept.start` becomes the leftmost. The page LSN stays. On
    /// `Full` nothing is changed.
    pub(crate) fn rebuild(
        &mut self,
        kept: std::ops::Range<usize>,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Result<(), Full> {
        let old = self.0.to_vec();
        let view = InnerRef::new(&old);
        let lower = lower.unwrap_or(view.lower_fence());
        let leftmost = view.child(kept.start);
        let entries = kept.map(|index| (view.separator(index), view.child(index + 1)));
        let (id, table, level) = (view.page_id(), view.table(), view.level());
        if let Err(full) = InnerMut::build(self.0, id, table, level, (lower, upper), leftmost, entries) {
            self.0.copy_from_slice(&old);
            return Err(full);
        }
        header::set_page_lsn(self.0, header::page_lsn(&old));
        Ok(())
    }
}
