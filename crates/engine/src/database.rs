//! The handle of an open database.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::options::{Options, TransactionOptions};
use crate::session::Session;
use crate::stat::Stat;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::verify::{VerifyProgress, VerifyReport};
use katydid_device::Directory;
use std::path::Path;
use std::sync::Arc;

const ABSENT: Error = Error::Internal("the engine is not part of this build");

/// An open database. Cheap to clone; all clones are one database, closed when the last one and the last transaction
/// are gone, or by [`Database::close`].
#[derive(Debug, Clone)]
pub struct Database {}

impl Database {
    /// Opens the database in directory `path`, creating it if there is none, and recovering it if needed.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Self::open_with(path, Options::default())
    }

    /// Opens the database in directory `path` with `options`.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let _ = path.as_ref();
        options.validate()?;
        Err(ABSENT)
    }

    /// Opens the database in a directory of any device.
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Database> {
        let _ = directory;
        options.validate()?;
        Err(ABSENT)
    }

    /// The table called `name`, created if there is none. A creation is durable when this returns.
    pub fn table(&self, _name: &str) -> Result<Table> {
        Err(ABSENT)
    }

    /// The table called `name`, if there is one.
    pub fn open_table(&self, _name: &str) -> Result<Option<Table>> {
        Err(ABSENT)
    }

    /// The names of all tables, sorted.
    pub fn tables(&self) -> Result<Vec<String>> {
        Err(ABSENT)
    }

    /// Drops a table and frees its pages; `false` if there is none. Durable when this returns. Waits for the
    /// transactions that use the table.
    pub fn drop_table(&self, _name: &str) -> Result<bool> {
        Err(ABSENT)
    }

    /// Begins a transaction with the database's durability.
    pub fn begin(&self) -> Result<Transaction> {
        Err(ABSENT)
    }

    /// Begins a transaction.
    pub fn begin_with(&self, _options: TransactionOptions) -> Result<Transaction> {
        Err(ABSENT)
    }

    /// Runs `body` in a transaction and commits it; runs it again after a conflict, at most `Options::retries` times.
    /// Any other error of `body` rolls back and is returned.
    pub fn transact<T>(&self, _body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        Err(ABSENT)
    }

    /// A queue of commit callbacks, one per thread that commits with [`Transaction::commit_with`].
    pub fn session(&self) -> Session {
        Session {}
    }

    /// Reads one value in a transaction of its own.
    pub fn get(&self, _table: &Table, _key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Err(ABSENT)
    }

    /// Writes one value in a transaction of its own, retrying conflicts.
    pub fn put(&self, _table: &Table, _key: impl AsRef<[u8]>, _value: impl AsRef<[u8]>) -> Result<()> {
        Err(ABSENT)
    }

    /// Deletes one key in a transaction of its own, retrying conflicts; whether it was there.
    pub fn delete(&self, _table: &Table, _key: impl AsRef<[u8]>) -> Result<bool> {
        Err(ABSENT)
    }

    /// Makes everything committed before the call durable; the end of the log it covers.
    pub fn sync(&self) -> Result<Lsn> {
        Err(ABSENT)
    }

    /// Takes a checkpoint now and trims the log; where it began.
    pub fn checkpoint(&self) -> Result<Lsn> {
        Err(ABSENT)
    }

    /// Positions and counters.
    pub fn stat(&self) -> Result<Stat> {
        Err(ABSENT)
    }

    /// Checks every page, the order of every tree, the map of free pages and the log, while the database is in use.
    pub fn verify(&self, _progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        Err(ABSENT)
    }

    /// The same without opening the database and without changing anything. A database that was not closed cleanly is
    /// checked as it lies there: its log, and its pages as far as they can be judged before recovery.
    pub fn verify_path(path: impl AsRef<Path>, _progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        let _ = path.as_ref();
        Err(ABSENT)
    }

    /// Takes a checkpoint, closes the log and the files. Later calls on any clone fail with `Error::Closed`.
    /// Transactions that have not committed are lost.
    pub fn close(&self) -> Result<()> {
        Err(ABSENT)
    }
}
