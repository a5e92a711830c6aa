//! Restart: recovery reads the last checkpoint, then the log. Recovery applies the log's records
//! while the log is opened, so the log is read only once.
//!
//! The thread that opens the database runs this code. Helper threads on the other processors read
//! the checkpoint and the log with it, unless the options forbid background threads. No other
//! thread can see the store before recovery has ended. `docs/recovery.md` argues why the outcome is
//! correct. Invariants:
//!
//! 1. Recovery writes no file. All that it reads is durable, and the log decides which records
//!    survive (`Log::open_replaying`).
//! 2. A version or deletion is applied only if it is newer than the present version of its key. So
//!    the outcome does not depend on the order in which records are read, or on how often a record
//!    is read.
//! 3. The clock continues above every timestamp in the checkpoint and in the log, including those
//!    of records that are dropped.
//!
//! A crash during recovery has no effect, except that the log's streams have counted one more
//! opening.

use super::checkpoint::{CheckpointFolder, CheckpointReader, Manifest, PartSummary, Row};
use super::log_record::{self, LoggedWrite};
use super::store::{FoundIn, Key, Loader, LogView, RecoveredVersion, Settings, Store, Timestamp};
use super::threads::{on_threads, threads};
use crate::Lsn;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::latch::Mutex;
use crate::options::{Phase, RecoveryProgress};
use katydid_device::{Directory, Gate, Watch};
use katydid_wal::{
    Background, Batch, Log, OpenError, Options as LogOptions, Replay, ReplayError, ReplayReport,
};
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Result of recovery.
pub(super) struct Recovered {
    pub(super) store: Arc<Store>,
    /// The tables by name.
    pub(super) tables: BTreeMap<String, TableId>,
    /// Exclusive limit of the table ids in use.
    pub(super) next_table: u32,
    /// Upper bound of the timestamps in the last checkpoint; zero if there is none.
    pub(super) checkpointed: u64,
}

/// Progress of reading a checkpoint, reported to the program that opens the database.
struct CheckpointProgress<'a> {
    receiver: Option<&'a RecoveryProgress>,
    total: u64,
    done: AtomicU64,
}

impl CheckpointProgress<'_> {
    fn more(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(receiver) = self.receiver {
            receiver(Phase::Restore, done.min(self.total), self.total);
        }
    }
}

/// Bytes of a checkpoint between two reports of progress.
const STEP_BYTES: u64 = 4 << 20;
/// Recovers a database. The caller calls `checkpoint` (not for a new database), then `open_log`,
/// then `finish`.
pub(super) struct Recovery {
    loader: Loader,
    background: Background,
    receiver: Option<RecoveryProgress>,
    /// Manifest of the last checkpoint.
    manifest: Option<Manifest>,
    /// Transactions with a greater stamp are not applied; `None` if all transactions are applied.
    until: Option<Timestamp>,
    /// Position from which each stream of the log is read. `None` in a database that is being
    /// created: each stream is then read from its start.
    from: Option<Vec<Lsn>>,
}

impl Recovery {
    /// A recovery that has not read anything yet.
    pub(super) fn new(
        settings: Settings,
        background: Background,
        receiver: Option<RecoveryProgress>,
    ) -> Self {
        let loader = Loader::new(settings);
        Recovery { loader, background, receiver, manifest: None, until: None, from: None }
    }

    /// Leaves out transactions with a greater stamp than `until`.
    pub(super) fn until(self, until: Timestamp) -> Self {
        Recovery { until: Some(until), ..self }
    }

    /// Reads checkpoint `number` of a database whose log has `streams` streams. Number 0 means that
    /// the database has no checkpoint, so the log must reach back to its first byte. If the log was
    /// trimmed nevertheless, the control file has lost the slot that named a checkpoint, and the
    /// replay of the log fails.
    pub(super) fn checkpoint(&mut self, folder: &CheckpointFolder, number: u64, streams: u16) -> Result<()> {
        if number == 0 {
            self.from = Some(vec![Lsn::ZERO; usize::from(streams)]);
            return Ok(());
        }
        let manifest = self.load_checkpoint(folder, number)?;
        if manifest.from.len() != usize::from(streams) {
            return Err(Error::Corrupt {
                place: format!("checkpoint {number}"),
                page: None,
                finding: format!("it has {} streams, the log has {streams}", manifest.from.len()),
            });
        }
        self.from = Some(manifest.from.clone());
        self.manifest = Some(manifest);
        Ok(())
    }

    fn load_checkpoint(&self, folder: &CheckpointFolder, number: u64) -> Result<Manifest> {
        let reader = folder.read(number)?;
        let manifest = reader.manifest().clone();
        let total = manifest.parts.iter().map(|part| part.bytes).sum();
        let progress =
            CheckpointProgress { receiver: self.receiver.as_ref(), total, done: AtomicU64::new(0) };
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        on_threads(threads(self.background), manifest.parts.len(), &|at| {
            if failed.lock().is_none()
                && let Err(error) = self.load_part(&reader, manifest.parts[at], &progress)
            {
                failed.lock().get_or_insert(error);
            }
        });
        failed.into_inner().map_or(Ok(manifest), Err)
    }

