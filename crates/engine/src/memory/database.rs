//! The memory engine as the implementation of a [`crate::Database`], and its tables.
//!
//! Any thread runs this code. Invariants:
//!
//! 1. A thread changes the catalog only while it holds `ddl`, and the change is durable before it
//!    releases `ddl`.
//! 2. `tables` has the tables of the catalog, except while a change is under way.
//! 3. While a thread tries to take a table out of the catalog, and after it has succeeded, no
//!    transaction uses the table, and none can begin to use it.

use super::engine::Engine as MemoryEngine;
use super::feed::Named;
use super::inner::Inner;
use super::load::MemoryLoad;
use super::recovery::{CatalogEntry, catalog_of};
use super::store::{ActiveTxn, Table};
use super::table::{Closing, MemoryTable};
use super::transaction::MemoryTransaction;
use crate::archive_fault::ArchiveFault;
use crate::body::DatabaseKey;
use crate::changes::{Changes, ChangesFrom};
use crate::checkpoint_schedule::{Taker, TakesCheckpoints};
use crate::copy::{Copied, Pace, Target};
use crate::engine::Engine;
use crate::error::{Error, Result, check_name};
use crate::ids::TxnId;
use crate::latch::{Mutex, RwLock};
use crate::opening::{Opened, Opening};
use crate::options::{Access, Options, TransactionOptions};
use crate::report::{VerifyProgress, VerifyReport};
use crate::sharded::ShardedArc;
use crate::stat::Stat;
use crate::ticket::OpenEngine;
use crate::{CommitStamp, Durability, TableId};
use katydid_device::Id;
use katydid_wal::Log;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for an undecided version of the catalog.
const CATALOG_WAIT_MAX: Duration = Duration::from_secs(10);

/// The memory engine's implementation of a [`crate::Database`]. All clones are handles of the same
/// database.
#[derive(Clone)]
pub(crate) struct MemoryDatabase {
    inner: ShardedArc<Inner>,
}

impl MemoryDatabase {
    /// A handle of an open engine with these tables.
    pub(crate) fn new(engine: Arc<MemoryEngine>, tables: &BTreeMap<String, TableId>) -> MemoryDatabase {
        let handle = |(name, table): (&String, &TableId)| {
            (name.clone(), MemoryTable::new(name, engine.store.table(*table)))
        };
        let tables = RwLock::new(tables.iter().map(handle).collect());
        let catalog = engine.store.table(TableId::CATALOG);
        let inner = Arc::new(Inner { engine, ddl: Mutex::new(()), tables, catalog });
        MemoryDatabase { inner: ShardedArc::new(inner) }
    }

    pub(crate) fn engine(&self) -> &MemoryEngine {
        &self.inner.engine
    }

    fn find(&self, name: &str) -> Option<Arc<MemoryTable>> {
        self.inner.tables.read().get(name).cloned()
    }

    pub(crate) fn all_tables(&self) -> Vec<Arc<MemoryTable>> {
        self.inner.tables.read().values().cloned().collect()
    }

    /// Changes the catalog durably. The caller holds `ddl`, so no other change conflicts.
    fn change_catalog(&self, change: impl FnOnce(&mut ActiveTxn, &Arc<Table>) -> Result<()>) -> Result<()> {
        let engine = self.engine();
        let mut running = engine.begin(Access::ReadWrite)?;
        change(&mut running, &self.inner.catalog)?;
        let (committed, held) = engine.pre_commit(running, Durability::Durable)?;
        let outcome = engine.wait(&committed);
        if let Some(held) = held {
            engine.end(&committed, held, &outcome);
        }
        engine.acknowledge(committed.seen_to);
        outcome
    }
}

impl Engine for MemoryDatabase {
    type Table = Arc<MemoryTable>;
    type Transaction = MemoryTransaction;
    type Load = MemoryLoad;

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

    /// See [`DatabaseKey`].
    fn key(&self) -> DatabaseKey {
        DatabaseKey::of(&**self.engine().store)
    }

    fn options(&self) -> &Options {
        &self.engine().options
    }

    /// Name of the database's directory.
    fn place(&self) -> &str {
        &self.engine().place
    }

    fn table(&self, name: &str) -> Result<Arc<MemoryTable>> {
        if let Some(table) = self.open_table(name)? {
            return Ok(table);
        }
        let _ddl = self.inner.ddl.lock();
        if let Some(table) = self.find(name) {
            return Ok(table);
        }
        let engine = self.engine();
        engine.check_writable()?;
        let id = engine.control.take_table()?;
        self.change_catalog(|running, catalog| {
            running.put(catalog, name.as_bytes(), &id.get().to_le_bytes())
        })?;
        let rows = engine.store.table(id);
        let table = MemoryTable::new(name, rows);
        self.inner.tables.write().insert(name.to_owned(), table.clone());
        Ok(table)
    }

