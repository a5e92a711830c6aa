//! The paged engine as the implementation of a [`crate::Database`], and its tables.
//!
//! Runs on any thread. Invariants:
//!
//! 1. A thread reads or changes the catalog only while it holds `ddl`, and a change is durable
//!    before `ddl` is released. A thread that holds `ddl` waits for no transaction's lock.
//! 2. A table in `tables` is in the catalog.
//! 3. A table is dropped only while the dropping transaction holds the table's exclusive lock. The
//!    lock is held until the drop is durable and the handles are marked as dropped.

use crate::CommitStamp;
use crate::Durability;
use crate::archive_fault::ArchiveFault;
use crate::body::DatabaseKey;
use crate::changes::{Changes, ChangesFrom};
use crate::checkpoint_schedule::{Taker, TakesCheckpoints};
use crate::copy::{Copied, Pace, Target};
use crate::direction::Direction;
use crate::engine::{Engine, EngineTransaction};
use crate::error::{Error, Result, check_name};
use crate::latch::{Mutex, RwLock};
use crate::lock::{TableMode, TxnLocks};
use crate::opening::{Opened, Opening};
use crate::options::{Options, TransactionOptions};
use crate::paged::catalog::{self, CATALOG, CatalogKey};
use crate::paged::engine::{Engine as PagedEngine, Stage};
use crate::paged::inner::Inner;
use crate::paged::load::PagedLoad;
use crate::paged::log_room::Waiter;
use crate::paged::pool::Pool;
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, BatchValue, ScanRequest, Shortcuts, Tree};
use crate::paged::views::Versions;
use crate::paged::writer::{DoRecords, Writer};
use crate::report::{VerifyProgress, VerifyReport};
use crate::sharded::ShardedArc;
use crate::stat::Stat;
use crate::ticket::OpenEngine;
use katydid_device::Id;
use katydid_wal::Log;
use parking_lot::MutexGuard;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The paged engine's part of a [`crate::Database`]. All clones refer to one open database.
#[derive(Clone)]
pub(crate) struct PagedDatabase {
    inner: ShardedArc<Inner>,
}

impl PagedDatabase {
    /// Returns a handle on an open engine.
    pub(crate) fn new(engine: Arc<PagedEngine>) -> PagedDatabase {
        let inner = Inner { engine, ddl: Mutex::new(()), tables: RwLock::default() };
        PagedDatabase { inner: ShardedArc::new(Arc::new(inner)) }
    }

    pub(crate) fn engine(&self) -> &PagedEngine {
        &self.inner.engine
    }

    /// Looks a table up by its name. The caller holds `ddl`.
    fn find(&self, name: &str) -> Result<Option<Arc<PagedTable>>> {
        if let Some(table) = self.inner.tables.read().get(name) {
            return Ok(Some(table.clone()));
        }
        let Some(entry) = CATALOG.get_copy(&self.engine().pool, name.as_bytes())? else { return Ok(None) };
        Ok(Some(self.handle(name, catalog::decode(name.as_bytes(), &entry)?)))
    }

    fn handle(&self, name: &str, tree: Tree) -> Arc<PagedTable> {
        let space = self.engine().locks.space(tree.table);
        space.set_name(name);
        let table = Arc::new(PagedTable {
            tree,
            space,
            shortcuts: Shortcuts::new(),
            versions: Arc::new(Versions::new(tree.table)),
            dropped: AtomicBool::new(false),
        });
        self.inner.tables.write().insert(name.to_owned(), table.clone());
        table
    }

    /// Reads the whole catalog. The caller holds `ddl`.
    pub(crate) fn catalog(&self) -> Result<Catalog> {
        read_catalog(&self.engine().pool)
    }

    /// Takes the latch on the catalog. While it is held no table is created, renamed or dropped.
    pub(crate) fn freeze_catalog(&self) -> Result<MutexGuard<'_, ()>> {
        let ddl = self.inner.ddl.lock();
        self.engine().settle_catalog()?;
        Ok(ddl)
    }

    pub(super) fn begin_durable(&self) -> Result<PagedTransaction> {
        let durability = Durability::Durable;
        let txn = self.begin(TransactionOptions { durability, ..TransactionOptions::default() })?;
        Ok(txn.of_catalog())
    }
}

impl Engine for PagedDatabase {
    type Table = Arc<PagedTable>;
    type Transaction = PagedTransaction;
    type Load = PagedLoad;

