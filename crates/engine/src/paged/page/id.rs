//! The number of a page.
//!
//! A `PageId` is a plain value; any thread may use it.

use std::fmt;

/// Number of a page, which is its place in the database file: the page starts at byte `id *
/// page_bytes`. In links, zero (the file's header) means "no page".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct PageId(u64);

impl PageId {
    /// No page, in links. It is also the id of the file's header page, to which nothing links.
    pub(crate) const NONE: PageId = PageId(0);
    /// The first allocation map.
    pub(crate) const FIRST_MAP: PageId = PageId(1);
    /// The root of the catalog's tree, which never moves.
    pub(crate) const CATALOG_ROOT: PageId = PageId(2);

    /// The page numbered `id`.
    pub(crate) const fn new(id: u64) -> Self {
        PageId(id)
    }

    /// The number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether this is [`PageId::NONE`].
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Offset of the page's first byte in the database file; `None` if it does not fit 64 bits.
    pub(crate) const fn offset(self, page_bytes: usize) -> Option<u64> {
        self.0.checked_mul(page_bytes as u64)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
