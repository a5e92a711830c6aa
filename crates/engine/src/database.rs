//! The handle of an open database: opening, tables, transactions. The engine does the work of each
//! call.

use crate::body::{Body, DatabaseKey};
use crate::changes::{Changes, ChangesFrom};
use crate::consumer::ChangeConsumer;
use crate::control;
use crate::creation::refuse_lost_control;
use crate::directory::existing;
use crate::engine::Engine;
use crate::engine_options::{MemoryOptions, PagedOptions};
use crate::error::{Error, Result};
use crate::ids::EngineKind;
use crate::open::{self, Chosen, ChosenTable};
use crate::opening::{Call, Opened, Opening};
use crate::options::{Access, Options, TransactionOptions};
use crate::report::{VerifyProgress, VerifyReport};
use crate::session::Session;
use crate::stat::Stat;
use crate::table::Table;
use crate::transaction::Transaction;
use katydid_device::{Directory, FileDirectory, MemoryDirectory, Watch};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Maximum bytes of each log segment, and of the log's reserve, of a database in memory.
const IN_MEMORY_LOG_BYTES: u64 = 1 << 20;

/// A handle of an open database. A handle is cheap to clone, and all clones are handles of one
/// database. The database is closed by [`Database::close`], or when the last clone, transaction,
/// session, commit future, feed, consumer and archiver are dropped.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("db");
/// let database = katydid::Database::open(&path)?;
/// let fruit = database.table("fruit")?;
/// database.transact(|txn| {
///     txn.put(&fruit, "apple", "red")?;
///     txn.put(&fruit, "pear", "green")
/// })?;
/// let txn = database.begin()?;
/// assert_eq!(txn.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
/// let keys: Result<Vec<_>, _> = txn.range(&fruit, "a".."b").map(|row| row.map(|(key, _)| key)).collect();
/// assert_eq!(keys?, [b"apple"]);
/// txn.commit()?;
/// database.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) of: Chosen,
}

