//! A table in memory: its number, its keys, and its name for errors.
//!
//! Any thread.

use super::index::Index;
use crate::ids::TableId;
use crate::latch::Mutex;
use std::fmt;
use std::sync::Arc;

/// A table: its number and its keys.
pub(crate) struct Table {
    pub(super) id: TableId,
    pub(super) index: Index,
    /// For errors. A leaf latch; set when the table gets its handle and when it is renamed.
    name: Mutex<Arc<str>>,
}

impl Table {
    pub(super) fn new(id: TableId) -> Self {
        Table { id, index: Index::new(id), name: Mutex::default() }
    }

    /// Its name, for errors.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }

    /// From now on errors call it `name`.
    pub(crate) fn set_name(&self, name: &str) {
        *self.name.lock() = name.into();
    }

    /// Its number.
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// Keys, those included that were deleted and are not yet forgotten.
    pub(crate) fn records(&self) -> u64 {
        self.index.records()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("id", &self.id).finish_non_exhaustive()
    }
}
