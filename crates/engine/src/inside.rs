//! Access to the engine of a database, for tests that have opened it with an engine of their
//! choice.

use crate::database::Database;
use crate::either::Either;
use crate::memory::MemoryDatabase;
use crate::paged::database::PagedDatabase;
use crate::paged::table::PagedTable;
use crate::table::Table;

impl Database {
    pub(crate) fn paged(&self) -> &PagedDatabase {
        match &self.of {
            Either::First(database) => database,
            Either::Second(_) => unreachable!("the test has opened it as a paged one"),
        }
    }

    pub(crate) fn memory(&self) -> &MemoryDatabase {
        match &self.of {
            Either::Second(database) => database,
            Either::First(_) => unreachable!("the test has opened it as one in memory"),
        }
    }
}

impl Table {
    pub(crate) fn paged(&self) -> &PagedTable {
        match &self.of {
            Either::First(table) => table,
            Either::Second(_) => unreachable!("the test has opened the database as a paged one"),
        }
    }
}