    fn key(&self) -> DatabaseKey {
        self.engine().locks.key()
    }

    fn stat(&self) -> Result<Stat> {
        self.stat_open()
    }

    fn id(&self) -> Id {
        self.engine().control.get().database
    }

    fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied> {
        self.engine().copy(target, pace)
    }

    fn verify(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        self.verify_open(progress)
    }

    fn options(&self) -> &Options {
        &self.engine().options
    }

    /// Name of the database's directory.
    fn place(&self) -> &str {
        &self.engine().place
    }

    fn table(&self, name: &str) -> Result<Arc<PagedTable>> {
        if let Some(table) = self.open_table(name)? {
            return Ok(table);
        }
        let _ddl = self.freeze_catalog()?;
        if let Some(table) = self.find(name)? {
            return Ok(table);
        }
        let engine = self.engine();
        engine.check_writable(Stage::First, Waiter::NEVER)?;
        let id = engine.control.take_table()?;
        let mut txn = self.begin_durable()?;
        let tree = txn.statement(|engine, writer| {
            let pages = engine.pages();
            let tree = Tree::create(pages, id, &mut of_catalog(engine, writer))?;
            let entry = catalog::encode(tree);
            CATALOG.insert(pages, name.as_bytes(), &entry, &mut of_catalog(engine, writer))?;
            Ok(tree)
        })?;
        txn.commit()?;
        Ok(self.handle(name, tree))
    }

    fn open_table(&self, name: &str) -> Result<Option<Arc<PagedTable>>> {
        self.engine().check_open()?;
        check_name(name)?;
        if let Some(table) = self.inner.tables.read().get(name) {
            return Ok(Some(table.clone()));
        }
        let _ddl = self.freeze_catalog()?;
        self.find(name)
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.engine().check_open()?;
        let _ddl = self.freeze_catalog()?;
        Ok(self.catalog()?.tables.into_iter().map(|(name, _)| name).collect())
    }

    fn rename_table(&self, from: &str, to: &str) -> Result<bool> {
        self.engine().check_open()?;
        check_name(from)?;
        check_name(to)?;
        let _ddl = self.freeze_catalog()?;
        let Some(table) = self.find(from)? else { return Ok(false) };
        if self.find(to)?.is_some() {
            return Err(Error::TableExists { name: to.to_owned() });
        }
        self.engine().check_writable(Stage::First, Waiter::NEVER)?;
        let mut txn = self.begin_durable()?;
        txn.statement(|engine, writer| {
            let entry = catalog::encode(table.tree);
            CATALOG.delete(engine.pages(), from.as_bytes(), &mut of_catalog(engine, writer))?;
            CATALOG.insert(engine.pages(), to.as_bytes(), &entry, &mut of_catalog(engine, writer))
        })?;
        txn.commit()?;
        table.space.set_name(to);
        let mut tables = self.inner.tables.write();
        tables.remove(from);
        tables.insert(to.to_owned(), table);
        Ok(true)
    }

    fn drop_table(&self, name: &str) -> Result<bool> {
        let Some(table) = self.open_table(name)? else { return Ok(false) };
        self.engine().check_writable(Stage::First, Waiter::NEVER)?;
        let mut txn = self.begin_durable()?;
        let Some((engine, locks)) = txn.parts() else { return Err(Error::Closed) };
        let tree = table.tree;
        engine.granted(|| engine.locks.acquire_table(locks, tree.table, TableMode::Exclusive))?;
        // The transactions that used the table have committed or rolled back. Their records must
        // lie below the drop, because after the drop there is no table in which their changes could
        // be undone. The grant of the table's lock does not say where those records end, so the
        // log's barrier is used.
        engine.log.barrier();
        let _ddl = self.freeze_catalog()?;
        // If the name no longer leads to this table, another call has dropped or renamed the table
        // while this one waited.
        if !self.find(name)?.is_some_and(|now| Arc::ptr_eq(&now, &table)) {
            return Ok(false);
        }
        txn.statement(|engine, writer| {
            CATALOG.delete(engine.pages(), name.as_bytes(), &mut of_catalog(engine, writer))?;
            writer.defer_free(tree.root);
            Ok(())
        })?;
        let (id, mut locks) = (txn.id(), txn.take_locks());
        txn.drops(table.clone());
        let outcome = txn.commit();
        let engine = self.engine();
        match &outcome {
            Ok(_) => {
                self.inner.tables.write().remove(name);
                release(engine, &mut locks);
                engine.locks.forget(tree.table);
            }
            Err(error) if error.is_poisoned() => locks.into_iter().for_each(|locks| engine.keep_locks(locks)),
            Err(_) => locks.into_iter().for_each(|locks| engine.release_or_return(id, locks)),
        }
        outcome.map(|_| true)
    }

