//! A handle on a named table.

use crate::engine::EngineTable;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::open::ChosenTable;
use crate::opening::OpeningId;
use std::fmt;
use std::sync::Arc;

/// A named table of an open database. Cheap to clone; valid until the table is dropped or the
/// database is closed. It does not keep the database open. After opening again, ask for the table
/// again: a handle of another opening is refused with
/// [`Error::ForeignTable`](crate::Error::ForeignTable), also one of the same directory or of a copy
/// of it.
#[derive(Clone)]
pub struct Table {
    /// The opening that it is a table of: a handle of another one brings that one's locks, pages or
    /// rows.
    opening: OpeningId,
    name: Arc<str>,
    pub(crate) of: ChosenTable,
}

impl Table {
    pub(crate) fn new(opening: OpeningId, name: &str, of: ChosenTable) -> Self {
        Table { opening, name: name.into(), of }
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

    /// Name of the table when this handle was asked for. See
    /// [`Database::rename_table`](crate::Database::rename_table).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the table, never used again after it is dropped.
    pub fn id(&self) -> TableId {
        self.of.id()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?}, {})", self.name(), self.id())
    }
}
