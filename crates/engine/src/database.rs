//! The handle of an open database: opening, tables, transactions.
//!
//! Any thread. Invariants:
//!
//! 1. The catalog is read and changed only with `ddl` held, and a change is durable before `ddl` is given up. No lock of a
//!    transaction is waited for while it is held.
//! 2. A table in `tables` is in the catalog.
//! 3. A table is dropped only with its exclusive lock held, until the drop is durable and the handles are marked.

use crate::error::{Error, Result};
use crate::lock::{TableMode, TxnLocks};
use crate::options::{Options, TransactionOptions};
use crate::paged::active::{SHARDS, shard_of_thread};
use crate::paged::catalog::{self, CATALOG, NAME_BYTES_MAX};
use crate::paged::engine::Engine;
use crate::paged::open;
use crate::paged::tree::{Batch, BatchValue, LeafHints, Tree};
use crate::paged::writer::Forward;
use crate::session::Session;
use crate::table::{Table, TableShared};
use crate::transaction::Transaction;
use crate::{Durability, Lsn, TableId};
use crossbeam_utils::CachePadded;
use katydid_device::{Directory, FileDirectory, Watch};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open database. Cheap to clone; all clones are one database, closed when the last one and the last transaction,
/// session and commit future are gone, or by [`Database::close`].
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
/// let mut txn = database.begin()?;
/// assert_eq!(txn.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
/// let keys: Result<Vec<_>, _> = txn.range(&fruit, "a".."b").map(|row| row.map(|(key, _)| key)).collect();
/// assert_eq!(keys?, [b"apple"]);
/// txn.commit()?;
/// database.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    entrances: Arc<[Entrance]>,
}

/// A reference to an open database, counted apart for each shard that threads are spread over: transactions come and go too
/// often for all threads to share one counter.
pub(crate) type Entrance = Arc<CachePadded<Arc<Inner>>>;

/// What all handles share; dropping it closes the database.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) id: u128,
    /// Invariant 1. Taken before `tables`.
    ddl: Mutex<()>,
    tables: RwLock<HashMap<String, Arc<TableShared>>>,
}

