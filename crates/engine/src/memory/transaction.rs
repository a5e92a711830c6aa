//! The memory engine's transaction: its tables, its savepoints, and its end. The store does the
//! reads and writes.
//!
//! One thread at a time uses a transaction, which may move between threads. Invariants:
//!
//! 1. Each table that a transaction uses counts the transaction as a user until the transaction's
//!    record is appended, or until the transaction is rolled back.
//! 2. A failed call leaves the transaction as it was before the call. After a conflict, or after it
//!    met a version in doubt, the transaction can only roll back.
//! 3. A commit is acknowledged to the caller after `Engine::acknowledge`. So a transaction that
//!    begins later sees the committed one.

use super::engine::{Committed, Engine, PendingVersions};
use super::inner::Inner;
use super::range::MemoryRange;
use super::store::{ActiveTxn, Mark, Validated, Value};
use super::table::{MemoryTable, Use};
use crate::body_threads::while_blocked;
use crate::cicada_options::Contention;
use crate::durability_waiter::DurabilityWaiter;
use crate::engine::{EngineTransaction, Purpose};
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::opening::{Opened, Opening};
use crate::options::{Read, TransactionOptions};
use crate::sharded::ShardRef;
use crate::ticket::{OpenEngine, Ticket};
use crate::{CommitStamp, Durability};
use smallvec::SmallVec;
use std::fmt;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// The memory engine's implementation of a [`crate::Transaction`]. A transaction is rolled back if
/// it is dropped.
pub(crate) struct MemoryTransaction {
    inner: ShardRef<Inner>,
    id: TxnId,
    options: TransactionOptions,
    /// `None` after the transaction has ended.
    running: Option<ActiveTxn>,
    uses: SmallVec<[Use; 2]>,
    wrote: bool,
    savepoints: u64,
    /// Serial numbers and marks of the savepoints that are in force.
    in_force: Vec<(u64, Mark)>,
    failure: Option<Arc<Error>>,
    /// True if the thread pauses after the rollback, because of a conflict ([`Contention::Early`]).
    pauses: bool,
}

