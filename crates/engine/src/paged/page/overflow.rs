//! Overflow pages: a chain of pieces of a value that is too long for its leaf.
//!
//! In the header, `count` is the number of payload bytes and `link` the next page (zero in the last
//! page).

use super::header;
use super::id::PageId;
use crate::TableId;

/// Payload bytes of one page.
pub(crate) const fn capacity(page_bytes: usize) -> usize {
    page_bytes - header::BYTES
}

/// Number of pages that a value of `bytes` bytes takes. An empty value takes one.
pub(crate) const fn pages_for(page_bytes: usize, bytes: usize) -> usize {
    let pages = bytes.div_ceil(capacity(page_bytes));
    if pages == 0 { 1 } else { pages }
}

/// Makes these bytes an overflow page. Sets every byte; the page LSN becomes zero. `payload` is at
/// most [`capacity`] bytes.
pub(crate) fn format(page: &mut [u8], id: PageId, table: TableId, payload: &[u8], next: PageId) {
    header::format(page, id, header::Kind::Overflow, 0, table);
    header::set_count(page, payload.len());
    header::set_link(page, next);
    page[header::BYTES..header::BYTES + payload.len()].copy_from_slice(payload);
    page[header::BYTES + payload.len()..].fill(0);
}

/// A checked overflow page that can be read.
#[derive(Clone, Copy)]
pub(crate) struct OverflowRef<'a>(&'a [u8]);

impl<'a> OverflowRef<'a> {
    /// The overflow page in these bytes, which passed [`super::check()`] and are of kind
    /// `Overflow`.
    pub(crate) fn new(page: &'a [u8]) -> Self {
        debug_assert_eq!(header::kind(page), Some(header::Kind::Overflow));
        OverflowRef(page)
    }

    /// The page's piece of the value.
    pub(crate) fn payload(self) -> &'a [u8] {
        &self.0[header::BYTES..header::BYTES + header::count(self.0)]
    }

    /// The next page of the chain.
    pub(crate) fn next(self) -> Option<PageId> {
        let next = header::link(self.0);
        (!next.is_none()).then_some(next)
    }

    /// The page's table.
    pub(crate) fn table(self) -> TableId {
        header::table(self.0)
    }
}
