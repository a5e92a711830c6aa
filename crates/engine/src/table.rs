//! A handle on a named table.

use crate::ids::TableId;
use crate::memory::MemoryTable;
use crate::paged::table::PagedTable;
use std::fmt;
use std::sync::Arc;

/// A named table of one database. Cheap to clone; stays valid until the table is dropped. It does not keep the database
/// open.
#[derive(Clone)]
pub struct Table {
    pub(crate) of: TableOf,
}

/// The table, as its engine knows it.
#[derive(Clone)]
pub(crate) enum TableOf {
    Paged(Arc<PagedTable>),
    Memory(Arc<MemoryTable>),
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        match &self.of {
            TableOf::Paged(table) => &table.name,
            TableOf::Memory(table) => &table.name,
        }
    }

    /// Its number, never used again after it is dropped.
    pub fn id(&self) -> TableId {
        match &self.of {
            TableOf::Paged(table) => table.tree.table,
            TableOf::Memory(table) => table.rows.id(),
        }
    }
}

impl From<Arc<PagedTable>> for Table {
    fn from(table: Arc<PagedTable>) -> Self {
        Table { of: TableOf::Paged(table) }
    }
}

impl From<Arc<MemoryTable>> for Table {
    fn from(table: Arc<MemoryTable>) -> Self {
        Table { of: TableOf::Memory(table) }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?}, {})", self.name(), self.id())
    }
}

#[cfg(test)]
impl Table {
    /// The inside of a table of a paged database.
    pub(crate) fn paged(&self) -> &PagedTable {
        match &self.of {
            TableOf::Paged(table) => table,
            TableOf::Memory(_) => unreachable!("the test has opened the database as a paged one"),
        }
    }
}
