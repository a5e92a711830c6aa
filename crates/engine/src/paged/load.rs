//! Bulk loads: a table that is empty gets many keys at once.
//!
//! The keys go into a tree of their own beside the table's (`tree::load`). The catalog names that
//! tree as soon as the tree has its first page. A load runs on the caller's thread, which has the
//! table's exclusive lock. These are its steps, each with what the next opening does after a crash
//! that follows the step:
//!
//! | step | after a crash, the next opening |
//! |---|---|
//! | 1. one durable transaction makes the tree and its entry in the catalog | frees the tree |
//! | 2. records that are never undone add pages to the tree | frees the tree |
//! | 3. one durable transaction marks the entry as committed | does steps 4 and 5 |
//! | 4. one durable record exchanges the contents of the two trees' roots | does step 5 |
//! | 5. one durable transaction removes the entry and frees the former tree | does nothing |
//!
//! Invariants:
//!
//! 1. A load is committed by step 3 and by nothing else.
//! 2. No transaction changes the table between step 3 and the end of step 4, so the next opening
//!    takes step 4 exactly if the table has no keys. If all keys were deleted after step 4,
//!    repeating step 4 does no harm, because it exchanges two trees without keys.
//! 3. The record of step 4 is durable before the table's lock is released. So no change of a loaded
//!    key precedes this record in the log, and undo finds the keys in the table.
//! 4. A load that is given up frees its tree. If the freeing fails, the next load of the table or
//!    the next opening frees the tree.
//! 5. From the beginning of a load on, no thread uses a shortcut to a leaf (`tree::shortcuts`) that
//!    was made before the end of the load. The reason: meanwhile the table has a second tree, and
//!    the leaves of the tree that is freed keep their bytes.

use crate::engine::{Engine as _, EngineLoad, EngineTransaction};
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::lock::TableMode;
use crate::opening::{Call, Opened, Opening};
use crate::options::{Access, TransactionOptions};
use crate::paged::catalog::{self, CATALOG};
use crate::paged::change::ChangeKind;
use crate::paged::database::{LoadTree, PagedDatabase, of_catalog};
use crate::paged::engine::{Engine, Stage};
use crate::paged::log_room::Waiter;
use crate::paged::space::AllocClass;
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{ChangeWriter, Logged, Tree, TreeLoad};
use crate::{Durability, Lsn};
use katydid_wal::AppendClass;
use std::sync::Arc;

/// Room in the log for the records of steps 3 and 4, in pages.
const COMMIT_PAGES: u64 = 8;

/// A load under way. Dropping this value gives the load up.
pub(crate) struct PagedLoad {
    database: PagedDatabase,
    table: Arc<PagedTable>,
    /// Dropped before `lock`, which releases the table's lock: invariant 5.
    _begun: WithoutShortcuts,
    /// The transaction that has the table's exclusive lock. This transaction itself changes
    /// nothing.
    lock: PagedTransaction,
    tree: Tree,
    load: TreeLoad,
    is_empty: bool,
    /// True if this load no longer has to free its tree.
    is_over: bool,
}

/// Appends records that belong to no transaction.
struct LoadRecords<'a> {
    engine: &'a Engine,
    class: AppendClass,
}

impl ChangeWriter for LoadRecords<'_> {
    fn append(&mut self, _: ChangeKind, _: Lsn, _: &[&[u8]]) -> Result<Logged> {
        Err(Error::Internal("a load logs nothing that can be undone"))
    }

    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        let appended = self.engine.append_system(kind.number(), after, payload, self.class)?;
        Ok(Logged { lsn: appended.lsn, end: appended.end })
    }

    fn alloc_class(&self) -> AllocClass {
        AllocClass::Normal
    }

    fn half_made(&mut self, what: &'static str) -> Error {
        self.engine.poison(what)
    }
}

/// A table whose leaves are reached without shortcuts: invariant 5. The table's exclusive lock is
/// held.
struct WithoutShortcuts(Arc<PagedTable>);

impl WithoutShortcuts {
    fn begin(table: &Arc<PagedTable>) -> Self {
        table.shortcuts.begin_load();
        WithoutShortcuts(table.clone())
    }
}

impl Drop for WithoutShortcuts {
    fn drop(&mut self) {
        self.0.shortcuts.end_load();
    }
}

impl PagedLoad {
    /// Locks the table, and creates the load's tree.
    pub(super) fn begin(database: &PagedDatabase, table: &Arc<PagedTable>) -> Result<PagedLoad> {
        let call = Call::enter(database)?;
        let engine = database.engine();
        engine.check_writable(Stage::First, Waiter::NEVER)?;
        let mut lock = database.begin(TransactionOptions {
            durability: Durability::Durable,
            access: Access::ReadWrite,
            ..TransactionOptions::default()
        })?;
        let Some((_, locks)) = lock.parts() else { return Err(Error::Closed) };
        engine.granted(|| engine.locks.acquire_table(locks, table.tree.table, TableMode::Exclusive))?;
        table.check()?;
        // Each transaction that used the table has ended. The records of these transactions must
        // lie below the load's records.
        engine.log.barrier();
        if !table.tree.is_empty(&engine.pool)? {
            return Err(Error::TableNotEmpty { name: table.space.name().to_string() });
        }
        let begun = WithoutShortcuts::begin(table);
        let tree = database.make_load_tree(table.tree.table)?;
        let load = TreeLoad::new(&engine.pool, tree);
        drop(call);
        let (database, table) = (database.clone(), table.clone());
        Ok(PagedLoad { database, table, _begun: begun, lock, tree, load, is_empty: true, is_over: false })
    }

