//! A table in memory: its number, its keys, and its name for errors.
//!
//! Any thread runs this code.

use super::index::Index;
use crate::ids::TableId;
use crate::latch::Mutex;
use std::fmt;
use std::sync::Arc;

/// A table: its number and its keys.
pub(crate) struct Table {
    pub(super) id: TableId,
    pub(super) index: Index,
    /// The table's name, for errors, under a leaf latch. The name is set when a handle of the table
    /// is made, and when the table is renamed.
    name: Mutex<Arc<str>>,
}

impl Table {
    pub(super) fn new(id: TableId) -> Self {
        Table { id, index: Index::new(id), name: Mutex::default() }
    }

    /// The table's name, for errors.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }

    /// Sets the table's name, for errors.
    pub(crate) fn set_name(&self, name: &str) {
        *self.name.lock() = name.into();
    }

    /// The table's number.
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// Number of keys, including deleted ones that are not yet removed.
    pub(crate) fn records(&self) -> u64 {
        self.index.records()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("id", &self.id).finish_non_exhaustive()
    }
}
