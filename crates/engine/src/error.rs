//! The errors of all calls on the store.
//!
//! All public calls have one error type, because the calls of a transaction fail for the same
//! reasons. The type is `Clone`, because the failure that poisons a database is returned to every
//! later caller, and a failed sync is returned to every waiting commit.
//!
//! The text of an error includes its cause, which is also its `source`: a program that prints only
//! the error loses nothing. An error about a table or a key names it. Names and keys are escaped,
//! and keys are cut to 48 bytes.

pub(crate) use crate::archive_fault::ArchiveFault;
use crate::contested::{Contested, KeyExcerpt};
use crate::ids::EngineKind;
use crate::ids::TxnId;
use crate::limits::NAME_BYTES_MAX;
use crate::stat::Pin;
use katydid_device as device;
use katydid_wal as wal;
use std::fmt;
use std::sync::Arc;

/// The result of a call on the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Kind of a conflict between two transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictKind {
    /// The transactions waited for each other, and the caller's transaction was chosen to roll
    /// back.
    Deadlock,
    /// The other transaction did not release its lock (paged engine), or did not end (memory
    /// engine), within `Options::lock_wait`.
    Timeout,
    /// A key that the transaction has read or passed over was changed before its commit (memory
    /// engine).
    Changed,
    /// A transaction with a later timestamp has read or written a key that this transaction wanted
    /// to write (memory engine).
    Overtaken,
}

/// Reason why the directory of a database was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// The directory holds no database, but a file that belongs to no Katydid database.
    File(String),
    /// The file has another format's magic.
    Magic(String),
    /// The file was written by a newer version of the format.
    NewerVersion {
        /// The file.
        file: String,
        /// The version of the file's format.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The file belongs to another database.
    Identity(String),
    /// A creation with another kind of log was interrupted. Only an opening with that kind of log
    /// can begin the creation again.
    InterruptedCreation {
        /// The kind of log that the interrupted creation began with.
        log: wal::LogKind,
    },
}

/// Reason why a copy of a database was not made, or not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyFault {
    /// The directory of the copy must be empty, and holds a file or folder.
    NotEmpty {
        /// The name of that file or folder.
        name: String,
    },
    /// The directory holds the incomplete copy of a backup that was interrupted. The directory can
    /// be removed.
    Incomplete,
    /// The log of the database is in NVRAM. Only a database whose log is in files can be copied.
    LogInNvram {
        /// The kind of log.
        log: wal::LogKind,
    },
    /// The log that the copy needs grew beyond `AdvancedOptions::log_hard_bytes` while the copy was
    /// made, and was trimmed.
    TooSlow,
    /// The receiver of progress has cancelled the copy.
    Cancelled,
    /// The directory holds a database that was not made by a backup. Open it, or make a backup of
    /// it.
    NoBackup,
    /// The directory holds an increment to a backup. Restore it together with that backup.
    Increment,
    /// In a list of backups, this directory does not hold an increment to the preceding backup: it
    /// holds an increment to another backup, or a whole backup.
    WrongBase {
        /// The backup that the increment belongs to; `None` for a whole backup.
        base: Option<device::Id>,
        /// The preceding backup in the list.
        found: device::Id,
    },
    /// The base of the increment is a backup of another database.
    OtherDatabase {
        /// The id of the other database.
        database: device::Id,
    },
    /// Backups of the memory engine have no increments: each backup is whole.
    NoIncrements,
    /// The database was not closed cleanly. Open it and close it.
    NotClosed,
    /// The backup was opened after it was made, and may have changed. Open it, or make a backup of
    /// it.
    OpenedSince,
}