    fn commit(&mut self) -> Result<()> {
        let call = Call::enter(&self.database)?;
        let engine = self.database.engine();
        let pages = engine.pages();
        if self.is_empty {
            return Ok(());
        }
        self.load.finish(pages, &mut LoadRecords { engine, class: AppendClass::Normal })?;
        let _ddl = self.database.freeze_catalog()?;
        // Step 4 must not meet a full log, because nothing can take step 3 back.
        let room = engine.log.raise_reserve(COMMIT_PAGES * engine.pool.page_bytes() as u64);
        let room = room.map_err(Error::from)?;
        self.database.commit_load(self.tree)?;
        self.is_over = true;
        self.table.versions.begin_load();
        if engine.exchange_loaded(self.table.tree, self.tree).is_err() {
            return Err(engine.poison("a bulk load is committed, and its table could not get its keys"));
        }
        engine.views.loaded(&self.table.versions);
        drop(room);
        // Invariant 4 covers a failure.
        let _left = self.database.remove_load(self.tree, true);
        drop(call);
        Ok(())
    }
}

impl EngineLoad for PagedLoad {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let _call = Call::enter(&self.database)?;
        let engine = self.database.engine();
        engine.check_writable(Stage::First, Waiter::NEVER)?;
        self.is_empty = false;
        let mut records = LoadRecords { engine, class: AppendClass::Normal };
        let logged = self.load.push(engine.pages(), key, value, &mut records);
        let logged = logged.map_err(|error| error.in_table(&self.table.space.name()))?;
        if let Some(logged) = logged {
            engine.schedule.note(0, logged.end);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.commit()
    }
}

impl Drop for PagedLoad {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Ok(_call) = Call::enter(&self.database) {
            // Invariant 4 covers a failure.
            let _left =
                self.database.freeze_catalog().and_then(|_ddl| self.database.remove_load(self.tree, false));
        }
    }
}

impl Opened for PagedLoad {
    fn opening(&self) -> &Opening {
        self.lock.opening()
    }
}

impl Engine {
    /// Step 4: exchanges the contents of the two roots.
    fn exchange_loaded(&self, table: Tree, loaded: Tree) -> Result<()> {
        let mut records = LoadRecords { engine: self, class: AppendClass::Critical };
        let exchanged = table.exchange(self.pages(), loaded.root, &mut records)?;
        Ok(self.log.wait(exchanged.end, Durability::Durable)?)
    }
}

impl PagedDatabase {
    /// Step 1: creates the load's tree and its entry in the catalog.
    fn make_load_tree(&self, table: TableId) -> Result<Tree> {
        let _ddl = self.freeze_catalog()?;
        for left in self.catalog()?.loads.iter().filter(|load| load.tree.table == table) {
            self.remove_load(left.tree, left.is_committed)?;
        }
        let mut txn = self.begin_durable()?;
        let tree = txn.statement(|engine, writer| {
            let tree = Tree::create(engine.pages(), table, &mut of_catalog(engine, writer))?;
            let (key, entry) = (catalog::load_key(table, false), catalog::encode(tree));
            CATALOG.insert(engine.pages(), &key, &entry, &mut of_catalog(engine, writer))?;
            Ok(tree)
        })?;
        txn.commit()?;
        Ok(tree)
    }

    /// Step 3: commits the load. The caller holds `ddl`.
    fn commit_load(&self, tree: Tree) -> Result<()> {
        let mut txn = self.begin_durable()?;
        txn.statement(|engine, writer| {
            let (pages, entry) = (engine.pages(), catalog::encode(tree));
            let (before, after) = (catalog::load_key(tree.table, false), catalog::load_key(tree.table, true));
            CATALOG.delete(pages, &before, &mut of_catalog(engine, writer))?;
            CATALOG.insert(pages, &after, &entry, &mut of_catalog(engine, writer))
        })?;
        txn.commit().map(|_| ())
    }

    /// Step 5, which also ends a load that is given up: removes the entry and frees the tree. The
    /// caller holds `ddl`.
    fn remove_load(&self, tree: Tree, is_committed: bool) -> Result<()> {
        let mut txn = self.begin_durable()?;
        txn.statement(|engine, writer| {
            let key = catalog::load_key(tree.table, is_committed);
            CATALOG.delete(engine.pages(), &key, &mut of_catalog(engine, writer))?;
            writer.defer_free(tree.root);
            Ok(())
        })?;
        txn.commit().map(|_| ())
    }

    /// Ends the loads that an earlier opening left. Runs before any other thread has the database.
    pub(super) fn end_loads(&self, access: Access) -> Result<()> {
        let _ddl = self.freeze_catalog()?;
        let found = self.catalog()?;
        for LoadTree { tree, is_committed } in found.loads {
            let engine = self.engine();
            let table = found.tables.iter().map(|(_, table)| *table).find(|table| table.table == tree.table);
            if is_committed
                && let Some(table) = table
                && table.is_empty(&engine.pool)?
            {
                engine.exchange_loaded(table, tree)?;
            }
            if access == Access::ReadOnly {
                // The tree stays in the file, where it takes space and does no other harm.
                continue;
            }
            match self.remove_load(tree, is_committed) {
                // The next opening tries again.
                Err(Error::NoSpace { .. } | Error::LogFull { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
