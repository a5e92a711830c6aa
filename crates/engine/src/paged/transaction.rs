//! A transaction: reads and writes under strict two-phase locking, and the ways to end it.
//!
//! Used by one thread at a time; a transaction may move between threads. Invariants:
//!
//! 1. Except in a read view, the transaction locks every key before it writes the key or returns
//!    the key's value. It also locks every key that a range passes over, except in an unlocked
//!    range (`unlocked`). No lock is released before the commit record has a position in the log,
//!    or everything is undone.
//! 2. A call that fails leaves the transaction as it was before the call, or in a state in which it
//!    can only roll back.
//! 3. `depends` is at least the commit end of every transaction whose writes this one has seen or
//!    replaced and whose commit may not be durable. The commit record of a transaction that writes
//!    lies above `depends`, so a wait for that record includes the commits that the transaction
//!    depends on.
//! 4. A transaction whose changes can neither be committed nor undone keeps its locks until the
//!    changes can be undone (`unfinished`). After the gate has shut, it keeps the locks until the
//!    database is opened again.

use crate::Durability;
use crate::body_threads::while_blocked;
use crate::engine::{EngineTransaction, Purpose};
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::lock::{PointMode, TableMode, TxnLocks};
use crate::opening::{Call, Opened, Opening};
use crate::options::{Access, Read, TransactionOptions};
use crate::paged::engine::{Engine, Stage};
use crate::paged::inner::Inner;
use crate::paged::log_room::Waiter;
use crate::paged::own_writes::OwnWrites;
use crate::paged::pool::Pool;
use crate::paged::range::PagedRange;
use crate::paged::table::PagedTable;
use crate::paged::tree::{InMemory, Pages, Previous};
use crate::paged::unfinished::{Ending, Unended};
use crate::paged::unlocked::UnlockedRange;
use crate::paged::views::{TxnImages, View};
use crate::paged::writer::{DoRecords, Writer};
use crate::sharded::ShardRef;
use crate::ticket::{OpenEngine, Ticket};
use crate::{CommitStamp, Lsn};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Background, Dependencies};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of keys of `multi_get` and `put_all` whose leaves are read together.
const KEYS_TOGETHER: usize = 64;

/// The paged engine's part of a [`crate::Transaction`]. Dropping it rolls the transaction back.
pub(crate) struct PagedTransaction {
    pub(super) inner: ShardRef<Inner>,
    id: TxnId,
    pub(super) options: TransactionOptions,
    /// Maximum wait for room in a log in NVRAM.
    patience: Duration,
    /// The transaction's locks; `None` if it only reads or has ended.
    pub(super) locks: Option<TxnLocks>,
    /// View of a transaction that only reads. Such a transaction has no locks.
    view: Option<View>,
    pub(super) writer: Option<Box<Writer>>,
    /// Images of the transaction, from the append of its commit record until its locks are
    /// released. Until the append they belong to the writer. With `LockRelease::AfterDurable` the
    /// writer is given back before the locks are released.
    pub(super) images: Option<Arc<TxnImages>>,
    /// The table that the transaction drops.
    pub(super) drops: Option<Arc<PagedTable>>,
    /// Counts the transaction's writes, so that a range knows whether its copied entries may be
    /// stale.
    own_writes: OwnWrites,
    pub(super) depends: Lsn,
    /// End of the commit record, once the record has a position. If a panic ends the transaction
    /// while it holds locks, the locks are released with this position.
    pub(super) pre_committed: Option<Lsn>,
    /// Way to end the transaction later if its rollback fails.
    ending: Ending,
    savepoints: u64,
    /// Savepoints in force: the serial number, and the newest change before the savepoint.
    in_force: Vec<(u64, Lsn)>,
    pub(super) failure: Option<Arc<Error>>,
}

impl Opened for PagedTransaction {
    fn opening(&self) -> &Opening {
        &self.inner.engine.opening
    }
}

