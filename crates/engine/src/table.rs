//! A handle on a named table.

use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::memory::MemoryTable;
use crate::opening::OpeningId;
use crate::paged::table::PagedTable;
use std::fmt;
use std::sync::Arc;

/// A named table of an open database. Cheap to clone; valid until the table is dropped or the database is closed. It does not keep the
/// database open. After opening again, ask for the table again: a handle of another opening is refused with
/// [`Error::ForeignTable`](crate::Error::ForeignTable), also one of the same directory or of a copy of it.
#[derive(Clone)]
pub struct Table {
    /// The opening that it is a table of: a handle of another one brings that one's locks, pages or rows.
    opening: OpeningId,
    pub(crate) of: TableOf,
}

/// The table, as its engine knows it.
#[derive(Clone)]
pub(crate) enum TableOf {
    Paged(Arc<PagedTable>),
    Memory(Arc<MemoryTable>),
}

impl Table {
    pub(crate) fn new(opening: OpeningId, of: TableOf) -> Self {
        Table { opening, of }
    }

    /// Fails if it is not a table of `opening`.
    #[inline]
    pub(crate) fn check(&self, opening: OpeningId) -> Result<()> {
        if self.opening == opening { Ok(()) } else { Err(self.foreign()) }
    }

    /// The error for a table of another opening.
    #[cold]
    pub(crate) fn foreign(&self) -> Error {
        Error::ForeignTable { name: self.name().to_owned() }
    }

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