/// Reason why a directory was not repaired, or not opened because of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairFault {
    /// A repair was interrupted. The damaged files are in quarantine, and the new database is not
    /// whole.
    #[error("its repair was interrupted: run the repair again")]
    Interrupted,
    /// Databases of the memory engine are not repaired: no part of a damaged checkpoint is
    /// consistent by itself.
    #[error("a database of the memory engine cannot be repaired: restore it from a backup")]
    MemoryEngine,
    /// The log is in NVRAM, where only an opening of the database can read it.
    #[error("its log is in NVRAM, which repair cannot read: open it, or restore it from a backup")]
    LogInNvram,
}

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transaction conflicts with another one. Roll the transaction back and run it again.
    #[error("transaction {victim} gave way{}: {}", Holder(*holder, contested.as_deref()), ConflictReason(*kind))]
    Conflict {
        /// The transaction that has to roll back: the caller's own.
        victim: TxnId,
        /// A transaction that held the keys that the victim wanted, if known.
        holder: Option<TxnId>,
        /// The kind of conflict.
        kind: ConflictKind,
        /// The table and keys that the victim wanted, and how long the holder has been open, if
        /// known.
        contested: Option<Box<Contested>>,
    },
    /// The calling thread would wait for itself: for an open transaction that this thread was the
    /// last to use, or for a transaction of another thread that waits for such a transaction. A
    /// transaction that gets this error can only roll back. A retry of the transaction fails again
    /// until the thread has ended the holder.
    #[error(
        "the call waits for transaction {holder}{}, which is open on the same thread: end that one first",
        ContestedSuffix(contested.as_deref())
    )]
    WaitsForItself {
        /// The other transaction of the thread.
        holder: TxnId,
        /// The table and keys that the call wanted, if known.
        contested: Option<Box<Contested>>,
    },
    /// A call that runs a transaction of its own was made inside a body of `Database::transact` for
    /// the same database, by the same thread. Such a transaction would neither see the writes of
    /// the body nor be rolled back with them.
    #[error(
        "inside the body of transaction {outer} use the transaction that the body is given, not the database"
    )]
    Nested {
        /// The transaction that the body runs in.
        outer: TxnId,
    },
    /// The log that a feed needs was trimmed: it no longer has all transactions after stamp `at`.
    /// Bring the data that was derived from the feed up to date by other means, and begin again
    /// with [`ChangesFrom::Oldest`](crate::ChangesFrom::Oldest).
    #[error("the log does not have all changes after stamp {at} any more: it starts at {log_start}")]
    ChangesGap {
        /// The stamp of the last transaction before the gap.
        at: crate::CommitStamp,
        /// The first position from which the log has whole transactions.
        log_start: wal::Lsn,
    },
    /// Transactions that have not ended have written more than a feed keeps in memory.
    #[error("transactions that have not ended take {bytes} bytes in the feed; at most {limit} are allowed")]
    ChangesTooLarge {
        /// Bytes needed.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// `insert` found the key present.
    #[error("key {key} exists already in table {table:?}")]
    KeyExists {
        /// The name of the table.
        table: Arc<str>,
        /// The key.
        key: KeyExcerpt,
    },
    /// A key or a value of a [`TypedTable`](crate::typed::TypedTable) does not decode to the
    /// table's type.
    #[error("the {part} at key {} of table {table:?} is no {wanted}", KeyExcerpt::of(key))]
    Undecodable {
        /// The name of the table.
        table: String,
        /// The bytes of the key.
        key: Vec<u8>,
        /// `"key"` or `"value"`.
        part: &'static str,
        /// The name of the type.
        wanted: &'static str,
    },
    /// A [`Sequence`](crate::Sequence) cannot return a number.
    #[error("the sequence at key {key} of table {table:?} has no next number: {finding}")]
    Sequence {
        /// The name of the sequence's table.
        table: String,
        /// The key.
        key: KeyExcerpt,
        /// The reason.
        finding: &'static str,
    },
    /// A bulk load needs a table without keys, and the table has keys. Nothing was done.
    #[error("table {name:?} is not empty: only an empty table can be loaded in bulk")]
    TableNotEmpty {
        /// The name of the table.
        name: String,
    },
    /// The keys of a bulk load do not ascend. The table is unchanged.
    #[error(
        "entry {nth} of the bulk load into table {table:?} is out of order: its key {key} is not above the one before it"
    )]
    Unsorted {
        /// The name of the table.
        table: String,
        /// The number of the entry whose key is too low, counted from 1.
        nth: u64,
        /// The key.
        key: KeyExcerpt,
    },
    /// The key is longer than 1,024 bytes, or than 512 bytes if pages have 4,096 bytes.
    #[error(
        "the key that begins with {} is {length} bytes long; in table {table:?} at most {max} are allowed",
        Start(key)
    )]
    KeyTooLong {
        /// The name of the table.
        table: Arc<str>,
        /// The key.
        key: KeyExcerpt,
        /// The length in bytes.
        length: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The value is longer than 16 MiB.
    #[error("the value for key {key} of table {table:?} is {length} bytes long; at most {max} are allowed")]
    ValueTooLong {
        /// The name of the table.
        table: Arc<str>,
        /// The key.
        key: KeyExcerpt,
        /// The length in bytes.
        length: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A table name must be 1 to 255 bytes of UTF-8.
    #[error("a table name must have 1 to 255 bytes, this one has {length}")]
    TableName {
        /// The length in bytes.
        length: usize,
    },
    /// A table of this name exists already. Nothing was done.
    #[error("there is a table {name:?} already")]
    TableExists {
        /// The name.
        name: String,
    },
    /// The table was dropped after the handle was made.
    #[error("table {name:?} was dropped")]
    TableDropped {
        /// The name of the table.
        name: String,
    },
    /// The table handle was made by another database, or by another opening of this one. Ask the
    /// open database for the table. Nothing was done.
    #[error("the handle of table {name:?} was made by another database, or by another opening of this one")]
    ForeignTable {
        /// The name of the table.
        name: String,
    },
    /// The session was made by another database, or by another opening of this one. The transaction
    /// is rolled back.
    #[error("the session was made by another database, or by another opening of this one")]
    ForeignSession,
    /// The session was dropped before the commit was acknowledged. The commit goes on, and is not
    /// known to be durable. The commit is durable once a durable commit that begins later, or
    /// [`Database::sync`](crate::Database::sync), has returned.
    #[error("the session was dropped before the commit was acknowledged; the commit goes on")]
    SessionDropped,
    /// The savepoint belongs to another transaction, of this or another database, or was undone by
    /// a rollback to an earlier savepoint.
    #[error("the savepoint is not one of this transaction's, or was rolled back")]
    Savepoint,
    /// An earlier call on this transaction failed in a way that leaves only `rollback`.
    #[error("the transaction can only roll back after: {cause}")]
    MustRollBack {
        /// The earlier failure.
        #[source]
        cause: Arc<Error>,
    },
    /// The device has no room. Nothing was changed; the call may be repeated when there is room.
    #[error("no space left on the device ({what})")]
    NoSpace {
        /// Purpose for which room was needed.
        what: String,
    },
    /// The log has reached its limit, and its oldest part cannot be trimmed yet. The call changed
    /// nothing. If the log is in NVRAM, a checkpoint did not make room either, because a
    /// transaction that has not ended, perhaps the caller's own, needs the log. The transaction
    /// that needs the log can still roll back or commit.
    #[error("the log holds {used} bytes, its limit is {limit}; it is pinned by {pinned_by}")]
    LogFull {
        /// Reason why the oldest part of the log is not trimmed.
        pinned_by: Pin,
        /// Bytes between the start and the end of the log.
        used: u64,
        /// `AdvancedOptions::log_hard_bytes`; in NVRAM the bytes of log that writes may use now.
        limit: u64,
    },
    /// The memory engine has reached its limit of memory. The call changed nothing.
    #[error("the database holds {used} bytes in memory, its limit is {limit}{}", Reader(*held_by))]
    MemoryFull {
        /// Bytes in use.
        used: u64,
        /// `MemoryOptions::memory_bytes`.
        limit: u64,
        /// The oldest open transaction, if old versions are kept for it.
        held_by: Option<TxnId>,
    },
    /// The maximum number of transactions is open in the memory engine, and none of them ended
    /// within `Options::lock_wait`. No transaction was begun.
    #[error("{limit} transactions are open, and there cannot be more")]
    TooManyTransactions {
        /// The limit: 4,095.
        limit: usize,
    },
    /// All numbers of tables were used, and no table can be made any more. The number of a dropped
    /// table is not used again.
    #[error("{limit} tables were made, and there cannot be more")]
    TooManyTables {
        /// The limit: 4,294,967,294.
        limit: u32,
    },
    /// The read view was given up, because the old values kept for views exceeded
    /// `PagedOptions::view_bytes_max`. All values that the view has read before are correct. A new
    /// view may continue with a newer state.
    #[error("the view is too old: {bytes} bytes of old values were kept for views, the limit is {max}")]
    ViewTooOld {
        /// Bytes that were kept.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The transaction was begun, or the database opened, for reading only.
    #[error("the transaction was begun, or the database opened, to read only")]
    ReadOnly,
    /// The directory holds a database of another engine than the one asked for.
    #[error("the database in {place} was made by the {found} engine, not by the {wanted} engine")]
    OtherEngine {
        /// The directory.
        place: String,
        /// The engine that made the database.
        found: EngineKind,
        /// The engine asked for.
        wanted: EngineKind,
    },
    /// Another process or handle has the database open.
    #[error("the database in {place} is in use{}", ProcessSuffix(*pid))]
    Locked {
        /// The directory.
        place: String,
        /// The other process, where known.
        pid: Option<u32>,
    },
    /// The directory holds no database that this program can open.
    #[error("{place} is not a database this program can open: {what}")]
    Foreign {
        /// The directory.
        place: String,
        /// The reason.
        what: Foreign,
    },
    /// A copy was not made, or a directory was not accepted as a copy.
    #[error("{place}: {}", CopyText(fault))]
    Copy {
        /// The directory of the copy, or of the database that was to be copied.
        place: String,
        /// The reason.
        fault: CopyFault,
    },
    /// The directory was not repaired, or a repair of it is not complete.
    #[error("{place}: {fault}")]
    Repair {
        /// The directory.
        place: String,
        /// The reason.
        fault: RepairFault,
    },
    /// A log was not archived, or a database was not restored from an archive.
    #[error("{place}: {fault}")]
    Archive {
        /// The directory of the archive, or the database.
        place: String,
        /// The reason.
        fault: Box<ArchiveFault>,
    },
    /// The directory holds no database, and the call does not create one.
    #[error("there is no database in {place}")]
    NotFound {
        /// The directory.
        place: String,
    },
    /// A device error kept another transaction from being rolled back, or from freeing memory and
    /// pages after its commit. That transaction keeps its locks and its part of the log, and the
    /// call needs one of them. Each such call tries again to end that transaction, and succeeds
    /// once the device works again.
    #[error("transaction {txn}, which could not be ended so far, is in the way: {cause}")]
    Unended {
        /// The other transaction.
        txn: TxnId,
        /// Cause of the last failed attempt to end the transaction.
        #[source]
        cause: Arc<Error>,
    },
    /// An earlier write or sync failed, or the store found a bug of its own. A commit that returns
    /// this error may or may not survive; nothing is written until the database is opened again.
    #[error("the database was shut off by an earlier failure: {cause}")]
    Poisoned {
        /// The first failure.
        #[source]
        cause: Arc<Error>,
    },
    /// Bytes on the device are not the bytes that were written.
    #[error("{place} is corrupt: {finding}")]
    Corrupt {
        /// The page or file, and the position in it.
        place: String,
        /// The number of the page, if the place is a page.
        page: Option<u64>,
        /// The fault that was found.
        finding: String,
    },
    /// A device call failed.
    #[error(transparent)]
    Device(device::Error),
    /// A call on the log failed.
    #[error("log: {0}")]
    Log(#[source] Arc<wal::Error>),
    /// The log cannot be opened.
    #[error("log: {0}")]
    LogOpen(#[source] Arc<wal::OpenError>),
    /// An option is out of its range.
    #[error("option {option}: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The requirement that the value does not meet.
        reason: String,
    },
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A bug: the store found one of its own rules broken. The text names the finding.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl Error {
    /// Returns whether the same transaction, run again from its beginning, may succeed. True for
    /// every conflict, and for a view that was too old. `Database::transact` does not run a
    /// transaction again after a time-out (`ConflictKind::Timeout`), because the transaction has
    /// waited for as long as `Options::lock_wait` allows. A program that wants to wait longer may
    /// run it again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Conflict { .. } | Error::ViewTooOld { .. } => true,
            Error::MustRollBack { cause } => cause.is_retryable(),
            _ => false,
        }
    }

    /// Returns true if `Database::transact` runs the transaction again, as it does after each
    /// conflict but a time-out.
    pub(crate) fn asks_to_run_again(&self) -> bool {
        match self {
            Error::Conflict { kind, .. } => *kind != ConflictKind::Timeout,
            Error::MustRollBack { cause } => cause.asks_to_run_again(),
            _ => false,
        }
    }

    /// Returns true if an earlier failure poisoned the database.
    pub fn is_poisoned(&self) -> bool {
        match self {
            Error::Poisoned { .. } => true,
            Error::MustRollBack { cause } => cause.is_poisoned(),
            _ => false,
        }
    }

    /// The error of a copy in, or of, `directory`.
    pub(crate) fn copy(directory: &dyn device::Directory, fault: CopyFault) -> Self {
        Error::Copy { place: directory.describe(), fault }
    }

    /// The error of an archive in `directory`.
    pub(crate) fn archive(directory: &dyn device::Directory, fault: ArchiveFault) -> Self {
        Error::Archive { place: directory.describe(), fault: Box::new(fault) }
    }

    /// The error of every call after `first` has shut the gate.
    pub(crate) fn poisoned_by(first: device::Error) -> Self {
        Error::Poisoned { cause: Arc::new(Error::Device(first)) }
    }

    /// Returns true if the device had no room.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Device(error) => error.is_no_space(),
            Error::MustRollBack { cause } => cause.is_no_space(),
            _ => false,
        }
    }
}

