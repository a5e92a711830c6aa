//! The contract between the public handles and an engine: the traits that an engine implements.
//!
//! A handle makes the checks that need no engine (sizes, access, handles of another opening, calls
//! after `close`), then calls the engine. So an engine gets only its own tables, of the same
//! opening. `either` makes one engine of two, at the cost of a predictable branch for each call.
//! `open` chooses the engine of a database. To add an engine, implement these traits and name it in
//! `open`.
//!
//! Rules for an engine:
//!
//! 1. Methods of [`Engine`] and [`EngineTransaction`] that may append to the log or change a file
//!    run inside of a `Call` ([`crate::opening`]). Exceptions are `begin`, reads, and writes of the
//!    memory engine, which stay in memory until the commit.
//! 2. After `commit`, `submit`, `rollback`, `conclude` or `abandon` a transaction has ended. If it
//!    still holds locks or versions, the engine releases them later, without a call of the
//!    transaction's owner. After `abandon` it may keep its locks until the next opening.
//! 3. Dropping a transaction that has not ended rolls it back.

use crate::CommitStamp;
use crate::Durability;
use crate::body::DatabaseKey;
use crate::changes::{Changes, ChangesFrom};
use crate::control::{Control, ControlFile};
use crate::copy::{Copied, Extension, Pace, Target, Unopened};
use crate::direction::Direction;
use crate::directory::DatabaseDir;
use crate::error::{Error, Result};
use crate::ids::{TableId, TxnId};
use crate::log_entry::LogEntry;
use crate::opening::Opened;
use crate::options::{Options, TransactionOptions};
use crate::report::{VerifyProgress, VerifyReport};
use crate::stat::Stat;
use crate::ticket::{OpenEngine, Ticket};
use katydid_device::{Directory, Id, Method};
use katydid_wal::Log;
use std::fmt;
use std::ops::{Bound, ControlFlow, Deref};
use std::sync::Arc;

/// A key and its value.
pub(crate) type Entry<'r> = (&'r [u8], &'r [u8]);

/// An open database. All clones are handles of one database, which is closed when the last clone
/// and the last result of `keeps_open` are dropped.
pub(crate) trait Engine: Opened + Clone {
    type Table: EngineTable;
    type Transaction: EngineTransaction<Table = Self::Table>;
    type Load: EngineLoad;

    /// Options with which the database was opened.
    fn options(&self) -> &Options;
    /// Name of the database's directory.
    fn place(&self) -> &str;
    /// Identity of the database for the bodies of `transact`.
    fn key(&self) -> DatabaseKey;

    /// See [`crate::Database::table`].
    fn table(&self, name: &str) -> Result<Self::Table>;
    /// See [`crate::Database::open_table`].
    fn open_table(&self, name: &str) -> Result<Option<Self::Table>>;
    /// See [`crate::Database::tables`].
    fn tables(&self) -> Result<Vec<String>>;
    /// See [`crate::Database::rename_table`].
    fn rename_table(&self, from: &str, to: &str) -> Result<bool>;
    /// See [`crate::Database::drop_table`].
    fn drop_table(&self, name: &str) -> Result<bool>;

    /// See [`crate::Database::begin_with`].
    fn begin(&self, options: TransactionOptions) -> Result<Self::Transaction>;
    /// Begins a bulk load of an empty table, which no other transaction uses meanwhile. See
    /// [`crate::Database::bulk_load`].
    fn load(&self, table: &Self::Table) -> Result<Self::Load>;
    /// A reference that keeps the database open.
    fn keeps_open(&self) -> Arc<dyn OpenEngine>;

