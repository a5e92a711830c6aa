//! Giving a page another number, and renumbering the pages to which it links. The functions are
//! pure.
//!
//! Slots, heads, fences and lengths stay as they are. Only the numbers of pages change.

use super::fault::{FaultReason, PageFault};
use super::header::Kind;
use super::id::PageId;
use super::leaf::{CELL_HEADER, Value, value_of};
use super::{header, slots};
use crate::Lsn;

/// Gives the page the number `id` and the page LSN `lsn`. `moved` returns the new number of a page
/// to which this page links, or `None` if that page is not in use. The page has passed
/// [`super::check()`].
pub(crate) fn relocate(
    page: &mut [u8],
    id: PageId,
    lsn: Lsn,
    moved: &dyn Fn(PageId) -> Option<PageId>,
) -> Result<(), PageFault> {
    let from = header::page_id(page);
    let moved = |to: PageId| moved(to).ok_or(PageFault { page: from, reason: FaultReason::Link(to) });
    match header::kind(page) {
        Some(Kind::Leaf) => {
            for index in 0..header::count(page) {
                if let Value::Overflow { head, .. } = value_of(slots::cell(page, index)) {
                    let head = moved(head)?;
                    let cell = slots::cell_mut(page, index);
                    let at = CELL_HEADER + header::u16_at(cell, 0);
                    header::set_u64(cell, at, head.get());
                }
            }
        }
        Some(Kind::Inner) => {
            let first = moved(header::link(page))?;
            header::set_link(page, first);
            for index in 0..header::count(page) {
                let child = moved(PageId::new(header::u64_at(slots::cell(page, index), 0)))?;
                header::set_u64(slots::cell_mut(page, index), 0, child.get());
            }
        }
        Some(Kind::Overflow) => {
            let next = header::link(page);
            if !next.is_none() {
                let next = moved(next)?;
                header::set_link(page, next);
            }
        }
        Some(Kind::Free | Kind::File | Kind::Map) | None => {}
    }
    header::set_page_id(page, id);
    header::set_page_lsn(page, lsn);
    Ok(())
}

/// Calls `change` with the key and the bytes of each value that lies in the leaf itself. The length
/// of a value cannot change.
pub(crate) fn for_each_inline<E>(
    page: &mut [u8],
    mut change: impl FnMut(&[u8], &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    for index in 0..header::count(page) {
        if let Value::Inline(_) = value_of(slots::cell(page, index)) {
            let cell = slots::cell_mut(page, index);
            let at = CELL_HEADER + header::u16_at(cell, 0);
            let (front, value) = cell.split_at_mut(at);
            change(&front[CELL_HEADER..], value)?;
        }
    }
    Ok(())
}