    fn open_table(&self, name: &str) -> Result<Option<Arc<MemoryTable>>> {
        self.engine().check_open()?;
        check_name(name)?;
        Ok(self.find(name))
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.engine().check_open()?;
        Ok(self.inner.tables.read().keys().cloned().collect())
    }

    fn rename_table(&self, from: &str, to: &str) -> Result<bool> {
        self.engine().check_open()?;
        check_name(from)?;
        check_name(to)?;
        let _ddl = self.inner.ddl.lock();
        let Some(table) = self.find(from) else { return Ok(false) };
        if self.find(to).is_some() {
            return Err(Error::TableExists { name: to.to_owned() });
        }
        self.engine().check_writable()?;
        let number = table.rows.id().get().to_le_bytes();
        self.change_catalog(|running, catalog| {
            running.delete(catalog, from.as_bytes())?;
            running.put(catalog, to.as_bytes(), &number)
        })?;
        table.rows.set_name(to);
        let mut tables = self.inner.tables.write();
        tables.remove(from);
        tables.insert(to.to_owned(), table);
        Ok(true)
    }

    fn drop_table(&self, name: &str) -> Result<bool> {
        let Some(table) = self.open_table(name)? else { return Ok(false) };
        let engine = self.engine();
        engine.check_writable()?;
        // This thread waits without `ddl`, because the transaction that it waits for may need `ddl`
        // to create a table.
        match table.close(engine.options.lock_wait, || engine.opening.is_closing()) {
            Closing::Closed => {}
            Closing::Dropped => return Ok(false),
            Closing::Busy if engine.opening.is_closing() => return Err(Error::Closed),
            Closing::Own(holder) => return Err(Error::WaitsForItself { holder, contested: None }),
            Closing::Busy => {
                engine.metrics.count_conflict();
                // The error names as its victim the transaction that would have dropped the table.
                let victim = engine.begin(Access::ReadWrite).map_or(TxnId::NONE, |running| running.id());
                return Err(table.busy(victim));
            }
        }
        let _ddl = self.inner.ddl.lock();
        // If the name no longer leads to this table, another thread has renamed the table while
        // this call waited.
        if !self.find(name).is_some_and(|now| Arc::ptr_eq(&now, &table)) {
            table.reopen();
            return Ok(false);
        }
        let outcome = self.change_catalog(|running, catalog| {
            running.delete(catalog, name.as_bytes())?;
            Ok(())
        });
        if let Err(error) = outcome {
            // The next opening of the database finds out whether the table was dropped. Until then
            // the table can be read.
            table.reopen();
            return Err(error);
        }
        table.dropped();
        self.inner.tables.write().remove(name);
        engine.store.forget(table.rows.id());
        Ok(true)
    }

    #[inline]
    fn begin(&self, options: TransactionOptions) -> Result<MemoryTransaction> {
        MemoryTransaction::new(self.inner.of_thread().clone(), options)
    }

    fn load(&self, table: &Arc<MemoryTable>) -> Result<MemoryLoad> {
        MemoryLoad::begin(self, table)
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
        &self.engine().log
    }

    fn archive_facts(&self) -> Result<(u64, u32)> {
        let engine = self.engine();
        if engine.log.first().is_bounded() {
            let fault = Box::new(ArchiveFault::LogInNvram { log: engine.log.first().kind() });
            return Err(Error::Archive { place: engine.place.clone(), fault });
        }
        Ok((0, engine.control.get().next_table))
    }

    fn archive_horizon(&self) -> Result<Option<CommitStamp>> {
        let horizon = self.engine().horizon(None)?;
        Ok(Some(CommitStamp::new(horizon.get())))
    }

    fn changes(&self, from: &ChangesFrom) -> Result<Changes> {
        let engine = &self.inner.engine;
        engine.check_open()?;
        let names = {
            let _ddl = self.inner.ddl.lock();
            let named = |CatalogEntry { name, table, since }| {
                (table, Named { name: name.into(), since: CommitStamp::new(since.get()) })
            };
            catalog_of(&engine.store, CATALOG_WAIT_MAX)?.into_iter().map(named).collect()
        };
        let feed = engine.changes(from, names)?;
        Ok(Changes::new(Box::new(feed), engine.log.clone(), self.keeps_open()))
    }

    fn run_background(&self) {
        self.engine().run_background();
    }
}

impl Opened for MemoryDatabase {
    fn opening(&self) -> &Opening {
        &self.engine().opening
    }
}
