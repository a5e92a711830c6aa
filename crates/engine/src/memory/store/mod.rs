//! The memory engine's store: optimistic, multi-version concurrency control after Cicada, on the clock, slots and statuses of `katydid-kernels`. Nothing here knows files or the log but
//! through [`LogView`].
//!
//! A transaction takes a timestamp when it begins (`Clock`), reads the versions below it and keeps what it writes to itself
//! (`transaction`). At its end its versions are put in place and what it read is made sure of (`validate`); then whoever called
//! gives it a place in the log, and decides its status (`TxnStatus`). Who only reads finds a bound below which nothing changes any more
//! (`Slots`). The order of all transactions is that of their timestamps.
//!
//! Ranks within this engine, below transaction-level waits: 5 queues of the collector; 6 an index's directory, then one leaf, then a shard
//! of its hash table; 7 the map of tables; 8 a record's chain. Nothing is waited for under any of them, and values are neither copied nor
//! dropped under the last where that can be helped.

mod backoff;
mod collect;
mod index;
mod limit;
mod load;
mod record;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod transaction_scan;
mod transaction_writes;
mod validate;
mod value;

pub(crate) use load::{Found, Loader, Row};
pub(crate) use record::{Key, Value};
pub(crate) use transaction::{Mark, Running};
pub(crate) use transaction_scan::Scan;
pub(crate) use validate::Validated;

use crate::contested::Contested;
use crate::error::{Error, Result};
use crate::ids::{TableId, TxnId};
use crate::latch::{Mutex, RwLock};
#[cfg(test)]
use crate::options::Access;
#[cfg(test)]
use crate::sharded::ShardRef;
use backoff::Backoff;
use collect::Collector;
use index::Index;
#[cfg(test)]
pub(crate) use katydid_kernels::txn::HandClock;
use katydid_kernels::txn::{Clock, DurablePlaces, Slots};
pub(crate) use katydid_kernels::txn::{Deadline, SLOTS_MAX, Source, Timestamp};
use limit::Limit;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the store asks of the log.
pub(crate) trait LogView: DurablePlaces + Send + Sync {
    /// What to tell who meets a version of which nobody knows whether it is committed.
    fn failure(&self) -> Error;
}

/// A table: its number and its keys.
pub(crate) struct Table {
    id: TableId,
    index: Index,
    /// For errors. A leaf latch; set when the table gets its handle and when it is renamed.
    name: Mutex<Arc<str>>,
}

impl Table {
    fn new(id: TableId) -> Self {
        Table { id, index: Index::new(id), name: Mutex::default() }
    }

    /// Its name, for errors.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }

    /// From now on errors call it `name`.
    pub(crate) fn set_name(&self, name: &str) {
        *self.name.lock() = name.into();
    }

    /// Its number.
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// Keys, those included that were deleted and are not yet forgotten.
    pub(crate) fn records(&self) -> u64 {
        self.index.records()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("id", &self.id).finish_non_exhaustive()
    }
}

/// How a store is made.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Bytes held at most.
    pub(crate) memory_bytes: u64,
    /// Transactions open at a time, 4,095 at most.
    pub(crate) slots: usize,
    /// Where time comes from.
    pub(crate) source: Source,
}

/// The open transaction that needs the oldest versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub(crate) id: TxnId,
    pub(crate) age: Duration,
}

/// Tables in memory, and the transactions on them.
pub(crate) struct Store {
    clock: Clock,
    slots: Slots,
    tables: RwLock<BTreeMap<TableId, Arc<Table>>>,
    collector: Collector,
    limit: Limit,
    backoff: Backoff,
    log: Arc<dyn LogView>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl Store {
    /// Without tables.
    #[cfg(test)]
    pub(crate) fn new(settings: Settings, log: Arc<dyn LogView>) -> Arc<Self> {
        Loader::new(settings).finish(Timestamp::ZERO, 1, log)
    }

    fn of(
        settings: Settings,
        tables: BTreeMap<TableId, Arc<Table>>,
        limit: Limit,
        log: Arc<dyn LogView>,
    ) -> Arc<Self> {
        Arc::new(Store {
            clock: Clock::new(settings.source),
            slots: Slots::new(settings.slots),
            tables: RwLock::new(tables),
            collector: Collector::new(),
            limit,
            backoff: Backoff::new(),
            log,
        })
    }

    // ---- tables

    /// The table of this number, made if there is none.
    pub(crate) fn table(&self, id: TableId) -> Arc<Table> {
        if let Some(table) = self.find_table(id) {
            return table;
        }
        let mut tables = self.tables.write();
        tables.entry(id).or_insert_with(|| Arc::new(Table::new(id))).clone()
    }

    /// What a conflict at a key was about; `holder` may be open, or is zero.
    fn contested(&self, table: TableId, key: &[u8], holder: Timestamp) -> Option<Box<Contested>> {
        let mut contested = Contested::key(self.find_table(table)?.name(), key);
        contested.holder_open = (holder != Timestamp::ZERO).then(|| self.clock.age(holder));
        Some(Box::new(contested))
    }

    fn find_table(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.read().get(&id).cloned()
    }

    /// All tables, by their numbers: a checkpoint of the same rows has the same bytes.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.read().values().cloned().collect()
    }

    // ---- transactions

    /// See [`Running::begin`].
    #[cfg(test)]
    fn begin(self: &Arc<Self>, access: Access, lock_wait: Duration) -> Result<Running> {
        Running::begin(ShardRef::new(self.clone()), access, lock_wait)
    }

    /// Ends the waits of transactions that begin while too many are open, now and from now on.
    pub(crate) fn end_waits(&self) {
        self.slots.shut();
    }

    /// A transaction is about to be acknowledged that has seen or written up to `timestamp` ([`Validated::seen_to`]): who begins to read from
    /// now on sees that too. What is never acknowledged is never collected.
    pub(crate) fn acknowledge(&self, timestamp: Timestamp) {
        self.slots.acknowledge(timestamp);
    }

    // ---- memory

    fn charge(&self, bytes: usize) -> Result<()> {
        if self.limit.try_charge(bytes) {
            return Ok(());
        }
        self.collect();
        if self.limit.try_charge(bytes) {
            return Ok(());
        }
        let held_by = self.oldest().filter(|_| self.collector.waiting() > 0).map(|oldest| oldest.id);
        Err(Error::MemoryFull { used: self.used(), limit: self.limit.limit(), held_by })
    }

    /// The least of `bound`, which a reader has got, and the timestamps of transactions that may still get a place in the log.
    pub(crate) fn in_flight_below(&self, bound: Timestamp) -> Timestamp {
        self.slots.in_flight_below(bound)
    }

    /// A timestamp above which all later transactions are.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::of(self.clock.now(), 0)
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> u64 {
        self.limit.used()
    }

    /// Transactions whose replaced versions have not been cut off yet.
    pub(crate) fn uncollected(&self) -> usize {
        self.collector.waiting()
    }

    /// The open transaction that needs the oldest versions.
    pub(crate) fn oldest(&self) -> Option<Oldest> {
        let timestamp = self.slots.oldest()?;
        Some(Oldest { id: TxnId::new(timestamp.get()), age: self.clock.age(timestamp) })
    }
}