    /// See [`crate::Database::sync`].
    fn sync(&self) -> Result<()>;
    /// See [`crate::Database::checkpoint`].
    fn checkpoint(&self) -> Result<()>;
    /// See [`crate::Database::close`].
    fn close(&self) -> Result<()>;
    /// See [`crate::Database::stat`].
    fn stat(&self) -> Result<Stat>;
    /// The database's id, which its control file stores.
    fn id(&self) -> Id;
    /// Writes all files of a copy but its control file, while other work goes on. The files are
    /// durable when this returns; their names in the top directory of `target` are not. An
    /// implementation enters a call or visit only where it needs one, because `pace` runs code of
    /// the user. See [`crate::Database::backup`].
    fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied>;
    /// See [`crate::Database::verify`].
    fn verify(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport>;
    /// The log, with all its streams.
    fn log(&self) -> &Log;
    /// The number of pages of the database file (0 in the memory engine), and the number of the
    /// next table. The log that was durable before the call names no page and no table beyond these
    /// numbers. Fails if the log cannot be archived. See [`crate::Database::log_archiver`].
    fn archive_facts(&self) -> Result<(u64, u32)>;
    /// A lower bound of the stamps of all commits whose records are appended from now on. `None` if
    /// stamps are positions of the log.
    fn archive_horizon(&self) -> Result<Option<CommitStamp>>;
    /// See [`crate::Database::changes`].
    fn changes(&self, from: &ChangesFrom) -> Result<Changes>;
    /// Does the background work that is due, if the database was opened without background threads.
    fn run_background(&self);
}

/// An engine's operations on a directory: opening a database, and reading or rewriting one that is
/// not open.
pub(crate) trait EngineFiles: Sized {
    /// The settings that this engine alone has.
    type Options;
    /// Opens the database in a directory, or creates one if there is no control file.
    fn open(
        directory: DatabaseDir,
        options: Options,
        own: Self::Options,
        control: Option<ControlFile>,
    ) -> Result<Self>;
    /// Checks the files of a database that is not open, changing nothing.
    fn verify_files(
        directory: &dyn Directory,
        control: &Control,
        progress: Option<VerifyProgress>,
    ) -> Result<VerifyReport>;
    /// Writes all files of a copy but its control file, from a whole copy and increments to it.
    /// None of these sources was opened since it was made. `control` is the control file of the
    /// last source. With an `extension`, the copy's log continues with the extension's log. Returns
    /// the contents of the copy's control file. See [`crate::Database::restore`].
    fn copy_unopened(
        sources: &[Unopened],
        control: &Control,
        target: &Target,
        pace: &mut Pace<'_>,
        extension: Option<&Extension>,
    ) -> Result<Control>;
    /// Rewrites the files of a database that was closed cleanly and whose lock is held. Returns the
    /// bytes of the database file before and after. See [`crate::Database::compact`].
    fn compact(
        directory: &Arc<dyn Directory>,
        control: &Control,
        method: Method,
        progress: Option<&VerifyProgress>,
    ) -> Result<(u64, u64)>;
    /// See [`crate::dump_log_in`].
    fn dump_log(
        directory: &dyn Directory,
        visit: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
    ) -> Result<String>;
}

/// A table, shared by its handles.
pub(crate) trait EngineTable: Clone {
    /// The table's current name.
    fn name(&self) -> Arc<str>;
    fn id(&self) -> TableId;
}

/// Purpose of a scan of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read the entries.
    Read,
    /// To change the entries that the scan finds.
    Update,
}

/// A transaction of the engine. Its implementation follows rules 2 and 3 of this file's head.
pub(crate) trait EngineTransaction: Opened + fmt::Debug + Sized {
    type Table: EngineTable;
    type Range: EngineRange<Self>;
    type Unlocked: EngineRange<Self>;
    /// A value that holds no latch and no reference to the transaction.
    type Lent: Deref<Target = [u8]>;

    fn id(&self) -> TxnId;
    /// Returns whether a commit or rollback has work to do.
    fn has_changes(&self) -> bool;
    /// Durability that the transaction's commit has when it is acknowledged.
    fn durability(&self) -> Durability;
    /// The failure after which the transaction can only roll back, if there was one. The
    /// transaction remembers a conflict that one of its calls has met, even if the caller ignores
    /// the error.
    fn failure(&self) -> Option<&Error>;

