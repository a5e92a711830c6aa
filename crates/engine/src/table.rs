//! A handle on a named table.

use crate::engine::EngineTable;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::open::ChosenTable;
use crate::opening::OpeningId;
use std::fmt;
use std::sync::Arc;

/// A handle of a named table of an open database. A handle is cheap to clone, and valid until the
/// table is dropped or the database is closed. A handle does not keep the database open. After
/// opening the database again, ask for the table again: a handle of another opening, even of the
/// same directory or of a copy, is refused with
/// [`Error::ForeignTable`](crate::Error::ForeignTable).
#[derive(Clone)]
pub struct Table {
    /// The opening that the table belongs to. A handle of another opening is refused, because it
    /// would bring locks, pages or rows of that opening.
    opening: OpeningId,
    name: Arc<str>,
    pub(crate) of: ChosenTable,
}

impl Table {
    pub(crate) fn new(opening: OpeningId, name: &str, of: ChosenTable) -> Self {
        Table { opening, name: name.into(), of }
    }

    /// Fails if the table does not belong to `opening`.
    #[inline]
    pub(crate) fn check(&self, opening: OpeningId) -> Result<()> {
        if self.opening == opening { Ok(()) } else { Err(self.foreign()) }
    }

    /// The error for a table of another opening.
    #[cold]
    pub(crate) fn foreign(&self) -> Error {
        Error::ForeignTable { name: self.name().to_owned() }
    }

    /// Returns the name that the table had when this handle was made. See
    /// [`Database::rename_table`](crate::Database::rename_table).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the table, which is never used again after the table is dropped.
    pub fn id(&self) -> TableId {
        self.of.id()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?}, {})", self.name(), self.id())
    }
}