impl MemoryTransaction {
    #[inline]
    pub(crate) fn new(inner: ShardRef<Inner>, options: TransactionOptions) -> Result<Self> {
        inner.engine.check_open()?;
        let begun = inner.engine.begin(options.access);
        let running = match begun {
            Ok(running) => running,
            // The call waited for other transactions, and closing has ended that wait.
            Err(_) if inner.engine.opening.is_closing() => return Err(Error::Closed),
            Err(error) => {
                if error.is_retryable() {
                    inner.engine.metrics.count_conflict();
                }
                return Err(error);
            }
        };
        Ok(MemoryTransaction {
            id: running.id(),
            inner,
            options,
            running: Some(running),
            uses: SmallVec::new(),
            wrote: false,
            savepoints: 0,
            in_force: Vec::new(),
            failure: None,
            pauses: false,
        })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    /// Validates the transaction, and appends its record to the log.
    fn pre_commit(&mut self) -> Result<(Committed, Option<Validated>)> {
        if let Some(cause) = self.failure.clone() {
            self.rollback()?;
            return Err(Error::MustRollBack { cause });
        }
        let wrote = self.wrote;
        let engine = &self.inner.engine;
        engine.check_open()?;
        let Some(running) = self.running.take() else { return Err(Error::Closed) };
        if wrote {
            engine.metrics.ends_writing();
        }
        let outcome = engine.pre_commit(running, self.options.durability);
        if let Err(error) = &outcome {
            if error.is_retryable() {
                engine.metrics.count_conflict();
            }
            if wrote {
                engine.metrics.count_rollback();
            }
        }
        // The transaction uses its tables up to this point, because its validation puts versions
        // into them.
        self.uses.clear();
        outcome
    }

    /// Passes pending versions to the thread that ends them when they are durable.
    fn end_later(&self, (committed, held): (Committed, Option<Validated>)) -> Committed {
        if let Some(held) = held {
            let engine = self.engine();
            let pending = PendingVersions { committed: committed.clone(), held };
            DurabilityWaiter::enqueue(engine, engine.options.advanced.log.background, pending);
        }
        committed
    }

    // ---- the steps

    /// Fails if the transaction can only roll back.
    pub(super) fn check(&self) -> Result<()> {
        self.inner.engine.check_open()?;
        match &self.failure {
            Some(cause) => Err(Error::MustRollBack { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Begins to use the table.
    pub(super) fn enter(&mut self, table: &Arc<MemoryTable>) -> Result<&mut ActiveTxn> {
        self.check()?;
        if !self.uses.iter().any(|known| known.table == table.rows.id()) {
            let entered = table.enter(self.id, self.inner.engine.options.lock_wait);
            let entered = self.remember_failure(entered)?;
            self.uses.push(entered);
        }
        self.running.as_mut().ok_or(Error::Closed)
    }

    fn enter_to_write(&mut self, table: &Arc<MemoryTable>) -> Result<&mut ActiveTxn> {
        self.check()?;
        if self.wrote {
            // Room in the log is checked only at the first write, because the transaction appends a
            // single record, at its commit.
            self.inner.engine.check_unharmed()?;
        } else {
            self.inner.engine.check_writable()?;
        }
        self.enter(table)
    }

    fn written<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if outcome.is_ok() && !self.wrote {
            self.wrote = true;
            self.engine().metrics.begins_to_write();
        }
        self.remember_failure(outcome)
    }

    /// Remembers a failure after which the transaction can only roll back: a conflict, or a version
    /// in doubt.
    pub(super) fn remember_failure<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome
            && (error.is_retryable() || error.is_poisoned())
        {
            if error.is_retryable() {
                self.engine().metrics.count_conflict();
                self.pauses = self.engine().options.advanced.contention == Contention::Early;
            }
            self.failure = Some(Arc::new(error.clone()));
        }
        outcome
    }

    fn find(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<Option<Value>> {
        let found = self.enter(table)?.get(&table.rows, key);
        let found = self.remember_failure(found)?;
        self.await_read_durability()?;
        Ok(found)
    }

    /// Waits until all versions that were read are durable, if the transaction asks for durable
    /// reads.
    pub(super) fn await_read_durability(&self) -> Result<()> {
        if self.options.read == Read::Durable
            && let Some(running) = &self.running
        {
            let log = &self.inner.engine.log;
            for place in running.depends().iter().filter(|place| !log.is_durable(*place)) {
                let none = katydid_wal::Dependencies::default();
                while_blocked(|| log.wait(place, &none, Durability::Durable))?;
            }
        }
        Ok(())
    }
}

impl EngineTransaction for MemoryTransaction {
    type Table = Arc<MemoryTable>;
    type Range = MemoryRange;
    type Unlocked = MemoryRange;
    type Lent = Value;

    fn id(&self) -> TxnId {
        self.id
    }

    // ---- reads and writes

    fn get(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.find(table, key)?.map(|value| value.to_vec()))
    }

    fn lend(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<Option<Value>> {
        self.find(table, key)
    }

    fn contains(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<bool> {
        Ok(self.find(table, key)?.is_some())
    }

    /// Locks nothing: if two transactions change a key that both have read, the commit of one
    /// fails.
    fn get_for_update(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }

    fn put(&mut self, table: &Arc<MemoryTable>, key: &[u8], value: &[u8]) -> Result<()> {
        let outcome = self.enter_to_write(table)?.put(&table.rows, key, value);
        self.written(outcome)
    }

    fn insert(&mut self, table: &Arc<MemoryTable>, key: &[u8], value: &[u8]) -> Result<()> {
        let outcome = self.enter_to_write(table)?.insert(&table.rows, key, value);
        let outcome = self.written(outcome);
        if matches!(outcome, Ok(()) | Err(Error::KeyExists { .. })) {
            self.await_read_durability()?;
        }
        outcome
    }

    fn delete(&mut self, table: &Arc<MemoryTable>, key: &[u8]) -> Result<bool> {
        let outcome = self.enter_to_write(table)?.delete(&table.rows, key);
        let was_there = self.written(outcome)?;
        self.await_read_durability()?;
        Ok(was_there)
    }

    fn range(
        table: &Arc<MemoryTable>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        _purpose: Purpose,
    ) -> MemoryRange {
        MemoryRange::new(table.clone(), low, high)
    }

    /// A range of this engine never locks keys.
    fn range_unlocked(table: &Arc<MemoryTable>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> MemoryRange {
        MemoryRange::new(table.clone(), low, high)
    }

    /// Makes a savepoint and returns its serial number.
    fn savepoint(&mut self) -> u64 {
        self.savepoints += 1;
        if let Some(running) = &mut self.running {
            self.in_force.push((self.savepoints, running.savepoint()));
        }
        self.savepoints
    }

    fn forget_savepoint(&mut self, savepoint: u64) {
        self.in_force.truncate(self.in_force.partition_point(|(serial, _)| *serial < savepoint));
        if self.in_force.is_empty()
            && let Some(running) = &mut self.running
        {
            running.forget_savepoints();
        }
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        self.check()?;
        let place = self.in_force.iter().position(|(serial, _)| *serial == savepoint);
        let Some(place) = place else { return Err(Error::Savepoint) };
        self.in_force.truncate(place + 1);
        let (_, mark) = self.in_force[place];
        self.running.as_mut().ok_or(Error::Closed)?.rollback_to(mark);
        Ok(())
    }

    // ---- ends

    fn commit(&mut self) -> Result<CommitStamp> {
        let (committed, held) = self.pre_commit()?;
        let engine = self.engine();
        let outcome = engine.wait(&committed);
        if let Some(held) = held {
            engine.end(&committed, held, &outcome);
        }
        outcome?;
        engine.acknowledge(committed.seen_to);
        Ok(committed.stamp())
    }

    fn submit(&mut self) -> Result<Ticket> {
        let pre = self.pre_commit()?;
        Ok(self.end_later(pre).into_ticket())
    }

    fn keeps_open(&self) -> Arc<dyn OpenEngine> {
        Arc::<Inner>::clone(&self.inner)
    }

    fn rollback(&mut self) -> Result<()> {
        if self.wrote && self.running.take().is_some() {
            self.engine().metrics.count_rollback();
            self.engine().metrics.ends_writing();
        }
        self.uses.clear();
        if mem::take(&mut self.pauses) {
            // The transaction is dropped before the pause, so that it does not hold up other
            // transactions.
            self.running = None;
            self.engine().store.pause();
        }
        Ok(())
    }

    /// Ends a transaction whose caller gives up: undoes all writes, and validates the reads as the
    /// commit of a transaction without writes does.
    ///
    /// # Errors
    /// A conflict if a read is no longer valid.
    fn conclude(&mut self) -> Result<()> {
        if let Some(running) = &mut self.running {
            running.forget_writes();
        }
        let (committed, _held) = self.pre_commit()?;
        while_blocked(|| self.engine().wait(&committed))?;
        self.engine().acknowledge(committed.seen_to);
        if self.wrote {
            self.engine().metrics.count_rollback();
        }
        Ok(())
    }

    /// Returns whether the transaction has written and has not ended.
    fn has_changes(&self) -> bool {
        self.wrote && self.running.is_some()
    }

    fn durability(&self) -> Durability {
        self.options.durability
    }

    fn failure(&self) -> Option<&Error> {
        self.failure.as_deref()
    }

    fn abandon(&mut self) {
        // The transaction exists only in memory, so the rollback cannot fail.
        let _outcome = self.rollback();
    }
}

impl Opened for MemoryTransaction {
    fn opening(&self) -> &Opening {
        &self.inner.engine.opening
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        // The rollback cannot fail, because there is nothing to undo.
        let _outcome = self.rollback();
    }
}

impl fmt::Debug for MemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id)
            .field("options", &self.options)
            .field("wrote", &self.wrote)
            .finish_non_exhaustive()
    }
}
