//! The whole store: its clock, its slots, its tables, and their memory limit.
//!
//! Any thread runs this code.

use super::backoff::Backoff;
use super::collect::Collector;
use super::early;
use super::limit::Limit;
use super::table::Table;
use super::unflushed::Unflushed;
use crate::cicada_options::{Contention, OldVersions};
use crate::contested::Contested;
use crate::error::{Error, Result};
use crate::ids::{TableId, TxnId};
use crate::latch::RwLock;
use crate::stat::{Latencies, WaitingTransaction};
use crate::waits::Waits;
use katydid_kernels::txn::{Clock, DurablePlaces, Slots, Source, Timestamp};
use katydid_wal::StreamLsn;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The log as the store uses it.
pub(crate) trait LogView: DurablePlaces + Send + Sync {
    /// The error of a transaction that finds a version in doubt.
    fn failure(&self) -> Error;
}

/// Settings of a store.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Maximum bytes held.
    pub(crate) memory_bytes: u64,
    /// Number of transactions that can be open at a time, at most 4,095.
    pub(crate) slots: usize,
    /// Source of time.
    pub(crate) source: Source,
    pub(crate) contention: Contention,
    pub(crate) old_versions: OldVersions,
}

impl Settings {
    /// Settings with Katydid's own rules where the papers have other rules.
    pub(crate) fn new(memory_bytes: u64, slots: usize, source: Source) -> Self {
        let (contention, old_versions) = (Contention::default(), OldVersions::default());
        Settings { memory_bytes, slots, source, contention, old_versions }
    }
}

/// The open transaction that needs the oldest versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub(crate) id: TxnId,
    pub(crate) age: Duration,
}

/// Tables in memory, and the transactions on them.
pub(crate) struct Store {
    pub(super) clock: Clock,
    pub(super) slots: Slots,
    pub(super) tables: RwLock<BTreeMap<TableId, Arc<Table>>>,
    pub(super) collector: Collector,
    pub(super) limit: Limit,
    pub(super) backoff: Backoff,
    pub(super) contention: Contention,
    /// The log records that are not durable yet; `None` if old versions do not wait for the log.
    pub(super) unflushed: Option<Unflushed>,
    pub(super) log: Arc<dyn LogView>,
    pub(super) waits: Waits,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn of(
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
            contention: settings.contention,
            unflushed: (settings.old_versions == OldVersions::UntilDurable).then(Unflushed::new),
            log,
            waits: Waits::new(),
        })
    }

    // ---- tables

    /// The table of this number; makes it if there is none.
    pub(crate) fn table(&self, id: TableId) -> Arc<Table> {
        if let Some(table) = self.find_table(id) {
            return table;
        }
        let mut tables = self.tables.write();
        tables.entry(id).or_insert_with(|| Arc::new(Table::new(id))).clone()
    }

    /// The table and key of a conflict. `holder` is the timestamp of a transaction that may be
    /// open, or zero.
    pub(super) fn contested(&self, table: TableId, key: &[u8], holder: Timestamp) -> Option<Box<Contested>> {
        let mut contested = Contested::key(self.find_table(table)?.name(), key);
        contested.holder_open = (holder != Timestamp::ZERO).then(|| self.clock.age(holder));
        Some(Box::new(contested))
    }

    /// Times that transactions have waited for other transactions.
    pub(crate) fn wait_time(&self) -> Latencies {
        self.waits.times()
    }

    /// The transactions that now wait for other transactions.
    pub(crate) fn waiting(&self) -> Vec<WaitingTransaction> {
        let waits = self.waits.under_way().into_iter();
        let waiting = waits.filter_map(|wait| {
            let holder = Timestamp::new(wait.blocker.get());
            let wanted = self.contested(wait.table, &wait.key, holder)?;
            Some(WaitingTransaction { txn: wait.txn, wanted: *wanted, blockers: vec![wait.blocker] })
        });
        waiting.collect()
    }

    pub(super) fn find_table(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.read().get(&id).cloned()
    }

    /// All tables, ordered by number so that checkpoints of the same rows have the same bytes.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.read().values().cloned().collect()
    }

    // ---- transactions

    /// Ends every present and later wait for a slot, as if the time limit of the wait were over. A
    /// transaction that begins while every slot is taken waits for one.
    pub(crate) fn end_waits(&self) {
        self.slots.shut();
    }

    /// Pauses the thread of a transaction that met a conflict and was rolled back, so that other
    /// transactions can proceed.
    pub(crate) fn pause(&self) {
        early::met_conflict();
        self.backoff.pause(&self.clock);
    }

    /// Number of pauses of transactions after a conflict.
    pub(crate) fn pauses(&self) -> u64 {
        self.backoff.pauses()
    }

    /// Notes that the record of a transaction is in the log's memory and ends at `place`.
    pub(crate) fn has_logged(&self, timestamp: Timestamp, place: StreamLsn) {
        if let Some(unflushed) = &self.unflushed {
            unflushed.add(timestamp, place);
        }
    }

    /// Notes that a transaction is about to be acknowledged. The transaction has seen or written
    /// versions up to `timestamp` ([`Validated::seen_to`]). A transaction that begins to read from
    /// now on sees these versions. No version that was replaced after the last acknowledged
    /// timestamp is collected.
    pub(crate) fn acknowledge(&self, timestamp: Timestamp) {
        self.slots.acknowledge(timestamp);
    }

    // ---- memory

    pub(super) fn charge(&self, bytes: usize) -> Result<()> {
        if self.limit.try_charge(bytes) {
            return Ok(());
        }
        self.collect();
        if self.limit.try_charge(bytes) {
            return Ok(());
        }
        if self.unflushed.is_some() {
            self.collect_unread();
            if self.limit.try_charge(bytes) {
                return Ok(());
            }
        }
        let held_by = self.oldest().filter(|_| self.collector.waiting() > 0).map(|oldest| oldest.id);
        Err(Error::MemoryFull { used: self.used(), limit: self.limit.limit(), held_by })
    }

    /// Fails with `Error::MemoryFull` if more bytes are held than the limit allows. Called at the
    /// end of recovery, which does not keep to the limit.
    pub(crate) fn check_limit(&self) -> Result<()> {
        let (used, limit) = (self.used(), self.limit.limit());
        if used > limit { Err(Error::MemoryFull { used, limit, held_by: None }) } else { Ok(()) }
    }

    /// The least of the reader's bound `bound` and the timestamps of all transactions whose records
    /// may still be appended to the log.
    pub(crate) fn in_flight_below(&self, bound: Timestamp) -> Timestamp {
        self.slots.in_flight_below(bound)
    }

    /// A timestamp below those of all later transactions.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::of(self.clock.now(), 0)
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> u64 {
        self.limit.used()
    }

    /// Number of transactions with records in the queues of the collector: records to prune, and
    /// tombstones to remove.
    pub(crate) fn uncollected(&self) -> usize {
        self.collector.waiting()
    }

    /// The open transaction that needs the oldest versions.
    pub(crate) fn oldest(&self) -> Option<Oldest> {
        let timestamp = self.slots.oldest()?;
        Some(Oldest { id: TxnId::new(timestamp.get()), age: self.clock.age(timestamp) })
    }
}
