//! Loading the store in recovery, reading rows for checkpoints, and forgetting a table.

use super::collect::version_bytes;
use super::found::{Bytes, RecoveredVersion};
use super::index::Reached;
use super::limit::{Limit, RECORD_BYTES};
use super::record::{ConflictCause, Key, Record, Value};
use super::state::{LogView, Settings, Store};
use super::table::Table;
use crate::direction::Direction;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{TableId, TxnId};
use crate::latch::{Mutex, RwLock};
use katydid_kernels::txn::Timestamp;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The newest decided version of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) timestamp: Timestamp,
    /// The value; `None` if the key was deleted.
    pub(crate) value: Option<Value>,
}

/// Source of versions that recovery has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundIn {
    Checkpoint,
    Log,
}

/// Takes the versions that recovery reads, from any thread and in any order, keeps the newest of
/// each key, and then becomes a store.
///
/// No transaction uses a loader, so keys are put in order only once, at the end (`index/ordering`).
///
/// While versions are loaded, the store may have rows that the log deletes, or whose table the log
/// drops. Such rows say nothing about the memory that the database needs. So the limit is compared
/// with the rows that are left at the end ([`Store::check_limit`]). Before that, the rows of the
/// checkpoint may take twice the limit, because a checkpoint is taken while transactions run, and
/// has rows of different times. The rows in the log are bounded by the length of the log.
#[derive(Debug)]
pub(crate) struct Loader {
    pub(super) settings: Settings,
    pub(super) tables: RwLock<BTreeMap<TableId, Arc<Table>>>,
    pub(super) limit: Limit,
    /// Records of deleted keys, some of which may have a value again. A leaf latch.
    deleted: Mutex<Vec<Arc<Record>>>,
}

impl Loader {
    /// A loader of a store with these settings.
    pub(crate) fn new(settings: Settings) -> Self {
        let limit = Limit::new(settings.memory_bytes.saturating_mul(2));
        Loader { settings, tables: RwLock::default(), limit, deleted: Mutex::default() }
    }

    /// Loads versions of one source. Loading many versions in one call is cheaper.
    ///
    /// # Errors
    /// `Error::MemoryFull` if the rows of the checkpoint take more than twice the limit.
    pub(crate) fn load(&self, source: FoundIn, found: &mut [RecoveredVersion<'_>]) -> Result<()> {
        found.sort_by_key(|found| found.table);
        let mut bytes = Bytes::default();
        let mut deleted = Vec::new();
        for found in found.chunk_by(|left, right| left.table == right.table) {
            self.table(found[0].table).index.load(found, &mut bytes, &mut deleted);
        }
        if !deleted.is_empty() {
            self.deleted.lock().append(&mut deleted);
        }
        // Only the difference between loaded and replaced bytes is charged, because a log may have
        // any number of versions of a key.
        if bytes.freed > bytes.held {
            self.limit.release(bytes.freed - bytes.held);
            return Ok(());
        }
        let more = bytes.held - bytes.freed;
        match source {
            FoundIn::Log => self.limit.charge(more),
            FoundIn::Checkpoint if self.limit.try_charge(more) => {}
            FoundIn::Checkpoint => {
                let (used, limit) = (self.limit.used(), self.settings.memory_bytes);
                return Err(Error::MemoryFull { used, limit, held_by: None });
            }
        }
        Ok(())
    }

    fn table(&self, id: TableId) -> Arc<Table> {
        let known = self.tables.read().get(&id).cloned();
        known.unwrap_or_else(|| {
            let mut tables = self.tables.write();
            tables.entry(id).or_insert_with(|| Arc::new(Table::new(id))).clone()
        })
    }

    /// Makes the store, whose keys `threads` threads put in order. Every timestamp up to `greatest`
    /// may have been used, so the clock continues from `greatest`.
    pub(crate) fn finish(self, greatest: Timestamp, threads: usize, log: Arc<dyn LogView>) -> Arc<Store> {
        for table in self.tables.read().values() {
            table.index.put_in_order(threads);
        }
        let Loader { settings, tables, limit, deleted } = self;
        let limit = limit.limited_to(settings.memory_bytes);
        let store = Store::of(settings, tables.into_inner(), limit, log);
        store.clock.set_base(greatest);
        store.slots.set_base(greatest);
        for record in deleted.into_inner() {
            // Records of keys that have a value again are not removed.
            if let Some(table) = store.find_table(record.table) {
                table.index.remove_if(&record, |chain| chain.is_deleted() && chain.can_go(Timestamp::MAX));
            }
        }
        store
    }
}

impl Store {
    /// Removes a table with all its records. The caller ensures that no transaction uses the table
    /// any more: a transaction that finds a removed record would look its key up again without end.
    /// A version may still be pending: a transaction stops using its tables when its record is
    /// appended, and may hide its versions until it is durable.
    pub(crate) fn forget(&self, id: TableId) {
        let Some(table) = self.tables.write().remove(&id) else { return };
        table.for_each(|record| {
            let versions = record.chain().take_all();
            let bytes: usize = versions.map(|version| version_bytes(&version)).sum();
            self.limit.release(bytes + record.key.len() + RECORD_BYTES);
        });
    }

    /// Adds to `rows` one batch of a table's rows from `from` on, including tombstones. Returns the
    /// key at which the next batch begins. Each row is the newest version of its record. If that
    /// version is undecided, the call waits for the version's transaction.
    ///
    /// # Errors
    /// `Error::Conflict` if a wait takes longer than `at_most`; the call can then be repeated. The
    /// log's failure, if a version is in doubt. After an error no row was added.
    pub(crate) fn rows(
        &self,
        table: &Table,
        from: Bound<&[u8]>,
        at_most: Duration,
        rows: &mut Vec<Row>,
    ) -> Result<Option<Key>> {
        let mut records: Vec<Arc<Record>> = Vec::new();
        let reached = table.index.walk(from, Bound::Unbounded, Direction::Up, &mut records);
        let before = rows.len();
        for record in records {
            match self.newest(&record, at_most) {
                Ok(row) => rows.extend(row),
                Err(error) => {
                    rows.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(match reached {
            Reached::End => None,
            Reached::Fence(fence) => Some(fence),
        })
    }

    fn newest(&self, record: &Record, at_most: Duration) -> Result<Option<Row>> {
        loop {
            let cause = match record.chain().newest() {
                Ok(version) => {
                    return Ok(version.map(|version| Row {
                        key: record.key.clone(),
                        timestamp: version.wts,
                        value: version.value.clone(),
                    }));
                }
                Err(cause) => cause,
            };
            let ConflictCause::Pending(status) = cause else { return Err(self.log.failure()) };
            if status.wait(at_most, self.log.as_ref()).is_none() {
                let holder = Some(TxnId::new(status.timestamp().get()));
                let contested = self.contested(record.table, &record.key, status.timestamp());
                let (victim, kind) = (TxnId::NONE, ConflictKind::Timeout);
                return Err(Error::Conflict { victim, holder, kind, contested });
            }
        }
    }
}

impl Table {
    fn for_each(&self, mut visit: impl FnMut(&Arc<Record>)) {
        let mut from = Bound::Unbounded;
        loop {
            let mut records: Vec<Arc<Record>> = Vec::new();
            let lower = from.as_ref().map(Key::as_slice);
            let reached = self.index.walk(lower, Bound::Unbounded, Direction::Up, &mut records);
            records.iter().for_each(&mut visit);
            match reached {
                Reached::End => return,
                Reached::Fence(fence) => from = Bound::Included(fence),
            }
        }
    }
}
