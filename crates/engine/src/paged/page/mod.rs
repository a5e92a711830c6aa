//! The page format: pure functions over the bytes of one page. Nothing here does I/O, latches or logs.
//!
//! Byte-exact description: `docs/page-format.md`. Any thread; the caller holds the page's latch.
//!
//! Invariants:
//!
//! 1. Nothing read from a device is used before [`check()`] accepted it. `check` is total: any bytes give `Ok` or a
//!    [`PageFault`] that names page and reason. The views ([`LeafRef`], [`InnerRef`], ...) rely on it.
//! 2. Every edit leaves a page that `check` accepts (after [`header::seal`], which alone writes the checksum).
//! 3. An edit that fails with [`Full`] has changed nothing a reader could see.
//!
//! A crash leaves nothing here: pages become durable through `pool` only.

mod edit_inner;
mod edit_leaf;
mod fault;
pub(crate) mod file_page;
pub(crate) mod header;
pub(crate) mod image;
mod inner;
pub(crate) mod key;
mod leaf;
pub(crate) mod map;
pub(crate) mod overflow;
pub(crate) mod relocate;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod validate;

pub(crate) use edit_inner::InnerMut;
pub(crate) use edit_leaf::LeafMut;
pub(crate) use fault::{FaultReason, PageFault};
pub(crate) use file_page::FilePage;
pub(crate) use header::Kind;
pub(crate) use inner::InnerRef;
pub(crate) use leaf::{LeafRef, Value};
pub(crate) use map::{MapMut, MapRef};
pub(crate) use overflow::OverflowRef;
pub(crate) use validate::{check, check_structure};

pub(crate) use crate::limits::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use std::fmt;

const _: () =
    assert!(PAGE_BYTES_MAX <= u16::MAX as usize, "offsets in a page, the end included, fit 16 bits");

/// A page's place in the database file: it starts at byte `id * page_bytes`. Zero (the file's header) doubles as
/// "no page" in links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct PageId(u64);

impl PageId {
    /// No page, in links; also the id of the file's header page, which nothing links to.
    pub(crate) const NONE: PageId = PageId(0);
    /// The first allocation map.
    pub(crate) const FIRST_MAP: PageId = PageId(1);
    /// The root of the catalog's tree; it never moves.
    pub(crate) const CATALOG_ROOT: PageId = PageId(2);

    /// The page numbered `id`.
    pub(crate) const fn new(id: u64) -> Self {
        PageId(id)
    }

    /// The number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is [`PageId::NONE`].
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Its first byte in the database file; `None` if that is beyond 64 bits.
    pub(crate) const fn offset(self, page_bytes: usize) -> Option<u64> {
        self.0.checked_mul(page_bytes as u64)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The page has no room for the edit; nothing was changed. Split it, or move the value to overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page has no room")]
pub(crate) struct Full;

/// The longest key that pages of `page_bytes` hold: an eighth of a page and at most 1,024 bytes, so that an inner page
/// with the longest fences still holds four of the longest separators and a split always leaves two proper halves.
pub(crate) const fn key_bytes_max(page_bytes: usize) -> usize {
    let eighth = page_bytes / 8;
    if eighth < 1024 { eighth } else { 1024 }
}

/// The longest leaf cell, in bytes: with the longest fences, four of them fit a page. A value that would make its cell
/// longer goes to overflow pages.
pub(crate) const fn leaf_cell_bytes_max(page_bytes: usize) -> usize {
    (page_bytes - header::BYTES - 2 * key_bytes_max(page_bytes)) / 4 - slots::SLOT
}

/// Whether a value is kept in its leaf; if not, it goes to overflow pages.
pub(crate) const fn fits_inline(page_bytes: usize, key_bytes: usize, value_bytes: usize) -> bool {
    leaf::CELL_HEADER + key_bytes + value_bytes <= leaf_cell_bytes_max(page_bytes)
}