    fn load(&self, table: &Arc<PagedTable>) -> Result<PagedLoad> {
        PagedLoad::begin(self, table)
    }

    #[inline]
    fn begin(&self, options: TransactionOptions) -> Result<PagedTransaction> {
        PagedTransaction::new(self.inner.of_thread().clone(), options)
    }

    fn keeps_open(&self) -> Arc<dyn OpenEngine> {
        Arc::<Inner>::clone(&self.inner)
    }

    fn sync(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        engine.log.sync()?;
        if engine.gate.is_shut() {
            return Err(engine.poison_error());
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        self.engine().check_open()?;
        self.engine().checkpoint(Taker::Caller)
    }

    fn close(&self) -> Result<()> {
        self.inner.engine.opening.close(self.engine())
    }

    fn log(&self) -> &Log {
        &self.engine().whole_log
    }

    fn archive_facts(&self) -> Result<(u64, u32)> {
        let engine = self.engine();
        if engine.log.is_bounded() {
            let fault = Box::new(ArchiveFault::LogInNvram { log: engine.log.kind() });
            return Err(Error::Archive { place: engine.place.clone(), fault });
        }
        Ok((engine.space.stat().pages, engine.control.get().next_table))
    }

    fn archive_horizon(&self) -> Result<Option<CommitStamp>> {
        Ok(None)
    }

    fn changes(&self, from: &ChangesFrom) -> Result<Changes> {
        let engine = self.engine();
        engine.check_open()?;
        let names = {
            let _ddl = self.freeze_catalog()?;
            self.catalog()?.tables.into_iter().map(|(name, tree)| (tree.table, name.into())).collect()
        };
        let feed = engine.changes(from, names)?;
        Ok(Changes::new(Box::new(feed), engine.whole_log.clone(), self.keeps_open()))
    }

    fn run_background(&self) {
        self.engine().run_background();
    }
}

/// Returns the writer of records that change the catalog, which no view reads.
pub(super) fn of_catalog<'a>(engine: &'a PagedEngine, writer: &'a mut Writer) -> DoRecords<'a> {
    DoRecords { engine, writer, versions: None }
}

fn release(engine: &PagedEngine, locks: &mut Option<TxnLocks>) {
    if let Some(locks) = locks {
        engine.locks.release_all(locks, None);
    }
}

/// Contents of the catalog.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// The tables, in the order of their names.
    pub(crate) tables: Vec<(String, Tree)>,
    /// The trees of bulk loads.
    pub(crate) loads: Vec<LoadTree>,
}

/// The tree of a bulk load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadTree {
    pub(crate) tree: Tree,
    /// True if the load is committed: the tree's contents are to become the table's.
    pub(crate) is_committed: bool,
}

/// Reads the whole catalog.
pub(crate) fn read_catalog(pool: &Pool) -> Result<Catalog> {
    let mut found = Catalog::default();
    let mut batch = Batch::default();
    let mut from = Some(Bound::Unbounded);
    while let Some(bound) = from {
        let request = ScanRequest {
            low: bound.as_ref().map(Vec::as_slice),
            high: Bound::Unbounded,
            direction: Direction::Up,
            entries: 64,
            bytes: usize::MAX,
        };
        from = CATALOG.scan(pool, request, &mut batch)?;
        for (name, entry) in batch.iter() {
            let BatchValue::Inline(entry) = entry else {
                return Err(Error::Internal("a catalog entry is too long for its page"));
            };
            let tree = catalog::decode(name, entry)?;
            match catalog::key_of(name) {
                CatalogKey::Table(name) => {
                    found.tables.push((String::from_utf8_lossy(name).into_owned(), tree));
                }
                CatalogKey::Load { table, is_committed } if table == tree.table => {
                    found.loads.push(LoadTree { tree, is_committed });
                }
                CatalogKey::Load { .. } | CatalogKey::Malformed => return Err(catalog::malformed(name)),
            }
        }
    }
    Ok(found)
}

impl Opened for PagedDatabase {
    fn opening(&self) -> &Opening {
        &self.engine().opening
    }
}
