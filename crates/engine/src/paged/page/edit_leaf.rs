//! Editing a leaf page. The caller holds its exclusive latch and has appended, or is about to
//! append, the log record.

use super::id::PageId;
use super::leaf::{CELL_HEADER, LeafRef, OVERFLOW_BYTES, TAG_INLINE, TAG_OVERFLOW, Value};
use super::slots::Full;
use super::{header, slots};
use crate::TableId;

/// A checked leaf page that can be edited.
pub(crate) struct LeafMut<'a>(&'a mut [u8]);

fn fill_cell(cell: &mut [u8], key: &[u8], value: &Value<'_>) {
    header::set_u16(cell, 0, key.len());
    cell[3] = 0;
    cell[CELL_HEADER..CELL_HEADER + key.len()].copy_from_slice(key);
    fill_value(cell, key.len(), value);
}

fn fill_value(cell: &mut [u8], key_bytes: usize, value: &Value<'_>) {
    let at = CELL_HEADER + key_bytes;
    match value {
        Value::Inline(bytes) => {
            cell[2] = TAG_INLINE;
            cell[at..].copy_from_slice(bytes);
        }
        Value::Overflow { head, length } => {
            cell[2] = TAG_OVERFLOW;
            header::set_u64(cell, at, head.get());
            header::set_u32(cell, at + 8, *length);
            debug_assert_eq!(cell.len(), at + OVERFLOW_BYTES);
        }
    }
}

impl<'a> LeafMut<'a> {
    /// The leaf in these bytes, which passed [`super::check()`] and are of kind `Leaf`.
    #[inline]
    pub(crate) fn new(page: &'a mut [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Leaf));
        LeafMut(page)
    }

    /// Makes these bytes an empty leaf. Sets every byte, so that no former content reaches the
    /// device; the page LSN becomes zero.
    pub(crate) fn format(
        page: &'a mut [u8],
        id: PageId,
        table: TableId,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Self {
        page.fill(0);
        header::format(page, id, header::Kind::Leaf, 0, table);
        slots::set_fences(page, lower, upper);
        LeafMut(page)
    }

    /// Makes these bytes a leaf with `entries`, which are sorted and lie between the fences. On
    /// `Full` the bytes are a leaf with those entries that fitted.
    pub(crate) fn build<'e>(
        page: &'a mut [u8],
        id: PageId,
        table: TableId,
        (lower, upper): (&[u8], Option<&[u8]>),
        entries: impl IntoIterator<Item = (&'e [u8], Value<'e>)>,
    ) -> Result<Self, Full> {
        let mut leaf = LeafMut::format(page, id, table, lower, upper);
        for (index, (key, value)) in entries.into_iter().enumerate() {
            leaf.insert_at(index, key, &value)?;
        }
        Ok(leaf)
    }

    /// Returns a view for reading.
    #[inline]
    pub(crate) fn view(&self) -> LeafRef<'_> {
        LeafRef::new(self.0)
    }

    /// Inserts a key at `index`, where it belongs according to `search`.
    pub(crate) fn insert_at(&mut self, index: usize, key: &[u8], value: &Value<'_>) -> Result<(), Full> {
        let head = slots::head_in(self.0, key);
        let length = CELL_HEADER + key.len() + value.cell_bytes();
        let cell = slots::insert(self.0, index, length, head)?;
        fill_cell(cell, key, value);
        Ok(())
    }

    /// Gives key `index` another value. The cell stays in place if the new value is not longer than
    /// the old one.
    pub(crate) fn replace(&mut self, index: usize, value: &Value<'_>) -> Result<(), Full> {
        let key_bytes = self.view().key(index).len();
        let keep = CELL_HEADER + key_bytes;
        let cell = slots::resize(self.0, index, keep + value.cell_bytes(), keep)?;
        fill_value(cell, key_bytes, value);
        Ok(())
    }

    /// Overwrites bytes of the inline value of key `index`, from `offset` on. Returns `false`, and
    /// changes nothing, if the value is not inline or too short.
    #[must_use]
    pub(crate) fn patch(&mut self, index: usize, offset: usize, bytes: &[u8]) -> bool {
        let from = CELL_HEADER + self.view().key(index).len();
        let cell = slots::cell_mut(self.0, index);
        if cell[2] != TAG_INLINE {
            return false;
        }
        let Some(part) = cell[from..].get_mut(offset..).and_then(|rest| rest.get_mut(..bytes.len())) else {
            return false;
        };
        part.copy_from_slice(bytes);
        true
    }

    /// Removes key `index`.
    pub(crate) fn remove(&mut self, index: usize) {
        slots::remove(self.0, index);
    }

    /// Keeps the keys before `count` and sets a new upper fence. This makes the left page of a
    /// split.
    pub(crate) fn truncate(&mut self, count: usize, upper: Option<&[u8]>) -> Result<(), Full> {
        self.rebuild(0..count, None, upper)
    }

    /// Keeps the keys of `kept` and sets new fences (`lower: None` keeps the lower fence). The page
    /// LSN stays. On `Full` nothing is changed.
    pub(crate) fn rebuild(
        &mut self,
        kept: std::ops::Range<usize>,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Result<(), Full> {
        let old = self.0.to_vec();
        let view = LeafRef::new(&old);
        let lower = lower.unwrap_or(view.lower_fence());
        let entries = kept.map(|index| (view.key(index), view.value(index)));
        if let Err(full) = LeafMut::build(self.0, view.page_id(), view.table(), (lower, upper), entries) {
            self.0.copy_from_slice(&old);
            return Err(full);
        }
        header::set_page_lsn(self.0, header::page_lsn(&old));
        Ok(())
    }
}
