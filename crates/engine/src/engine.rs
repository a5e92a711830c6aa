//! The contract between the public handles and an engine: everything that a handle may ask.
//!
//! A handle checks what needs no engine (sizes, access, handles of another opening, calls after
//! `close`), then asks. So an engine is given only its own tables, of the same opening. `either`
//! makes one engine of two, at no cost for a call; `open` chooses. An engine is added by
//! implementing these traits and by naming it there.
//!
//! Rules for an engine:
//!
//! 1. Methods of [`Engine`] and [`EngineTransaction`] that may append to the log or change a file
//!    are called inside of a call of the opening ([`crate::opening`]), except `begin`, reads, and
//!    in the memory engine writes, which stay in memory until the commit.
//! 2. After `commit`, `submit`, `rollback`, `conclude` or `abandon` a transaction has ended: it
//!    holds nothing that another one waits for, or that is released later by itself.
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
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A key and its value.
pub(crate) type Entry<'r> = (&'r [u8], &'r [u8]);

/// An open database. All clones are one database, which is closed when the last of them is dropped
/// and the last transaction, session and commit.
pub(crate) trait Engine: Opened + Clone {
    type Table: EngineTable;
    type Transaction: EngineTransaction<Table = Self::Table>;
    type Load: EngineLoad;

    /// Options that it was opened with.
    fn options(&self) -> &Options;
    /// Name of its directory.
    fn place(&self) -> &str;
    /// Identity for the bodies of `transact`.
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
    /// Begins a bulk load: has the table to itself, and finds it empty. See
    /// [`crate::Database::bulk_load`].
    fn load(&self, table: &Self::Table) -> Result<Self::Load>;
    /// A reference that keeps it open.
    fn keeps_open(&self) -> Arc<dyn OpenEngine>;

    /// See [`crate::Database::sync`].
    fn sync(&self) -> Result<()>;
    /// See [`crate::Database::checkpoint`].
    fn checkpoint(&self) -> Result<()>;
    /// See [`crate::Database::close`].
    fn close(&self) -> Result<()>;
    /// See [`crate::Database::stat`].
    fn stat(&self) -> Result<Stat>;
    /// Its stored id.
    fn id(&self) -> Id;
    /// Writes everything of a copy but its control file, durable but for the names in the directory
    /// itself, beside whatever else runs. In no call or visit but where it needs one: `pace` runs
    /// code of the user. See [`crate::Database::backup`].
    fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied>;
    /// See [`crate::Database::verify`].
    fn verify(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport>;
    /// The log, with all its streams.
    fn log(&self) -> &Log;
    /// Pages of the database file, and the number of the next table. What was durable before the
    /// call needs no more of either. Fails if the log cannot be archived. See
    /// [`crate::Database::log_archiver`].
    fn archive_facts(&self) -> Result<(u64, u32)>;
    /// Every commit whose record is appended from now on has this stamp or a greater one. None if
    /// stamps are positions of the log.
    fn archive_horizon(&self) -> Result<Option<CommitStamp>>;
    /// See [`crate::Database::changes`].
    fn changes(&self, from: &ChangesFrom) -> Result<Changes>;
    /// Does what background threads would have done by now, if it was opened without them;
    /// otherwise nothing.
    fn run_background(&self);
}

/// An engine as a kind of directory: opening one, and looking at one that is not open.
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
    /// Checks files as they lie there, changing nothing.
    fn verify_files(
        directory: &dyn Directory,
        control: &Control,
        progress: Option<VerifyProgress>,
    ) -> Result<VerifyReport>;
    /// Writes everything of a copy but its control file from a whole copy and increments to it,
    /// none of which was opened since it was made. `control` is that of the last one. With an
    /// extension the log goes on with that. Returns what the control file of the copy is to say of
    /// its files. See [`crate::Database::restore`].
    fn copy_unopened(
        sources: &[Unopened],
        control: &Control,
        target: &Target,
        pace: &mut Pace<'_>,
        extension: Option<&Extension>,
    ) -> Result<Control>;
    /// Rewrites the files of a database that was closed cleanly and whose lock is held; bytes
    /// before and after. See [`crate::Database::compact`].
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
    /// Its name now.
    fn name(&self) -> Arc<str>;
    fn id(&self) -> TableId;
}