    fn load_part(
        &self,
        reader: &CheckpointReader,
        summary: PartSummary,
        progress: &CheckpointProgress<'_>,
    ) -> Result<()> {
        let mut part = reader.part(summary)?;
        let mut bytes = 0;
        while let Some(rows) = part.next_rows()? {
            let mut found = Vec::with_capacity(rows.len());
            for Row { table, key, value, timestamp } in rows {
                bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
                found.push(RecoveredVersion { table, key, value, timestamp: Timestamp::new(timestamp) });
            }
            self.loader.load(FoundIn::Checkpoint, &mut found)?;
            if bytes >= STEP_BYTES {
                progress.more(bytes);
                bytes = 0;
            }
        }
        progress.more(bytes);
        Ok(())
    }

    /// Opens the log and applies the records that the checkpoint may lack. The inner result is
    /// about the records. A caller that cannot know whether the log belongs to this database checks
    /// the log's id before it uses that result, because the records of a foreign log mean nothing.
    pub(super) fn open_log(
        &self,
        directory: Arc<dyn Directory>,
        options: LogOptions,
        gate: Gate,
        watch: Watch,
    ) -> std::result::Result<(Log, Result<ReplayReport>), OpenError> {
        let progress = |done: u64, total: u64| {
            if let Some(receiver) = &self.receiver {
                receiver(Phase::Redo, done, total);
            }
        };
        let from = self.from.as_deref();
        let visit = |batch: &Batch| self.apply(batch);
        let replay = Replay { from, visit: &visit, progress: &progress };
        let (log, outcome) = Log::open_replaying(directory, options, gate, watch, replay)?;
        let outcome = outcome.map_err(|error| match error {
            ReplayError::Read { source, .. } => source.into(),
            ReplayError::Visit(error) => error,
            other => Error::Corrupt { place: "the log".to_owned(), page: None, finding: other.to_string() },
        });
        Ok((log, outcome))
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        let mut found = Vec::with_capacity(batch.iter().len());
        for record in batch.iter() {
            let place = || format!("log record at {} in stream {}", record.first, record.position.stream);
            if record.kind != log_record::WRITES {
                return Err(log_record::Malformed("its kind is unknown").at(place()));
            }
            let timestamp = Timestamp::new(record.stamp.get());
            if self.until.is_some_and(|until| timestamp > until) {
                continue;
            }
            for write in log_record::decode(record.payload) {
                let LoggedWrite { table, key, value } = write.map_err(|malformed| malformed.at(place()))?;
                found.push(RecoveredVersion { table, key, value, timestamp });
            }
        }
        self.loader.load(FoundIn::Log, &mut found)
    }

    /// Returns the store and the tables of its catalog. `report` is the log's report of the replay.
    pub(super) fn finish(self, report: &ReplayReport, log: Arc<dyn LogView>) -> Result<Recovered> {
        let Recovery { loader, background, manifest, .. } = self;
        let checkpointed = manifest.as_ref().map_or(0, |manifest| manifest.greatest);
        let greatest = checkpointed.max(report.stamp_max.get());
        let store = loader.finish(Timestamp::new(greatest), threads(background), log);
        let entries = catalog_of(&store, Duration::ZERO)?.into_iter();
        let tables = entries.map(|entry| (entry.name, entry.table)).collect();
        forget_dropped(&store, &tables);
        store.check_limit()?;
        let next_table = tables.values().map(|id| id.get() + 1).max().unwrap_or(1);
        let next_table = next_table.max(manifest.map_or(1, |manifest| manifest.next_table));
        Ok(Recovered { store, tables, next_table, checkpointed })
    }
}

/// A table in the catalog.
pub(super) struct CatalogEntry {
    pub(super) name: String,
    pub(super) table: TableId,
    /// Timestamp of the transaction that gave the table this name.
    pub(super) since: Timestamp,
}

/// Reads the tables from the catalog's rows. Waits at most `at_most` for each undecided version.
pub(super) fn catalog_of(store: &Store, at_most: Duration) -> Result<Vec<CatalogEntry>> {
    let table = store.table(TableId::CATALOG);
    let mut tables = Vec::new();
    let mut from = Some(Bound::Unbounded);
    let mut rows = Vec::new();
    while let Some(bound) = from {
        from =
            store.rows(&table, bound.as_ref().map(Key::as_slice), at_most, &mut rows)?.map(Bound::Included);
    }
    for row in rows {
        let Some(value) = row.value else { continue };
        let malformed = || Error::Corrupt {
            place: "the catalog".to_owned(),
            page: None,
            finding: format!("the entry of table {:?} is malformed", String::from_utf8_lossy(&row.key)),
        };
        let id = <[u8; 4]>::try_from(&*value).map_err(|_| malformed())?;
        let name = String::from_utf8(row.key.to_vec()).map_err(|_| malformed())?;
        let (table, since) = (TableId::new(u32::from_le_bytes(id)), row.timestamp);
        tables.push(CatalogEntry { name, table, since });
    }
    Ok(tables)
}

/// Forgets the rows of tables that are not in the catalog.
fn forget_dropped(store: &Store, tables: &BTreeMap<String, TableId>) {
    let known: HashSet<TableId> = tables.values().copied().chain([TableId::CATALOG]).collect();
    for table in store.tables() {
        if !known.contains(&table.id()) {
            store.forget(table.id());
        }
    }
}
