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
    /// Former values of its keys, for views.
    pub(crate) versions: Arc<Versions>,
    /// Set by the dropper when the drop has its place in the log, before pages are freed and before
    /// the table's exclusive lock is released. Users read it after they got theirs: the lock orders
    /// the two. Views, which have no lock, read it after they have read pages.
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