/// Purpose of a walk over a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read it.
    Read,
    /// To change what it finds.
    Update,
}

/// A transaction. Rules 2 and 3.
pub(crate) trait EngineTransaction: Opened + fmt::Debug + Sized {
    type Table: EngineTable;
    type Range: EngineRange<Self>;
    type Unlocked: EngineRange<Self>;

    fn id(&self) -> TxnId;
    /// Returns true if ending it takes more than dropping it.
    fn has_changes(&self) -> bool;
    /// Durability of its commit when it is acknowledged.
    fn durability(&self) -> Durability;
    /// The failure after which the transaction can only roll back, if there was one. A conflict
    /// that any of its calls met is remembered here, whatever the caller did with the error.
    fn failure(&self) -> Option<&Error>;

    /// See [`crate::Transaction::get`].
    fn get(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// See [`crate::Transaction::contains`].
    fn contains(&mut self, table: &Self::Table, key: &[u8]) -> Result<bool>;
    /// See [`crate::Transaction::get_for_update`].
    fn get_for_update(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// See [`crate::Transaction::put`].
    fn put(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// See [`crate::Transaction::insert`].
    fn insert(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// See [`crate::Transaction::delete`].
    fn delete(&mut self, table: &Self::Table, key: &[u8]) -> Result<bool>;
    /// See [`crate::Transaction::range`] and [`crate::Transaction::range_for_update`]. The range
    /// reads nothing before its first step.
    fn range(table: &Self::Table, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>, purpose: Purpose)
    -> Self::Range;
    /// See [`crate::Transaction::range_unlocked`]. It is stepped upwards only.
    fn range_unlocked(table: &Self::Table, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self::Unlocked;

    /// Makes a savepoint, and returns its serial number within the transaction.
    fn savepoint(&mut self) -> u64;
    /// See [`crate::Transaction::rollback_to`].
    fn rollback_to(&mut self, savepoint: u64) -> Result<()>;

    /// See [`crate::Transaction::commit`].
    fn commit(&mut self) -> Result<CommitStamp>;
    /// Gives the transaction its place in the log and returns; what it still holds is released when
    /// it is durable, without its caller. Errors as [`crate::Transaction::commit`].
    fn submit(&mut self) -> Result<Ticket>;
    /// A reference that keeps the database open.
    fn keeps_open(&self) -> Arc<dyn OpenEngine>;
    /// See [`crate::Transaction::rollback`].
    fn rollback(&mut self) -> Result<()>;
    /// Rolls back because the caller gives up, and checks that its reads hold and are as durable as
    /// its commit would be.
    ///
    /// # Errors
    /// A conflict if they do not hold.
    fn conclude(&mut self) -> Result<()>;
    /// Forgets it when the database is being closed or was: the next opening undoes its changes.
    fn abandon(&mut self);
}

/// A bulk load. Dropping it before `finish` leaves the table empty.
pub(crate) trait EngineLoad {
    /// Adds a key above all that were added. After an error the load can only be dropped.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Gives the table all keys at once, durably.
    fn finish(self) -> Result<()>;
}

/// The entries of a range of keys, read by one transaction `T`. It holds no reference to the
/// transaction, so that the transaction can read, write and walk other ranges between two steps.
pub(crate) trait EngineRange<T>: fmt::Debug {
    /// The next entry from one end, if there is one, as `transaction` sees it at this step, its own
    /// writes included. `transaction` is the one that takes every step of this range. The caller
    /// takes at most `limit` more, if it says so.
    fn step<'r>(
        &'r mut self,
        transaction: &mut T,
        direction: Direction,
        limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>>;
}