/// Returns `Error::TableName` if `name` is not allowed as the name of a table.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let length = name.len();
    if (1..=NAME_BYTES_MAX).contains(&length) { Ok(()) } else { Err(Error::TableName { length }) }
}

/// Constructors of errors for code that does not know the name of the table.
impl Error {
    /// The error that `key` is in the table already.
    pub(crate) fn key_exists(key: &[u8]) -> Self {
        Error::KeyExists { table: Arc::default(), key: KeyExcerpt::of(key) }
    }

    /// The error that `key` is longer than `max` bytes.
    pub(crate) fn key_too_long(key: &[u8], max: usize) -> Self {
        Error::KeyTooLong { table: Arc::default(), key: KeyExcerpt::of(key), length: key.len(), max }
    }

    /// The error that the value for `key` is longer than `max` bytes.
    pub(crate) fn value_too_long(key: &[u8], length: usize, max: usize) -> Self {
        Error::ValueTooLong { table: Arc::default(), key: KeyExcerpt::of(key), length, max }
    }

    /// Returns this error with `name` as its table, if it names no table.
    #[cold]
    pub(crate) fn in_table(mut self, name: &str) -> Self {
        if let Error::KeyExists { table, .. }
        | Error::KeyTooLong { table, .. }
        | Error::ValueTooLong { table, .. } = &mut self
            && table.is_empty()
        {
            *table = name.into();
        }
        self
    }
}