impl Database {
    /// Opens the database in directory `path`. The call creates the database if there is none, and
    /// recovers it if it was not closed cleanly.
    ///
    /// A process that has a database open and calls `fork` must not use the database in the child.
    /// The child has the memory and the lock of the database, but none of its threads, so a call in
    /// the child may never return. The child may call `exec`.
    ///
    /// # Errors
    /// `Error::Locked` if the database is open elsewhere, `Error::Foreign` if the directory holds
    /// something else, `Error::Corrupt` if the database is damaged. After these errors the
    /// directory is unchanged. `Error::OtherEngine` if another engine made the database;
    /// `Error::Copy` if the directory holds an incomplete copy or an increment; `Error::Repair` if
    /// a repair was interrupted; `Error::LogOpen` if the log cannot be opened; `Error::MemoryFull`
    /// if the rows need more than `MemoryOptions::memory_bytes`; `Error::NoSpace`; failures of the
    /// device.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Self::open_with(path, Options::default())
    }

    /// Opens the database in directory `path` with `options`. Errors are those of
    /// [`Database::open`], `Error::Option` if an option is out of its range, and `Error::NotFound`
    /// if there is no database and `Options::create` is false.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        options.validate()?;
        let path = path.as_ref();
        let creates = options.create && options.access == Access::ReadWrite;
        let directory = if creates { FileDirectory::open(path)? } else { existing(path)? };
        Self::open_in(Arc::new(directory), options)
    }

    /// Opens the database in directory `path` for reading only: no file is written, made or
    /// removed. Recovery keeps its writes in memory, 4 KiB for each block of 4 KiB that it changes.
    /// The memory engine takes as much memory as when it is opened for writing.
    ///
    /// Every transaction is a read view. Writes, new, renamed and dropped tables, and checkpoints
    /// fail with `Error::ReadOnly`. No thread is started, and [`Database::close`] writes nothing.
    ///
    /// Several processes may have the database open for reading at a time. Until all of them have
    /// closed it, no process can open it for writing.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let path = folder.path().join("db");
    /// # let database = katydid::Database::open(&path)?;
    /// # database.put(&database.table("fruit")?, "apple", "red")?;
    /// # database.close()?;
    /// let database = katydid::Database::open_read_only(&path)?;
    /// let fruit = database.open_table("fruit")?.expect("it was made before");
    /// assert_eq!(database.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
    /// assert!(matches!(database.put(&fruit, "pear", "green"), Err(katydid::Error::ReadOnly)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::NotFound` if there is no database; `Error::Locked` if it is open for writing, in
    /// this process or another; `Error::Corrupt` if it is damaged; `Error::LogOpen` if its log is
    /// in NVRAM, because recovery would change the log by stores to mapped memory, which an overlay
    /// cannot catch. The other errors of [`Database::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        let path = path.as_ref();
        // No limit: the data fitted into memory when it was written.
        let memory = MemoryOptions { memory_bytes: 1 << 60, ..MemoryOptions::default() };
        let engine = Self::engine_at(path)?.with(PagedOptions::default(), memory);
        let options = Options { access: Access::ReadOnly, engine, ..Options::default() };
        Self::open_in(Arc::new(existing(path)?), options)
    }

    /// Makes an empty database in the memory of this process, with the default options and no
    /// files: for tests, and for data that need not outlive the process. The database disappears
    /// with its last handle. Each stream of its log takes 3 MiB of memory at the beginning.
    ///
    /// The database is a whole store on a device in memory: the engine, the log and checkpoints
    /// work as they do in a folder. On this device a commit is durable as soon as its record is
    /// written. No call waits for a device.
    ///
    /// To close a database in memory and open it again, keep a
    /// [`MemoryDirectory`](crate::MemoryDirectory) and use [`Database::open_in`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// let database = katydid::Database::in_memory()?;
    /// let fruit = database.table("fruit")?;
    /// database.put(&fruit, "apple", "red")?;
    /// assert_eq!(database.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::Device` if a background thread cannot be started.
    pub fn in_memory() -> Result<Database> {
        Self::in_memory_with(Options::default())
    }

    /// Makes an empty database in the memory of this process with `options`. See
    /// [`Database::in_memory`]. A segment and the reserve of the log have at most 1 MiB each,
    /// whatever `options` say, because they are allocated at once.
    ///
    /// # Errors
    /// `Error::Option` if an option is out of its range, `Error::NotFound` if `Options::create` is
    /// false, and the errors of [`Database::in_memory`].
    pub fn in_memory_with(mut options: Options) -> Result<Database> {
        options.validate()?;
        let log = &mut options.advanced.log;
        if let Some(files) = log.medium.files_mut() {
            files.segment_bytes = files.segment_bytes.min(IN_MEMORY_LOG_BYTES);
        }
        log.reserve_bytes = log.reserve_bytes.min(IN_MEMORY_LOG_BYTES);
        Self::open_in(Arc::new(MemoryDirectory::new()), options)
    }

    /// Opens the database in a directory of any device. Errors are those of [`Database::open`].
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Database> {
        Ok(Database { of: open::open(directory, options)? })
    }

    /// Returns the engine that made the database in directory `path`. If there is a control file,
    /// the call reads nothing else.
    ///
    /// # Errors
    /// `Error::NotFound` if there is no database, or if its creation was interrupted: the next
    /// opening begins the creation again, with any engine. `Error::Corrupt` if the control file is
    /// lost or damaged; `Error::LogOpen` if a file of the log is lost together with the control
    /// file; `Error::Foreign` if a newer version wrote the control file; `Error::Copy` if the
    /// directory holds an incomplete copy or an increment; failures of the device.
    pub fn engine_at(path: impl AsRef<Path>) -> Result<EngineKind> {
        let path = path.as_ref();
        Self::engine_in(&existing(path)?)
    }

    /// Returns the engine that made the database in a directory of any device. See
    /// [`Database::engine_at`].
    pub fn engine_in(directory: &dyn Directory) -> Result<EngineKind> {
        match control::read(directory)? {
            Some(control) => Ok(control.engine),
            None => {
                refuse_lost_control(directory)?;
                Err(Error::NotFound { place: directory.describe() })
            }
        }
    }

    /// Opens a database like [`Database::open_in`], with a device watch that the caller has made.
    pub(crate) fn open_watched(
        directory: Arc<dyn Directory>,
        options: Options,
        watch: Watch,
    ) -> Result<Database> {
        Ok(Database { of: open::open_watched(directory, options, watch)? })
    }

    pub(crate) fn options(&self) -> &Options {
        self.of.options()
    }

    /// Returns the table called `name`, and creates it if there is none. The creation is durable
    /// when the call returns.
    ///
    /// # Errors
    /// `Error::ReadOnly` if there is no such table and the database was opened for reading only;
    /// `Error::TableName` if the name is not allowed; `Error::TooManyTables`. The errors of
    /// [`Transaction::put`] and [`Transaction::commit`], because a creation is a transaction.
    pub fn table(&self, name: &str) -> Result<Table> {
        if self.options().access == Access::ReadOnly {
            return self.open_table(name)?.ok_or(Error::ReadOnly);
        }
        let table = Call::enter(&self.of)?.table(name)?;
        Ok(self.handle(name, table))
    }

    fn handle(&self, name: &str, of: ChosenTable) -> Table {
        Table::new(self.of.opening().id(), name, of)
    }

    /// Returns the table called `name`, or `None` if there is no such table.
    pub fn open_table(&self, name: &str) -> Result<Option<Table>> {
        let table = self.of.open_table(name)?;
        Ok(table.map(|table| self.handle(name, table)))
    }

    /// Returns the names of all tables, sorted.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.of.tables()
    }

    /// Renames the table `from` to `to`, and returns false if there is no table `from`. The new
    /// name is durable when the call returns; a crash during the call leaves one of the two names.
    /// The call copies no rows, and waits for no transaction.
    ///
    /// Handles of the table stay valid, also inside of open transactions. [`Table::name`] returns
    /// the name that the table had when the handle was made; errors show the table's current name.
    /// The name `from` is free afterwards.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let table = database.table("fruit")?;
    /// database.put(&table, "apple", "red")?;
    /// assert!(database.rename_table("fruit", "food")?);
    /// assert_eq!(database.tables()?, ["food"]);
    /// assert_eq!(database.get(&table, "apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::TableExists` if there is a table `to`, even if `to` equals `from`;
    /// `Error::ReadOnly` if the database was opened for reading only; `Error::TableName` if a name
    /// is not allowed. The errors of [`Transaction::put`] and [`Transaction::commit`]. After
    /// `Error::Poisoned` the next opening decides which name the table has. After any other error
    /// nothing is changed.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<bool> {
        self.check_access()?;
        Call::enter(&self.of)?.rename_table(from, to)
    }

    /// Drops the table called `name` and frees its pages, and returns false if there is no such
    /// table. The drop is durable when the call returns. The call waits for the transactions that
    /// use the table; in the paged engine it does not wait for read views
    /// ([`Access::ReadOnly`](crate::Access::ReadOnly)). Other tables use the pages again; the file
    /// does not shrink.
    ///
    /// # Errors
    /// `Error::Conflict` if the transactions that use the table did not end in time;
    /// `Error::WaitsForItself` if one of them belongs to the calling thread; `Error::ReadOnly` if
    /// the database was opened for reading only; `Error::TableName` if the name is not allowed. The
    /// errors of [`Transaction::delete`] and [`Transaction::commit`]. After `Error::Poisoned` the
    /// next opening decides whether the table is dropped. After any other error the table is
    /// unchanged.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.check_access()?;
        Call::enter(&self.of)?.drop_table(name)
    }

    /// Begins a transaction with the database's durability.
    ///
    /// # Errors
    /// `Error::Closed`; `Error::TooManyTransactions` from the memory engine, in which at most 4,095
    /// transactions are open at a time. If 4,095 are open, the call waits at most
    /// `Options::lock_wait` for one of them to end.
    #[track_caller]
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_for(Access::ReadWrite)
    }

    /// Begins a transaction with `options`. Errors are those of [`Database::begin`], and
    /// `Error::Conflict` from the memory engine if a read view waits for a commit for longer than
    /// `Options::lock_wait`.
    #[track_caller]
    pub fn begin_with(&self, mut options: TransactionOptions) -> Result<Transaction> {
        if self.options().access == Access::ReadOnly {
            options.access = Access::ReadOnly;
        }
        Ok(Transaction::new(self.of.begin(options)?, self.of.opening().id(), options.access))
    }

    /// Returns `Error::ReadOnly` if the database was opened for reading only.
    pub(crate) fn check_access(&self) -> Result<()> {
        match self.options().access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Error::ReadOnly),
        }
    }

    /// Begins a read view: a transaction that only reads, with the database's durability. The view
    /// shows the state at its beginning, and makes no transaction wait. In the paged engine it also
    /// waits for none; in the memory engine its beginning and its reads may wait for a transaction
    /// that is committing. See [`Access::ReadOnly`](crate::Access::ReadOnly).
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let stock = database.table("stock")?;
    /// database.put(&stock, "apples", "3")?;
    /// let view = database.begin_read_only()?;
    /// database.put(&stock, "apples", "2")?;
    /// database.put(&stock, "pears", "1")?;
    /// assert_eq!(view.get(&stock, "apples")?.as_deref(), Some(&b"3"[..]));
    /// assert_eq!(view.range(&stock, ..).count(), 1);
    /// view.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Database::begin_with`].
    #[track_caller]
    pub fn begin_read_only(&self) -> Result<Transaction> {
        self.begin_for(Access::ReadOnly)
    }

    #[track_caller]
    fn begin_for(&self, access: Access) -> Result<Transaction> {
        let durability = self.options().durability;
        self.begin_with(TransactionOptions { durability, access, ..TransactionOptions::default() })
    }

    /// Runs `body` in a transaction, commits the transaction, and returns the result of `body`.
    /// After a conflict `body` runs again, at most `AdvancedOptions::retries` times. After a
    /// time-out `body` does not run again: all its runs together wait for other transactions at
    /// most `Options::lock_wait`.
    ///
    /// Inside of `body`, use the transaction and not the database: `transact` and calls like
    /// [`Database::get`] and [`Database::put`], which run a transaction of their own, fail with
    /// `Error::Nested`. A body that needs a second, independent transaction uses
    /// [`Database::begin`].
    ///
    /// After an error of `body` that is no conflict, the transaction is rolled back, and its reads
    /// are checked: the values that `body` has read must all have been valid at one time, and must
    /// be as durable as the commit would have been. If the reads pass, the error of `body` is
    /// returned. Only in the memory engine can the reads turn out to be invalid; then `body` runs
    /// again. So an error that `body` concludes from its reads is as reliable as a result of
    /// `body`.
    ///
    /// For a body with an error type of its own, use [`Database::try_transact`].
    ///
    /// # Errors
    /// `Error::Nested` inside of another `body`; the error of `body` or of the commit.
    /// `Error::Poisoned` also replaces an error of `body` if its reads depend on commits that may
    /// not survive.
    #[track_caller]
    pub fn transact<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.try_transact(body)
    }

    /// Runs `body` in a transaction as [`Database::transact`] does, with the caller's own error
    /// type.
    ///
    /// An error of `body` rolls the transaction back and is returned unchanged. If the transaction
    /// has met a conflict, `body` runs again, whatever error it has returned.
    ///
    /// ```
    /// #[derive(Debug, PartialEq)]
    /// enum Refusal {
    ///     SoldOut,
    ///     Store(String),
    /// }
    ///
    /// impl From<katydid::Error> for Refusal {
    ///     fn from(error: katydid::Error) -> Self {
    ///         Refusal::Store(error.to_string())
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Refusal> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let database = katydid::Database::open(folder.path().join("db"))?;
    /// let stock = database.table("stock")?;
    /// let refused = database.try_transact(|txn| {
    ///     txn.put(&stock, "last buyer", "me")?;
    ///     txn.get(&stock, "apple")?.ok_or(Refusal::SoldOut)
    /// });
    /// assert_eq!(refused, Err(Refusal::SoldOut));
    /// assert_eq!(database.get(&stock, "last buyer")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `body`, unchanged. A converted [`Error`](crate::Error) if the transaction could
    /// not be begun or committed. A converted `Error` also replaces an error of `body` in two
    /// cases: the transaction met a conflict and is not run again; or the reads of `body` were
    /// invalid, depend on commits that may not survive, or could not be checked because the
    /// database was closed.
    #[track_caller]
    pub fn try_transact<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.run(Access::ReadWrite, &mut body, Transaction::commit).map(|(done, _stamp)| done)
    }

    /// Runs `body` in a transaction and ends the transaction by `commit`. Runs both again after a
    /// conflict in `body` or `commit`.
    #[track_caller]
    pub(crate) fn run<T, C, E: From<Error>>(
        &self,
        access: Access,
        mut body: impl FnMut(&Transaction) -> std::result::Result<T, E>,
        mut commit: impl FnMut(Transaction) -> Result<C>,
    ) -> std::result::Result<(T, C), E> {
        let body_of = Body::begin(self.key(), self.options().lock_wait)?;
        let mut left = self.options().advanced.retries;
        loop {
            let txn = self.begin_for(access)?;
            body_of.runs_in(txn.id());
            let failed = match body(&txn) {
                Ok(done) => match commit(txn) {
                    Ok(committed) => return Ok((done, committed)),
                    Err(error) => error,
                },
                // The transaction ends here, because `body` would otherwise wait for the
                // transaction's locks when it runs again.
                Err(error) => match txn.conclude() {
                    Ok(()) => return Err(error),
                    Err(failed) => failed,
                },
            };
            if left == 0 || !failed.asks_to_run_again() {
                return Err(failed.into());
            }
            left -= 1;
            std::thread::yield_now();
        }
    }

    pub(crate) fn key(&self) -> DatabaseKey {
        self.of.key()
    }

    /// Returns a new session: a queue of commit callbacks, for one thread that commits with
    /// [`Transaction::commit_with`].
    pub fn session(&self) -> Session {
        Session::new(self.of.opening().id(), self.of.keeps_open())
    }

    /// Returns the value of `key`, or `None`, read in a transaction of its own. Errors are those of
    /// [`Database::transact`].
    #[track_caller]
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.transact(|txn| txn.get(table, key))
    }

    /// Returns whether `key` has a value, read in a transaction of its own. Errors are those of
    /// [`Database::transact`].
    #[track_caller]
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|txn| txn.contains(table, key))
    }

    /// Sets the value of `key` in a transaction of its own, retrying conflicts. Errors are those of
    /// [`Database::transact`].
    #[track_caller]
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|txn| txn.put(table, key, value))
    }

    /// Sets the value of a new `key` in a transaction of its own, retrying conflicts. Errors are
    /// `Error::KeyExists` if the key has a value, and those of [`Database::transact`].
    #[track_caller]
    pub fn insert(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|txn| txn.insert(table, key, value))
    }

    /// Replaces the value of `key` by the result of `change` in a transaction of its own, as
    /// [`Transaction::update`] does, and returns the new value. `change` runs again after a
    /// conflict. Errors are those of [`Database::transact`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let stock = database.table("stock")?;
    /// database.update(&stock, "apples", |old| Some(old.map_or(vec![1], |old| vec![old[0] + 1])))?;
    /// assert_eq!(database.get(&stock, "apples")?, Some(vec![1]));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn update(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.transact(|txn| txn.update(table, key, &mut change))
    }

    /// Sets `key` to `new` in a transaction of its own if its value is `expected`, and returns
    /// whether the value was `expected`. See [`Transaction::compare_and_swap`]. The call retries
    /// conflicts. Errors are those of [`Database::transact`].
    #[track_caller]
    pub fn compare_and_swap(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|txn| txn.compare_and_swap(table, key, expected, new))
    }

    /// Removes the least key of a table in a transaction of its own, and returns the key and its
    /// value. See [`Transaction::pop_first`]. The call retries conflicts. Errors are those of
    /// [`Database::transact`].
    #[track_caller]
    pub fn pop_first(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.transact(|txn| txn.pop_first(table))
    }

    /// Deletes one key in a transaction of its own, and returns whether the key was there. The call
    /// retries conflicts. Errors are those of [`Database::transact`].
    #[track_caller]
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|txn| txn.delete(table, key))
    }

    /// Makes everything committed before the call durable.
    ///
    /// # Errors
    /// `Error::Closed`; `Error::Poisoned` after any failed write, even if nothing is left to be
    /// made durable: the caller may have seen a commit fail, and must not take a success of `sync`
    /// for a success of that commit.
    pub fn sync(&self) -> Result<()> {
        Call::enter(&self.of)?.sync()
    }

    /// Returns a feed of the committed transactions from `from` on, in the order of their commits.
    /// The feed has the transactions in the log and then new ones, each with all its changes.
    ///
    /// The feed reads the log, and can begin at any position from the start of the log on. The feed
    /// does not keep the log from being trimmed: a feed that is too slow fails with
    /// [`Error::ChangesGap`]. Writers do not wait for a feed. From the first call of `changes` on,
    /// or with [`AdvancedOptions::record_values`](crate::AdvancedOptions::record_values), the paged
    /// engine logs the whole values of updates. For updates that were logged before, the feed has
    /// only the bytes that changed ([`NewValue::Patch`](crate::NewValue::Patch)).
    ///
    /// The feed returns a transaction after it is durable. A transaction that committed with less
    /// than [`Durability::Durable`](crate::Durability::Durable) becomes durable with a later
    /// commit, or with [`Database::sync`]. The feed holds in memory the transaction that it returns
    /// next, and the changes of transactions that have not ended yet, up to 1 GiB in all.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// use katydid::{Change, ChangesFrom, NewValue};
    /// # let database = katydid::Database::in_memory()?;
    /// let fruit = database.table("fruit")?;
    /// let mut changes = database.changes(&ChangesFrom::Now)?;
    /// database.put(&fruit, "apple", "red")?;
    /// let transaction = changes.next()?;
    /// let Change::Row { name, key, new, .. } = &transaction.changes[0] else { panic!("it put a key") };
    /// assert_eq!((name.as_deref(), &key[..]), (Some("fruit"), &b"apple"[..]));
    /// assert_eq!(*new, NewValue::Value(b"red".to_vec()));
    /// let position = changes.position().to_string(); // to be kept, and parsed after a restart
    /// # let _ = position;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesGap`] if the log starts above the position; [`Error::Option`] if the call
    /// detects that the position is of another database; [`Error::Closed`]; failures of the device.
    pub fn changes(&self, from: &ChangesFrom) -> Result<Changes> {
        Call::enter(&self.of)?.changes(from)
    }

    /// Returns the feed's consumer called `name`. If there is none, makes one that begins at
    /// `from`. A consumer continues after its last acknowledgement, in this opening and in later
    /// ones.
    ///
    /// The database keeps the log for a consumer that is at most `bytes_max` bytes behind the end
    /// of the log. Writers and checkpoints never wait for a consumer, and a consumer never makes
    /// the log full. A consumer that is farther behind when a checkpoint trims the log loses its
    /// position. [`Stat`] lists the consumers. While a paged database has consumers, it logs the
    /// whole values of updates from each opening on.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// use katydid::ChangesFrom;
    /// # let database = katydid::Database::in_memory()?;
    /// let fruit = database.table("fruit")?;
    /// let mut outbox = database.consumer("outbox", 1 << 30, &ChangesFrom::Now)?;
    /// database.put(&fruit, "apple", "red")?;
    /// let transaction = outbox.next()?;
    /// // Hand it on, and then:
    /// outbox.acknowledge()?;
    /// # let _ = transaction;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesGap`] if the consumer has lost its position: remove it by
    /// [`Database::remove_consumer`]. [`Error::Log`] if the name is not 1 to 64 lower-case letters,
    /// digits, `-` and `_`. [`Error::Option`] if the name begins with `archive-`, as the names of
    /// archivers do. [`Error::ReadOnly`] if the database was opened for reading only. The errors of
    /// [`Database::changes`].
    pub fn consumer(&self, name: &str, bytes_max: u64, from: &ChangesFrom) -> Result<ChangeConsumer> {
        self.check_access()?;
        ChangeConsumer::open(&self.of, name, bytes_max, from)
    }

    /// Removes the consumer called `name`, and returns whether there was one. The removal is
    /// durable when the call returns. The next checkpoint trims the log that was kept for the
    /// consumer.
    ///
    /// # Errors
    /// `Error::ReadOnly` if the database was opened for reading only; `Error::Closed`; failures of
    /// the device.
    pub fn remove_consumer(&self, name: &str) -> Result<bool> {
        self.check_access()?;
        let call = Call::enter(&self.of)?;
        Ok(call.log().remove_consumer(name)?)
    }

    /// Takes a checkpoint now and trims the log. Afterwards [`Database::stat`] shows where the log
    /// starts.
    ///
    /// # Errors
    /// `Error::ReadOnly` if the database was opened for reading only; `Error::Closed`; failures of
    /// the device.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_access()?;
        Call::enter(&self.of)?.checkpoint()
    }

    /// Closes the database: waits for the calls of other threads that are under way, takes a
    /// checkpoint, closes the log and unlocks the directory. After that no thread of this opening
    /// changes the directory. The memory engine takes no checkpoint if nothing was committed, if
    /// the log is short compared with the data, or if the device has no room; then the next opening
    /// reads the log.
    ///
    /// Calls that begin later, on any clone, fail with `Error::Closed`. Calls that wait for an open
    /// transaction fail with `Error::Closed` at once, whatever `Options::lock_wait` is.
    /// Transactions that have not committed are lost. When `close` returns, commits whose callbacks
    /// or futures are still pending are durable, if they asked for durability; polling the session
    /// or future returns their outcome.
    ///
    /// A second call, even on another clone or at the same time, waits for the end of the first and
    /// returns its outcome. `close` may be called from a callback of a commit, from the body of
    /// [`Database::transact`], and from a waker. Dropping the last handle also closes the database.
    ///
    /// # Errors
    /// The error that kept the checkpoint from being taken, or the log from becoming durable. The
    /// database is closed all the same, and the next opening recovers it.
    pub fn close(&self) -> Result<()> {
        self.of.close()
    }

    /// Returns the database's current positions and counters.
    pub fn stat(&self) -> Result<Stat> {
        self.of.stat()
    }

    /// Checks the database while it is open, and returns the faults found. In the paged engine the
    /// call checks every page, the order of every tree, the map of free pages and the log. To do so
    /// the call waits for the transactions that use a table, and locks all tables. In the memory
    /// engine the call checks the order of keys and the log, and delays no transaction. `progress`
    /// may use the database. In the paged engine `progress` must not read or write keys, because
    /// the call has locked the tables.
    ///
    /// # Errors
    /// `Error::Conflict` if the call could not lock all tables in time, `Error::WaitsForItself` if
    /// a transaction of the calling thread uses one of the tables, `Error::Closed`, and failures of
    /// the device. Faults of the store are in the report.
    pub fn verify(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        self.of.verify(progress)
    }

    /// The opening of this database.
    pub(crate) fn opening(&self) -> &Opening {
        self.of.opening()
    }

    /// Does the work that is due, if there are no background threads to do it.
    pub(crate) fn run_background(&self) {
        // This code enters no `Call`: the log calls wakers here, a waker may close the database,
        // and closing waits until every `Call` has ended.
        if !self.of.opening().is_closing() {
            self.of.run_background();
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.of.place())
    }
}
