//! State that the handles on one table share.

use crate::engine::EngineTable;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::lock::LockSpace;
use crate::paged::tree::{LeafHints, Tree};
use crate::paged::views::Versions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table of an open database.
pub(crate) struct PagedTable {
    pub(crate) tree: Tree,
    pub(crate) space: Arc<LockSpace>,
    pub(crate) hints: LeafHints,
    /// Former values of the table's keys, for views.
    pub(crate) versions: Arc<Versions>,
    /// True once the record that drops the table has its position in the log. The dropping thread
    /// sets it before pages are freed and before the table's exclusive lock is released. A
    /// transaction reads the flag after the grant of its table lock, which orders the store before
    /// the load. A view, which has no lock, reads the flag after it has read pages.
    pub(crate) dropped: AtomicBool,
}

impl PagedTable {
    /// Fails if the table was dropped.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::TableDropped { name: self.space.name().to_string() });
        }
        Ok(())
    }
}

impl EngineTable for Arc<PagedTable> {
    fn name(&self) -> Arc<str> {
        self.space.name()
    }

    fn id(&self) -> TableId {
        self.tree.table
    }
}