impl From<device::Error> for Error {
    fn from(error: device::Error) -> Self {
        match error.cause {
            device::Cause::Poisoned(first) => Error::poisoned_by(device::Error::clone(&first)),
            device::Cause::Closed => Error::Closed,
            device::Cause::Locked(pid) => Error::Locked { place: error.subject, pid },
            _ => Error::Device(error),
        }
    }
}

impl From<wal::Error> for Error {
    fn from(error: wal::Error) -> Self {
        match error {
            wal::Error::Poisoned { cause } => Error::poisoned_by(cause),
            wal::Error::NoSpace => Error::NoSpace { what: "the log".to_owned() },
            wal::Error::Closed => Error::Closed,
            wal::Error::Device(error) => error.into(),
            wal::Error::Read(wal::ReadError::Device(error)) => error.into(),
            wal::Error::Read(wal::ReadError::Corrupt { at, file, reason }) => Error::Corrupt {
                place: format!("log record at {at} in {file}"),
                page: None,
                finding: reason.to_owned(),
            },
            error => Error::Log(Arc::new(error)),
        }
    }
}

impl From<wal::ReadError> for Error {
    fn from(error: wal::ReadError) -> Self {
        wal::Error::Read(error).into()
    }
}

impl From<wal::AppendError> for Error {
    fn from(error: wal::AppendError) -> Self {
        wal::Error::from(error).into()
    }
}

