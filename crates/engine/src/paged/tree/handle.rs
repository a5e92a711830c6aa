//! The handle of a table's tree, and access to its pages.
//!
//! The types are plain values; any thread may use them.

use super::shortcuts::Shortcuts;
use crate::paged::page::PageId;
use crate::paged::pool::Pool;
use crate::paged::space::Space;
use crate::{Error, TableId};
use std::sync::Arc;

/// The pages of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) space: &'a Arc<Space>,
    /// Shortcuts to the table's leaves, if the caller has them.
    pub(crate) shortcuts: Option<&'a Shortcuts>,
}

/// A table's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The table.
    pub(crate) table: TableId,
    /// The root, which does not change during the life of the tree.
    pub(crate) root: PageId,
}

impl Tree {
    /// Returns the tree of `table` with this root.
    pub(crate) const fn new(table: TableId, root: PageId) -> Self {
        Tree { table, root }
    }
}

/// The error of a page of a tree that contradicts its neighbours.
pub(super) fn corrupt(page: PageId, finding: impl Into<String>) -> Error {
    Error::Corrupt { place: format!("page {page}"), page: Some(page.get()), finding: finding.into() }
}