    /// See [`crate::Transaction::get`].
    fn get(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Returns what `get` returns, without a copy if the engine can.
    fn lend(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Self::Lent>>;
    /// Returns the values of `keys`, in the same order. The keys ascend. The transaction locks the
    /// keys in this order. See [`crate::Transaction::multi_get`].
    fn multi_get(&mut self, table: &Self::Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(table, key)).collect()
    }
    /// See [`crate::Transaction::contains`].
    fn contains(&mut self, table: &Self::Table, key: &[u8]) -> Result<bool>;
    /// See [`crate::Transaction::get_for_update`].
    fn get_for_update(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// See [`crate::Transaction::put`].
    fn put(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// Sets the values of several keys, which ascend. The transaction locks the keys in this order.
    /// After an error some values may be set. See [`crate::Transaction::put_all`].
    fn put_all(&mut self, table: &Self::Table, entries: &[(&[u8], &[u8])]) -> Result<()> {
        entries.iter().try_for_each(|(key, value)| self.put(table, key, value))
    }
    /// See [`crate::Transaction::insert`].
    fn insert(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// See [`crate::Transaction::delete`].
    fn delete(&mut self, table: &Self::Table, key: &[u8]) -> Result<bool>;
    /// See [`crate::Transaction::range`] and [`crate::Transaction::range_for_update`]. The range
    /// reads nothing before its first step.
    fn range(table: &Self::Table, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>, purpose: Purpose)
    -> Self::Range;
    /// See [`crate::Transaction::range_unlocked`]. The range is stepped upwards only.
    fn range_unlocked(table: &Self::Table, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self::Unlocked;

    /// Makes a savepoint, and returns its serial number within the transaction.
    fn savepoint(&mut self) -> u64;
    /// See [`crate::Transaction::rollback_to`].
    fn rollback_to(&mut self, savepoint: u64) -> Result<()>;
    /// Forgets a savepoint and all later ones, to which the transaction will not roll back. Keeps
    /// what was written since.
    fn forget_savepoint(&mut self, savepoint: u64);

    /// See [`crate::Transaction::commit`].
    fn commit(&mut self) -> Result<CommitStamp>;
    /// Appends the commit record, if the transaction has written, and returns. When the commit is
    /// durable, the engine releases the locks and versions that the transaction still holds; the
    /// caller makes no call for that. Errors are those of [`crate::Transaction::commit`].
    fn submit(&mut self) -> Result<Ticket>;
    /// A reference that keeps the database open.
    fn keeps_open(&self) -> Arc<dyn OpenEngine>;
    /// See [`crate::Transaction::rollback`].
    fn rollback(&mut self) -> Result<()>;
    /// Rolls back a transaction whose body has failed, checks that its reads are valid, and waits
    /// until they are as durable as its commit would be.
    ///
    /// # Errors
    /// A conflict if a read is not valid.
    fn conclude(&mut self) -> Result<()>;
    /// Forgets the transaction because the database is closed or being closed. The next opening
    /// undoes the transaction's changes (paged engine), or they are discarded now, because they
    /// exist only in memory (memory engine).
    fn abandon(&mut self);
}

/// A bulk load. Dropping it before `finish` leaves the table empty.
pub(crate) trait EngineLoad {
    /// Adds an entry, whose key is above all keys added before. After an error the load can only be
    /// dropped.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Puts all keys into the table at once, durably.
    fn finish(self) -> Result<()>;
}

/// The entries of a range of keys, read by one transaction `T`. A range holds no reference to the
/// transaction, so that the transaction can read, write and scan other ranges between two steps.
pub(crate) trait EngineRange<T>: fmt::Debug {
    /// Returns the next entry in `direction`, if there is one, as `transaction` sees it at this
    /// step, with its own writes. All steps of a range pass the same transaction. If there is a
    /// `limit`, the caller takes at most `limit` entries, this one included.
    fn step<'r>(
        &'r mut self,
        transaction: &mut T,
        direction: Direction,
        limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>>;
}
