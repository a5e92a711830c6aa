//! Restart: the last checkpoint, then the log, each read on all processors.
//!
//! Runs on the thread that opens the database, before anybody else sees it. Why the outcome is right is argued in `docs/recovery.md`.
//! Invariants:
//!
//! 1. Nothing is written. What is read is durable, and the log knows which records survive (`ParallelLog::replay`).
//! 2. A version is applied if it is newer than what is there, a deletion too: so the order of reading does not matter, nor how often a
//!    record is read.
//! 3. The clock goes on above every timestamp ever used, those included of records that did not survive.
//!
//! A crash during recovery changes nothing, but that the log's streams have begun a new incarnation.

use super::checkpoint::{CheckpointFolder, Manifest};
use super::log_record;
use super::store::{Key, Store, Table, Timestamp};
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::options::RecoveryProgress;
use crate::{Lsn, Phase};
use katydid_wal::{Background, Log, ParallelLog, ReplayError, ReplayReport, Replayed};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What there is when all is read.
pub(super) struct Recovered {
    /// Tables by name.
    pub(super) tables: BTreeMap<String, TableId>,
    /// Every table id in use is below this.
    pub(super) next_table: u32,
    /// What the log had.
    pub(super) report: ReplayReport,
}

/// How far it is, told to whoever opens the database.
struct Told<'a> {
    receiver: Option<&'a RecoveryProgress>,
    phase: Phase,
    total: u64,
    done: AtomicU64,
}

impl Told<'_> {
    fn more(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(receiver) = self.receiver {
            receiver(self.phase, done.min(self.total), self.total);
        }
    }
}

/// Bytes of a checkpoint between two reports of progress.
const STEP_BYTES: u64 = 4 << 20;

/// Reads checkpoint `number` (zero: there is none) and the log into an empty store.
pub(super) fn recover(
    store: &Store,
    folder: &CheckpointFolder,
    number: u64,
    log: &ParallelLog,
    background: Background,
    receiver: Option<&RecoveryProgress>,
) -> Result<Recovered> {
    let manifest = match number {
        0 => None,
        number => Some(load_checkpoint(store, folder, number, background, receiver)?),
    };
    let starts: Vec<Lsn> = log.streams().iter().map(Log::start).collect();
    let from = match &manifest {
        Some(manifest) if manifest.from.len() == starts.len() => manifest.from.clone(),
        Some(manifest) => {
            return Err(Error::Corrupt {
                place: format!("checkpoint {number}"),
                page: None,
                finding: format!("it is of {} streams, the log has {}", manifest.from.len(), starts.len()),
            });
        }
        None => starts,
    };
    let report = replay(store, log, &from, receiver)?;
    let greatest = manifest.as_ref().map_or(0, |manifest| manifest.greatest).max(report.timestamp_max);
    let tables = catalog(store)?;
    store.loaded(Timestamp::new(greatest));
    forget_dropped(store, &tables);
    let next_table = tables.values().map(|id| id.get() + 1).max().unwrap_or(1);
    let next_table = next_table.max(manifest.map_or(1, |manifest| manifest.next_table));
    Ok(Recovered { tables, next_table, report })
}

fn load_checkpoint(
    store: &Store,
    folder: &CheckpointFolder,
    number: u64,
    background: Background,
    receiver: Option<&RecoveryProgress>,
) -> Result<Manifest> {
    let reader = folder.read(number)?;
    let manifest = reader.manifest().clone();
    let total = manifest.parts.iter().map(|part| part.bytes).sum();
    let told = Told { receiver, phase: Phase::Restore, total, done: AtomicU64::new(0) };
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let load = || {
        while failed.lock().is_none() {
            let Some(summary) = manifest.parts.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let outcome = reader.part(*summary).and_then(|mut part| {
                let mut table = store.table(TableId::CATALOG);
                let mut bytes = 0;
                while let Some(row) = part.next_row()? {
                    if table.id() != row.table {
                        table = store.table(row.table);
                    }
                    store.load(&table, row.key, row.value, Timestamp::new(row.timestamp))?;
                    bytes += (row.key.len() + row.value.map_or(0, <[u8]>::len)) as u64;
                    if bytes >= STEP_BYTES {
                        told.more(bytes);
                        bytes = 0;
                    }
                }
                told.more(bytes);
                Ok(())
            });
            if let Err(error) = outcome {
                failed.lock().get_or_insert(error);
            }
        }
    };
    let threads = match background {
        Background::Caller => 1,
        Background::Threads => std::thread::available_parallelism().map_or(1, usize::from),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(manifest.parts.len()) {
            let name = "katydid-restart".to_owned();
            // What cannot be helped with is done here.
            let _helper = std::thread::Builder::new().name(name).spawn_scoped(scope, load);
        }
        load();
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(manifest),
    }
}

fn replay(
    store: &Store,
    log: &ParallelLog,
    from: &[Lsn],
    receiver: Option<&RecoveryProgress>,
) -> Result<ReplayReport> {
    let total =
        log.streams().iter().zip(from).map(|(log, from)| log.reserved().get().saturating_sub(from.get()));
    let told = Told { receiver, phase: Phase::Redo, total: total.sum(), done: AtomicU64::new(0) };
    let visit = |record: Replayed<'_>| apply(store, &record);
    log.replay(from, &visit, &|bytes| told.more(bytes)).map_err(|error| match error {
        ReplayError::Read { source, .. } => source.into(),
        ReplayError::Visit(error) => error,
        other => Error::Corrupt { place: "the log".to_owned(), page: None, finding: other.to_string() },
    })
}

fn apply(store: &Store, record: &Replayed<'_>) -> Result<()> {
    let place = || format!("log record at {} in stream {}", record.first, record.place.stream);
    if record.kind != log_record::WRITES {
        return Err(log_record::Malformed("its kind is unknown").at(place()));
    }
    let timestamp = Timestamp::new(record.timestamp);
    let mut table = None;
    for write in log_record::decode(record.payload) {
        let write = write.map_err(|malformed| malformed.at(place()))?;
        if table.as_ref().is_none_or(|table: &Arc<Table>| table.id() != write.table) {
            table = Some(store.table(write.table));
        }
        let Some(table) = &table else { continue };
        store.load(table, write.key, write.value, timestamp)?;
    }
    Ok(())
}

/// Tables by name, as the catalog's rows say.
fn catalog(store: &Store) -> Result<BTreeMap<String, TableId>> {
    let table = store.table(TableId::CATALOG);
    let mut tables = BTreeMap::new();
    let mut from = Some(Bound::Unbounded);
    let mut rows = Vec::new();
    while let Some(bound) = from {
        from = store
            .rows(&table, bound.as_ref().map(Key::as_slice), Duration::ZERO, &mut rows)?
            .map(Bound::Included);
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
        tables.insert(name, TableId::new(u32::from_le_bytes(id)));
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