impl From<wal::OpenError> for Error {
    fn from(error: wal::OpenError) -> Self {
        match error {
            wal::OpenError::Device(error) => error.into(),
            error => Error::LogOpen(Arc::new(error)),
        }
    }
}

struct Holder<'a>(Option<TxnId>, Option<&'a Contested>);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(holder) = self.0 {
            write!(f, " to transaction {holder}")?;
            if let Some(open) = self.1.and_then(|contested| contested.holder_open) {
                write!(f, " (open for {} ms)", open.as_millis())?;
            }
        }
        ContestedSuffix(self.1).fmt(f)
    }
}

struct ContestedSuffix<'a>(Option<&'a Contested>);

impl fmt::Display for ContestedSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(contested) => write!(f, " over {contested}"),
            None => Ok(()),
        }
    }
}

/// Displays the start of a key that is too long. The message names the key's length elsewhere.
struct Start<'a>(&'a KeyExcerpt);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.start().escape_ascii())
    }
}

struct Reader(Option<TxnId>);

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(txn) => write!(f, "; old versions are kept for transaction {txn}"),
            None => Ok(()),
        }
    }
}

struct ConflictReason(ConflictKind);

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ConflictKind::Deadlock => "they waited for each other",
            ConflictKind::Timeout => "the lock was not granted in time",
            ConflictKind::Changed => "a key that it had read was changed",
            ConflictKind::Overtaken => "a transaction with a later timestamp came first",
        })
    }
}

