//! A handle on a named table.

use crate::ids::TableId;
use std::sync::Arc;

/// A named table of one database. Cheap to clone; stays valid until the table is dropped.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) shared: Arc<TableShared>,
}

#[derive(Debug)]
pub(crate) struct TableShared {
    pub(crate) id: TableId,
    pub(crate) name: String,
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its number, never used again after it is dropped.
    pub fn id(&self) -> TableId {
        self.shared.id
    }
}