impl PagedTransaction {
    pub(crate) fn new(inner: ShardRef<Inner>, options: TransactionOptions) -> Result<Self> {
        inner.engine.check_open()?;
        let txn = inner.engine.active.next_txn();
        let (locks, view) = match options.access {
            Access::ReadWrite => {
                let mut locks = inner.engine.active.take_locks(txn);
                inner.engine.locks.begin(&mut locks);
                (Some(locks), None)
            }
            Access::ReadOnly => (None, Some(inner.engine.open_view())),
        };
        let patience = match inner.engine.options.advanced.log.background {
            Background::Threads => inner.engine.options.lock_wait,
            // There may be no other thread that could end the transactions for which this one would
            // wait.
            Background::Caller => Duration::ZERO,
        };
        Ok(PagedTransaction {
            inner,
            id: txn,
            options,
            patience,
            locks,
            view,
            writer: None,
            images: None,
            drops: None,
            own_writes: OwnWrites::default(),
            depends: Lsn::ZERO,
            pre_committed: None,
            ending: Ending::Rollback,
            savepoints: 0,
            in_force: Vec::new(),
            failure: None,
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    // ---- the steps

    /// Fails if the transaction can only roll back, or if the database was closed or shut off.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.engine.check_open()?;
        match &self.failure {
            Some(cause) => Err(Error::MustRollBack { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers a failure after which the transaction can only roll back. `Error::Closed` is not
    /// remembered, because every later call returns it anyway.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if !matches!(error, Error::Closed) {
            self.failure = Some(Arc::new(error.clone()));
        }
        error
    }

    /// Locks the table in shared mode.
    pub(crate) fn enter(&mut self, table: &PagedTable) -> Result<()> {
        self.check()?;
        let engine = &self.inner.engine;
        let Some(locks) = &mut self.locks else { return Err(Error::Closed) };
        locks.used();
        // The grant's dependency is not needed, because a creation or drop of the table was durable
        // before the table's lock was released.
        let acquire = || engine.locks.acquire_table(locks, table.tree.table, TableMode::Shared);
        if let Err(error) = engine.granted(acquire) {
            return Err(self.fail(error));
        }
        table.check()
    }

    /// Locks a key of a table that the transaction has entered.
    pub(crate) fn lock_key(&mut self, table: &PagedTable, key: &[u8], mode: PointMode) -> Result<()> {
        let engine = &self.inner.engine;
        let Some(locks) = &mut self.locks else { return Err(Error::Closed) };
        match engine.granted(|| engine.locks.acquire_point(locks, &table.space, key, mode)) {
            Ok(grant) => {
                self.depend_on(grant.depends_on);
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Locks a key, then calls `look` on it.
    fn read<R>(
        &mut self,
        table: &PagedTable,
        key: &[u8],
        mode: PointMode,
        look: impl FnOnce(&PagedTable, &Pool, &[u8]) -> Result<R>,
    ) -> Result<R> {
        self.enter(table)?;
        self.lock_key(table, key, mode)?;
        let seen = look(table, &self.inner.engine.pool, key)?;
        self.await_read_durability()?;
        Ok(seen)
    }

    /// Calls `look` on a key, with the transaction's view.
    fn read_through<R>(
        &mut self,
        table: &PagedTable,
        key: &[u8],
        look: impl FnOnce(&View, &Engine) -> Result<R>,
    ) -> Result<R> {
        self.check()?;
        let Some(view) = &mut self.view else { return Err(Error::Closed) };
        if !view.has_visited() && table.space.has_writer(key) {
            self.inner.engine.views.visit(view);
        }
        let seen = look(view, &self.inner.engine)?;
        self.saw(table, std::iter::once(key));
        self.await_read_durability()?;
        Ok(seen)
    }

    /// Reads a key like `get`, if its leaf is in memory. Locks the key even if the leaf is not in
    /// memory; a transaction with a view takes no lock.
    fn get_in_memory(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<InMemory<Option<Vec<u8>>>> {
        if self.view.is_some() {
            return self.read_through(table, key, |view, engine| {
                view.get_in_memory(&engine.views, &engine.pool, table, key)
            });
        }
        self.read(table, key, PointMode::Shared, PagedTable::get_copy_in_memory)
    }

    /// Number of keys whose leaves are worth reading together; at least 1.
    fn keys_together(&self) -> usize {
        self.engine().pool.ahead_max().clamp(1, KEYS_TOGETHER)
    }

    /// The view, if the transaction only reads and has not ended.
    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Prepares the view, if there is one, for reads of ranges.
    pub(crate) fn visit(&mut self) {
        if let Some(view) = &mut self.view {
            self.inner.engine.views.visit(view);
        }
    }

    /// Notes that the view has shown these keys, and no other key of the intervals that it has
    /// read. The transaction now depends on the commits that wrote these keys or removed other keys
    /// from the intervals. `LockSpace::dependence_of` finds these commits from the released locks.
    pub(crate) fn saw<'k>(&mut self, table: &PagedTable, keys: impl Iterator<Item = &'k [u8]>) {
        let Some(view) = &self.view else { return };
        if view.limit() > self.inner.engine.log.durable() {
            let end = view.depends_on(table.space.dependence_of(keys));
            self.depend_on(end);
        }
    }

    /// Waits, if the transaction asks for durable reads, until all that it depends on is durable.
    /// The wait includes earlier dependencies, because an earlier call may have locked the key, and
    /// so taken over the key's dependency, without showing the key's value. Fails if the database
    /// was shut off meanwhile: a bug may have left a page half changed, and the transaction may
    /// have read that page.
    pub(crate) fn await_read_durability(&self) -> Result<()> {
        self.inner.engine.check_open()?;
        if self.options.read == Read::Durable && self.depends != Lsn::ZERO {
            while_blocked(|| self.inner.engine.log.wait(self.depends, Durability::Durable))?;
        }
        Ok(())
    }

    /// The writes of this transaction so far.
    pub(crate) fn own_writes(&self) -> &OwnWrites {
        &self.own_writes
    }

    /// Notes that the transaction drops the table. The table is marked as dropped when the commit
    /// record has its position, before the table's pages are freed.
    pub(crate) fn drops(&mut self, table: Arc<PagedTable>) {
        self.drops = Some(table);
    }

    /// Takes the locks out of the transaction. The caller releases them.
    pub(crate) fn take_locks(&mut self) -> Option<TxnLocks> {
        self.locks.take()
    }

    /// Returns the engine and the transaction's locks, for a range.
    pub(crate) fn parts(&mut self) -> Option<(&Engine, &mut TxnLocks)> {
        let locks = self.locks.as_mut()?;
        locks.used();
        Some((&self.inner.engine, locks))
    }

    /// Makes the transaction depend on a commit that ends at `end`.
    pub(crate) fn depend_on(&mut self, end: Lsn) {
        self.depends = self.depends.max(end);
    }

    fn write(
        &mut self,
        table: &PagedTable,
        key: &[u8],
        mut change: impl FnMut(&Engine, &mut Writer) -> Result<Previous>,
    ) -> Result<Previous> {
        let mut call = Call::enter(self)?;
        call.enter(table)?;
        call.inner.engine.check_writable(call.stage(), call.waiter())?;
        call.lock_key(table, key, PointMode::Exclusive)?;
        call.own_writes.in_table(table.tree.table);
        let outcome = call.statement(|engine, writer| {
            let previous = change(engine, writer)?;
            if let Some(chain) = previous.chain {
                writer.defer_free(chain.head);
            }
            Ok(previous)
        });
        outcome.map_err(|error| error.in_table(&table.space.name()))
    }

    /// Turns the transaction into one that changes the catalog. Such a transaction holds the mutex
    /// `ddl`, which another transaction may need before it can end. So the transaction that changes
    /// the catalog waits for no other one when the log is full.
    pub(crate) fn of_catalog(mut self) -> Self {
        self.patience = Duration::ZERO;
        self.ending = Ending::CatalogRollback;
        self
    }

    fn waiter(&self) -> Waiter {
        Waiter { txn: self.id(), patience: self.patience }
    }

    fn stage(&self) -> Stage {
        let wrote = self.writer.as_ref().is_some_and(|writer| writer.has_logged());
        if wrote { Stage::Later } else { Stage::First }
    }

    /// Runs a change. If the change fails, undoes what it has logged. Runs the change again if a
    /// log in NVRAM was full and has room now.
    pub(crate) fn statement<T>(
        &mut self,
        mut change: impl FnMut(&Engine, &mut Writer) -> Result<T>,
    ) -> Result<T> {
        loop {
            let before = self.inner.engine.log_begins();
            match (self.attempt(&mut change), before) {
                (Err(Error::LogFull { .. }), Some(before)) => {
                    self.inner.engine.make_room_beyond(before, self.waiter())?;
                }
                (outcome, _) => return outcome,
            }
        }
    }

    fn attempt<T>(&mut self, change: impl FnOnce(&Engine, &mut Writer) -> Result<T>) -> Result<T> {
        let engine = &self.inner.engine;
        let txn = self.id();
        let writer = self.writer.get_or_insert_with(|| engine.active.take_writer(txn));
        writer.depend_on(self.depends);
        let before = writer.undo_next();
        match change(engine, writer) {
            Ok(done) => Ok(done),
            Err(error) => {
                if writer.undo_next() != before && self.undo_to(before).is_err() {
                    return Err(self.fail(error));
                }
                if error.is_poisoned() {
                    return Err(self.fail(error));
                }
                if error.is_no_space() {
                    self.inner.engine.refused_for_space();
                }
                Err(error)
            }
        }
    }

    fn undo_to(&mut self, at: Lsn) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match self.inner.engine.roll_back(writer, at) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(error)),
        }
    }

    pub(super) fn close_view(&mut self) {
        if let Some(view) = self.view.take() {
            self.inner.engine.views.close(view);
        }
    }

    fn undo_all(&mut self) -> Result<()> {
        self.close_view();
        let engine = &self.inner.engine;
        let mut outcome = Ok(());
        if let Some(mut writer) = self.writer.take() {
            if writer.slot.lock().txn == TxnId::NONE {
                engine.give_writer(writer);
            } else {
                outcome = engine.check_open().and_then(|()| engine.roll_back_all(&mut writer));
                match &outcome {
                    Ok(()) => {
                        engine.metrics.count_rollback();
                        engine.give_writer(writer);
                    }
                    Err(cause) => {
                        // The changes stay in memory, and the transaction's locks hide them. The
                        // slot makes the log retain the records that their undo needs.
                        let (locks, ending, cause) = (self.locks.take(), self.ending, cause.clone());
                        engine.set_aside(Unended { writer, locks, ending, cause });
                    }
                }
            }
        }
        if let Some(locks) = self.locks.take() {
            if let Some(end) = self.pre_committed {
                engine.show_to_views(self.images.as_deref(), end);
            }
            engine.release_locks(locks, self.pre_committed);
            engine.end_images(self.images.take());
        }
        outcome
    }

    /// Rolls back without returning the outcome. Invariant 4 covers a failure.
    pub(super) fn give_up(&mut self) {
        let _outcome = self.undo_all();
    }
}

impl EngineTransaction for PagedTransaction {
    type Table = Arc<PagedTable>;
    type Range = PagedRange;
    type Unlocked = UnlockedRange;
    type Lent = Vec<u8>;

    fn id(&self) -> TxnId {
        self.id
    }

    fn get(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.view.is_some() {
            return self
                .read_through(table, key, |view, engine| view.get(&engine.views, &engine.pool, table, key));
        }
        self.read(table, key, PointMode::Shared, PagedTable::get_copy)
    }

    /// Returns a copy, because the user's code must not run under the latch of a leaf
    /// (docs/adr/0085).
    fn lend(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }

    /// Takes the keys in groups of [`KEYS_TOGETHER`] at most. For each group, the call first reads
    /// the keys whose leaves are in memory, then the other leaves together, then the keys in these
    /// leaves. Without a view, the call locks all keys of a group, in their order, before it reads
    /// those leaves together.
    fn multi_get(&mut self, table: &Arc<PagedTable>, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let together = self.keys_together();
        if together == 1 {
            return keys.iter().map(|key| self.get(table, key)).collect();
        }
        let mut values = Vec::with_capacity(keys.len());
        for some in keys.chunks(together) {
            let (mut leaves, mut missing) = (Vec::new(), Vec::new());
            for key in some {
                let value = match self.get_in_memory(table, key)? {
                    InMemory::Found(value) => value,
                    InMemory::Missing(leaf) => {
                        leaves.push(leaf);
                        missing.push((values.len(), *key));
                        None
                    }
                };
                values.push(value);
            }
            self.engine().pool.prefetch_several(&leaves)?;
            for (at, key) in missing {
                values[at] = self.get(table, key)?;
            }
        }
        Ok(values)
    }

    fn contains(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<bool> {
        if self.view.is_some() {
            return self.read_through(table, key, |view, engine| {
                view.contains(&engine.views, &engine.pool, table, key)
            });
        }
        self.read(table, key, PointMode::Shared, PagedTable::contains)
    }

    fn get_for_update(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(table, key, PointMode::Update, PagedTable::get_copy)
    }

    fn put(&mut self, table: &Arc<PagedTable>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, key, |engine, writer| {
            table.tree.put(pages(engine, table), key, value, &mut forward(engine, writer, table))
        })?;
        Ok(())
    }

    fn put_all(&mut self, table: &Arc<PagedTable>, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let together = self.keys_together();
        for some in entries.chunks(together) {
            if together > 1 {
                // While the transaction holds the table's lock, no other transaction can drop the
                // table and free its tree.
                self.enter(table)?;
                table.tree.read_ahead(&self.engine().pool, some.iter().map(|(key, _)| *key))?;
            }
            some.iter().try_for_each(|(key, value)| self.put(table, key, value))?;
        }
        Ok(())
    }

    fn insert(&mut self, table: &Arc<PagedTable>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, key, |engine, writer| {
            table.tree.insert(pages(engine, table), key, value, &mut forward(engine, writer, table))?;
            Ok(Previous::default())
        })?;
        Ok(())
    }

    fn delete(&mut self, table: &Arc<PagedTable>, key: &[u8]) -> Result<bool> {
        let previous = self.write(table, key, |engine, writer| {
            table.tree.delete(pages(engine, table), key, &mut forward(engine, writer, table))
        })?;
        if previous.existed
            && let Some(locks) = &mut self.locks
        {
            locks.removed_from(&table.space);
        }
        Ok(previous.existed)
    }

    fn range(
        table: &Arc<PagedTable>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        purpose: Purpose,
    ) -> PagedRange {
        PagedRange::new(table.clone(), low, high, purpose)
    }

    fn range_unlocked(table: &Arc<PagedTable>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> UnlockedRange {
        UnlockedRange::new(table.clone(), low, high)
    }

    /// Returns the serial number of a new savepoint, which remembers the newest change so far.
    fn savepoint(&mut self) -> u64 {
        self.savepoints += 1;
        let at = self.writer.as_ref().map_or(Lsn::ZERO, |writer| writer.undo_next());
        self.in_force.push((self.savepoints, at));
        self.savepoints
    }

    fn forget_savepoint(&mut self, savepoint: u64) {
        self.in_force.truncate(self.in_force.partition_point(|(serial, _)| *serial < savepoint));
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        self.check()?;
        let place = self.in_force.iter().position(|(serial, _)| *serial == savepoint);
        let Some(place) = place else { return Err(Error::Savepoint) };
        self.in_force.truncate(place + 1);
        let (_, at) = self.in_force[place];

        self.own_writes.were_undone();
        self.undo_to(at)
    }

    fn commit(&mut self) -> Result<CommitStamp> {
        let wrote = self.writer.is_some();
        let committed = self.pre_commit()?;
        let outcome = self.inner.engine.log.wait(committed.end, committed.durability).map_err(Error::from);
        if wrote && let Some(locks) = self.locks.take() {
            // No other transaction has seen a change of this one yet.
            match &outcome {
                Ok(()) => {
                    let engine = &self.inner.engine;
                    engine.show_to_views(self.images.as_deref(), committed.end);
                    engine.release_locks(locks, committed.left_behind());
                    engine.end_images(self.images.take());
                }
                Err(_) => self.inner.engine.keep_locks(locks),
            }
        }
        outcome.map(|()| committed.stamp())
    }

    fn submit(&mut self) -> Result<Ticket> {
        let committed = self.pre_commit()?;
        self.release_later(committed);
        Ok(Ticket {
            at: self.inner.engine.log.at(committed.end),
            dependencies: Dependencies::default(),
            durability: committed.durability,
            stamp: committed.stamp(),
            seen_to: Timestamp::ZERO,
        })
    }

    fn keeps_open(&self) -> Arc<dyn OpenEngine> {
        Arc::<Inner>::clone(&self.inner)
    }

    fn rollback(&mut self) -> Result<()> {
        self.undo_all()
    }

    /// Rolls back a transaction whose caller gives up, then waits until all that it has seen is as
    /// durable as its commit would be. Until the rollback, the transaction's locks keep the values
    /// that it has read from changing.
    ///
    /// # Errors
    /// `Error::MustRollBack` if an earlier call returned an error that may be retried, such as a
    /// conflict, or an error that has shut the database off. Otherwise the errors of the wait for
    /// the log.
    fn conclude(&mut self) -> Result<()> {
        self.give_up();
        match self.failure.clone() {
            // The caller may have ignored the error, which stands nevertheless.
            Some(cause) if cause.is_retryable() || cause.is_poisoned() => Err(Error::MustRollBack { cause }),
            _ => Ok(while_blocked(|| self.inner.engine.log.wait(self.depends, self.options.durability))?),
        }
    }

    /// Returns whether the transaction has begun to write and has not ended.
    fn has_changes(&self) -> bool {
        self.writer.is_some()
    }

    fn durability(&self) -> Durability {
        self.options.durability
    }

    fn failure(&self) -> Option<&Error> {
        self.failure.as_deref()
    }

    /// Forgets the transaction, because the database is closed or being closed. Its images stay,
    /// because no view may see its changes. Its locks stay, so no other transaction sees its
    /// changes, and its slot keeps the log, so recovery can undo the changes.
    fn abandon(&mut self) {
        drop(self.writer.take());
        if let Some(locks) = self.locks.take() {
            self.inner.engine.keep_locks(locks);
        }
    }
}

fn forward<'a>(engine: &'a Engine, writer: &'a mut Writer, table: &'a PagedTable) -> DoRecords<'a> {
    DoRecords { engine, writer, versions: Some(&table.versions) }
}

/// The table's pages, with the shortcuts to its leaves.
fn pages<'a>(engine: &'a Engine, table: &'a PagedTable) -> Pages<'a> {
    Pages { shortcuts: Some(&table.shortcuts), ..engine.pages() }
}

impl Drop for PagedTransaction {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for PagedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id())
            .field("options", &self.options)
            .field("wrote", &self.writer.is_some())
            .finish_non_exhaustive()
    }
}
