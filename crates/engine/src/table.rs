//! A handle on a named table.

use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::lock::LockSpace;
use crate::paged::tree::{LeafHints, Tree};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A named table of one database. Cheap to clone; stays valid until the table is dropped. It does not keep the database
/// open.
#[derive(Clone)]
pub struct Table {
    pub(crate) shared: Arc<TableShared>,
}

pub(crate) struct TableShared {
    pub(crate) name: String,
    pub(crate) tree: Tree,
    pub(crate) space: Arc<LockSpace>,
    pub(crate) hints: LeafHints,
    /// The id of the database, for telling tables of another one.
    pub(crate) database: u128,
    /// Set by the dropper before it releases the table's exclusive lock, read by users after they got theirs: the lock
    /// orders the two.
    pub(crate) dropped: AtomicBool,
}

impl TableShared {
    /// Fails if the table was dropped; asked when its lock is held.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::TableDropped { name: self.name.clone() });
        }
        Ok(())
    }
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its number, never used again after it is dropped.
    pub fn id(&self) -> TableId {
        self.shared.tree.table
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?}, {})", self.name(), self.id())
    }
}
