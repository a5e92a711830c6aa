//! What the handles on one table share.

use crate::engine::EngineTable;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::lock::LockSpace;
use crate::paged::tree::{LeafHints, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table of an open database.
pub(crate) struct PagedTable {
    pub(crate) name: String,
    pub(crate) tree: Tree,
    pub(crate) space: Arc<LockSpace>,
    pub(crate) hints: LeafHints,
    /// Set by the dropper before it releases the table's exclusive lock, read by users after they got theirs: the lock
    /// orders the two.
    pub(crate) dropped: AtomicBool,
}

impl PagedTable {
    /// Fails if the table was dropped; asked when its lock is held.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::TableDropped { name: self.name.clone() });
        }
        Ok(())
    }
}

impl EngineTable for Arc<PagedTable> {
    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> TableId {
        self.tree.table
    }
}