impl Database {
    /// Opens the database in directory `path`, creating it if there is none, and recovering it if needed.
    ///
    /// # Errors
    /// `Error::Locked` if it is open elsewhere, `Error::Foreign` if the directory holds something else, `Error::Corrupt` if it is
    /// damaged; nothing is changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Self::open_with(path, Options::default())
    }

    /// Opens the database in directory `path` with `options`. Errors as [`Database::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        options.validate()?;
        let path = path.as_ref();
        let directory = if options.create {
            FileDirectory::open(path)?
        } else {
            FileDirectory::open_existing(path).map_err(|error| match error.is_not_found() {
                true => Error::NotFound { place: path.display().to_string() },
                false => error.into(),
            })?
        };
        Self::open_in(Arc::new(directory), options)
    }

    /// Opens the database in a directory of any device. Errors as [`Database::open`].
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Database> {
        Ok(Self::of(open::open(directory, options)?))
    }

    /// As [`Database::open_in`], with a watch over the device that the caller has made.
    pub(crate) fn open_watched(
        directory: Arc<dyn Directory>,
        options: Options,
        watch: Watch,
    ) -> Result<Database> {
        options.validate()?;
        let place = directory.describe();
        Ok(Self::of(open::open_watched(directory, options, place, watch)?))
    }

    fn of(engine: Arc<Engine>) -> Database {
        let id = engine.control.get().database;
        let inner = Inner { engine, id, ddl: Mutex::new(()), tables: RwLock::default() };
        let inner = Arc::new(inner);
        let entrances = (0..SHARDS).map(|_| Arc::new(CachePadded::new(inner.clone()))).collect();
        Database { inner, entrances }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// The table called `name`, created if there is none. A creation is durable when this returns.
    pub fn table(&self, name: &str) -> Result<Table> {
        if let Some(table) = self.open_table(name)? {
            return Ok(table);
        }
        let _ddl = self.inner.ddl.lock();
        if let Some(table) = self.find(name)? {
            return Ok(table);
        }
        let engine = self.engine();
        engine.check_writable()?;
        let mut number = 0;
        engine.control.update(|control| {
            number = control.next_table;
            control.next_table += 1;
        })?;
        let mut txn = self.begin_durable()?;
        let tree = txn.statement(|engine, writer| {
            let pages = engine.pages();
            let tree = Tree::create(pages, TableId::new(number), &mut Forward { engine, writer })?;
            let entry = catalog::encode(tree);
            CATALOG.insert(pages, name.as_bytes(), &entry, &mut Forward { engine, writer })?;
            Ok(tree)
        })?;
        txn.commit()?;
        Ok(self.handle(name, tree))
    }

    /// The table called `name`, if there is one.
    pub fn open_table(&self, name: &str) -> Result<Option<Table>> {
        self.engine().check_open()?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::TableName { length: name.len() });
        }
        if let Some(shared) = self.inner.tables.read().get(name) {
            return Ok(Some(Table { shared: shared.clone() }));
        }
        let _ddl = self.inner.ddl.lock();
        self.find(name)
    }

    /// Looks a table up; the caller holds `ddl`.
    fn find(&self, name: &str) -> Result<Option<Table>> {
        if let Some(shared) = self.inner.tables.read().get(name) {
            return Ok(Some(Table { shared: shared.clone() }));
        }
        let Some(entry) = CATALOG.get_copy(&self.engine().pool, name.as_bytes())? else { return Ok(None) };
        Ok(Some(self.handle(name, catalog::decode(name.as_bytes(), &entry)?)))
    }

    fn handle(&self, name: &str, tree: Tree) -> Table {
        let shared = Arc::new(TableShared {
            name: name.to_owned(),
            tree,
            space: self.engine().locks.space(tree.table),
            hints: LeafHints::new(),
            database: self.inner.id,
            dropped: AtomicBool::new(false),
        });
        self.inner.tables.write().insert(name.to_owned(), shared.clone());
        Table { shared }
    }

    /// The names of all tables, sorted.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.engine().check_open()?;
        let _ddl = self.inner.ddl.lock();
        Ok(self.catalog()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Everything in the catalog; the caller holds `ddl`.
    pub(crate) fn catalog(&self) -> Result<Vec<(String, Tree)>> {
        read_catalog(&self.engine().pool)
    }

    /// The latch on the catalog, for whoever must not meet a table that comes or goes.
    pub(crate) fn freeze_catalog(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.inner.ddl.lock()
    }

    /// Drops a table and frees its pages; `false` if there is none. Durable when this returns. Waits for the transactions that
    /// use the table.
    ///
    /// # Errors
    /// `Error::Conflict` if they did not end in time; nothing is changed then.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        let Some(table) = self.open_table(name)? else { return Ok(false) };
        self.engine().check_writable()?;
        let mut txn = self.begin_durable()?;
        let Some((engine, locks, _)) = txn.parts() else { return Err(Error::Closed) };
        let tree = table.shared.tree;
        engine
            .locks
            .acquire_table(locks, tree.table, TableMode::Exclusive)
            .map_err(|conflict| engine.conflict(conflict))?;
        // Whoever used the table has committed or rolled back, and that must lie below the drop: there is nothing to undo it in
        // afterwards. The lock does not tell which of them are durable.
        engine.log.barrier();
        let _ddl = self.inner.ddl.lock();
        if table.shared.dropped.load(Ordering::Acquire) {
            return Ok(false);
        }
        txn.statement(|engine, writer| {
            CATALOG.delete(engine.pages(), name.as_bytes(), &mut Forward { engine, writer })?;
            writer.let_go(tree.root);
            Ok(())
        })?;
        let mut locks = txn.take_locks();
        let outcome = txn.commit();
        let engine = self.engine();
        match &outcome {
            Ok(_) => {
                table.shared.dropped.store(true, Ordering::Release);
                self.inner.tables.write().remove(name);
                release(engine, &mut locks);
                engine.locks.forget(tree.table);
            }
            Err(error) if error.is_poisoned() => locks.into_iter().for_each(|locks| engine.keep_locks(locks)),
            Err(_) => release(engine, &mut locks),
        }
        outcome.map(|_| true)
    }

    /// Begins a transaction with the database's durability.
    pub fn begin(&self) -> Result<Transaction> {
        let durability = self.engine().options.durability;
        self.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })
    }

    /// Begins a transaction.
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        Transaction::new(self.entrances[shard_of_thread()].clone(), options)
    }

    fn begin_durable(&self) -> Result<Transaction> {
        let durability = Durability::Durable;
        self.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })
    }

    /// Runs `body` in a transaction and commits it; runs it again after a conflict, at most `Options::retries` times.
    /// Any other error of `body` rolls back and is returned.
    pub fn transact<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut left = self.engine().options.retries;
        loop {
            let mut txn = self.begin()?;
            let failed = match body(&mut txn) {
                Ok(done) => match txn.commit() {
                    Ok(_) => return Ok(done),
                    Err(error) => error,
                },
                Err(error) => {
                    // Undone before the next try, which would meet its locks.
                    drop(txn);
                    error
                }
            };
            if left == 0 || !failed.is_retryable() {
                return Err(failed);
            }
            left -= 1;
            std::thread::yield_now();
        }
    }

    /// A queue of commit callbacks, one per thread that commits with [`Transaction::commit_with`].
    pub fn session(&self) -> Session {
        Session::new(self.inner.clone())
    }

    /// Reads one value in a transaction of its own.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.transact(|txn| txn.get(table, key))
    }

    /// Writes one value in a transaction of its own, retrying conflicts.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|txn| txn.put(table, key, value))
    }

    /// Deletes one key in a transaction of its own, retrying conflicts; whether it was there.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|txn| txn.delete(table, key))
    }

    /// Makes everything committed before the call durable; the end of the log it covers.
    ///
    /// # Errors
    /// `Error::Poisoned` after any failed write, also if nothing is left to be made durable: the caller may have seen a commit
    /// fail, and must not take this for its success.
    pub fn sync(&self) -> Result<Lsn> {
        let engine = self.engine();
        engine.check_open()?;
        let end = engine.log.sync()?;
        if engine.gate.is_shut() {
            return Err(engine.poison());
        }
        Ok(end)
    }

    /// Takes a checkpoint now and trims the log; where it began.
    pub fn checkpoint(&self) -> Result<Lsn> {
        self.engine().check_open()?;
        self.engine().checkpoint()
    }

    /// Takes a checkpoint, closes the log and the files. Later calls on any clone fail with `Error::Closed`. Transactions
    /// that have not committed are lost. Closing twice is no error.
    ///
    /// # Errors
    /// What kept the checkpoint from being taken; the database is closed all the same, and the next open recovers it.
    pub fn close(&self) -> Result<()> {
        self.engine().close()
    }
}

fn release(engine: &Engine, locks: &mut Option<TxnLocks>) {
    if let Some(locks) = locks {
        engine.locks.release_all(locks, None);
    }
}

/// Everything in the catalog.
pub(crate) fn read_catalog(pool: &crate::paged::pool::Pool) -> Result<Vec<(String, Tree)>> {
    let mut tables = Vec::new();
    let mut batch = Batch::default();
    let mut from = Some(Bound::Unbounded);
    while let Some(bound) = from {
        from = CATALOG.scan_up(pool, bound.as_ref().map(Vec::as_slice), 64, &mut batch)?;
        for (name, entry) in batch.iter() {
            let BatchValue::Inline(entry) = entry else {
                return Err(Error::Internal("a catalog entry is too long for its page"));
            };
            tables.push((String::from_utf8_lossy(name).into_owned(), catalog::decode(name, entry)?));
        }
    }
    Ok(tables)
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to be told; `close` tells. What was acknowledged is durable, and recovery does the rest.
        let _outcome = self.engine.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.engine().place)
    }
}