struct ProcessSuffix(Option<u32>);

impl fmt::Display for ProcessSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, " by process {pid}"),
            None => Ok(()),
        }
    }
}

struct CopyText<'a>(&'a CopyFault);

impl fmt::Display for CopyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CopyFault::NotEmpty { name } => {
                write!(f, "a copy needs an empty directory, and {name:?} is in this one")
            }
            CopyFault::Incomplete => {
                f.write_str("the copy there was interrupted and is incomplete; the directory can be removed")
            }
            CopyFault::LogInNvram { log } => {
                write!(f, "its log is in NVRAM (kind {log}), and cannot be copied into files")
            }
            CopyFault::TooSlow => f.write_str(
                "the log grew by more than its hard limit while it was copied, and was trimmed; the copy is incomplete, and the directory can be removed",
            ),
            CopyFault::Cancelled => f.write_str("the copy was cancelled and is incomplete; the directory can be removed"),
            CopyFault::NoBackup => f.write_str("the database there was made by no backup: open it, or back it up"),
            CopyFault::Increment => {
                f.write_str("the directory holds an increment to a backup: restore both together")
            }
            CopyFault::WrongBase { base: Some(base), found } => {
                write!(f, "the increment there is one to backup {base}, and backup {found} comes before it")
            }
            CopyFault::WrongBase { base: None, found } => {
                write!(f, "the backup there is whole, and is no increment to backup {found} before it")
            }
            CopyFault::OtherDatabase { database } => {
                write!(f, "the backup there is one of database {database}, not of this one")
            }
            CopyFault::NoIncrements => f.write_str("backups of the memory engine have no increments"),
            CopyFault::NotClosed => f.write_str("the database there was not closed cleanly: open it, and close it"),
            CopyFault::OpenedSince => {
                f.write_str("the backup there was opened after it was made, and is a database now: open it, or back it up")
            }
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::File(name) => write!(f, "it holds {name:?}, which is no file of a database"),
            Foreign::Magic(name) => write!(f, "{name:?} has another format"),
            Foreign::NewerVersion { file, found, known } => {
                write!(f, "{file:?} has format version {found}; this program reads up to {known}")
            }
            Foreign::Identity(name) => write!(f, "{name:?} belongs to another database"),
            Foreign::InterruptedCreation { log } => write!(
                f,
                "its creation was interrupted after it had made a log of kind {log}; open it with that kind, or remove its files"
            ),
        }
    }
}

// With an alignment of 16 the compiler has generated code that faults: see `Id`.
const _: () = assert!(std::mem::align_of::<Error>() <= std::mem::align_of::<u64>());
