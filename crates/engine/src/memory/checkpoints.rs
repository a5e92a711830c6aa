//! Taking checkpoints. When they are taken is in [`crate::checkpoint_schedule`].
//!
//! A checkpoint stops no transaction. It (1) keeps tombstones from being collected, (2) takes down
//! the end of each stream, behind a barrier, (3) writes the newest decided version of every record
//! of every table, with its timestamp, waiting for undecided ones, (4) makes everything appended so
//! far durable, (5) writes its manifest, (6) names itself in the control file, and (7) trims the
//! streams to the ends of step 2 and removes the former checkpoint's files, unless they are being
//! copied. It is no snapshot: rows are of different times.
//!
//! Invariants:
//!
//! 1. A transaction whose record lies below what was noted had its versions in place before that,
//!    undecided at least: so (3) meets them, or newer ones. Everything else is in what is kept of
//!    the log. Whatever is in both is applied by timestamp, so once or twice is the same.
//! 2. A key deleted by such a transaction leaves its tombstone, with a timestamp, which (3) writes
//!    (because of (1)): no older version that is in what is kept of another stream brings it back.
//! 3. A version that (3) saw is durable with all it depends on before (6), or there is no
//!    checkpoint: no lost transaction is in one.
//!
//! A crash before (6) leaves the former checkpoint with all of the log it needs; a crash after it
//! leaves more log and files than needed. A failure before (6) leaves no files of the attempt: on a
//! full device they would keep the room that commits need.

use super::checkpoint::{Manifest, PARTS_MAX, PartWriter, Row as FileRow};
use super::engine::Engine;
use super::store::{Key, Row, Table};
use crate::Lsn;
use crate::checkpoint_schedule::{CheckpointSchedule, TakesCheckpoints};
use crate::control::Shutdown;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::latch::Mutex;
use crate::opening::Opening;
use crate::pause;
use katydid_wal::{Background, Log, Stream};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for one undecided version; then the checkpoint is given up, and taken later.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Least part, one in this number, that the log which the next opening would read is of what rows
/// take in memory, for closing to take a checkpoint.
const LOG_SHARE: u64 = 16;

/// The part of the log that is in no checkpoint.
#[derive(Debug)]
pub(crate) struct Uncovered {
    /// In each stream, its end when the last checkpoint was taken or the database opened. Written
    /// under the schedule's turn; relaxed, a hint.
    last: Box<[AtomicU64]>,
    /// True if opening has read records that are in no checkpoint. A hint, relaxed.
    replayed: AtomicBool,
}

impl Uncovered {
    pub(crate) fn new(log: &Log) -> Self {
        let last = log.streams().iter().map(|stream| AtomicU64::new(stream.reserved().get())).collect();
        Uncovered { last, replayed: AtomicBool::new(false) }
    }

    /// Opening has read records that are in no checkpoint.
    pub(crate) fn has_replayed(&self) {
        self.replayed.store(true, Ordering::Relaxed);
    }

    /// Returns whether a change is in no checkpoint.
    pub(crate) fn is_any(&self, log: &Log) -> bool {
        self.replayed.load(Ordering::Relaxed) || self.has_appended(log)
    }

    /// Returns whether a transaction was committed since the last checkpoint that this opening has
    /// taken, or since it began.
    fn has_appended(&self, log: &Log) -> bool {
        let mut ends = log.streams().iter().zip(&self.last);
        ends.any(|(log, last)| log.reserved().get() > last.load(Ordering::Relaxed))
    }

    /// A checkpoint covers each stream up to `from`.
    fn is_covered_to(&self, from: &[Lsn]) {
        for (last, from) in self.last.iter().zip(from) {
            last.store(from.get(), Ordering::Relaxed);
        }
        self.replayed.store(false, Ordering::Relaxed);
    }
}

/// Rows that are still to be written, a batch at a time.
struct Walk {
    tables: Vec<Arc<Table>>,
    from: Bound<Key>,
}

impl TakesCheckpoints for Engine {
    fn schedule(&self) -> &CheckpointSchedule {
        &self.schedule
    }

    fn checkpoint_is_due(&self) -> bool {
        let soft = self.options.advanced.log_soft_bytes / self.log.streams().len().max(1) as u64;
        self.log.streams().iter().enumerate().any(|(stream, log)| {
            let end = log.reserved();
            let is_long = match log.fullness() {
                Some(taken) => self.schedule.share.is_due(taken),
                None => end.since(log.trimmed_to()) > soft,
            };
            is_long || self.schedule.is_due(stream, end)
        })
    }

    fn checkpoint_of(&self) -> (&Opening, &str) {
        (&self.opening, &self.place)
    }

    fn write_checkpoint(&self) -> Result<()> {
        let outcome = self.take();
        if let Some(taken) = self.log.streams().iter().filter_map(Stream::fullness).max() {
            self.schedule.share.left(taken);
        }
        if outcome.is_err() {
            // Not again with every commit: when as much has come in as between two. A transaction
            // that finds the log full tries at once.
            self.set_due(&self.log.streams().iter().map(Stream::reserved).collect::<Vec<_>>());
        }
        // Tombstones were kept, and perhaps no transaction collects them later.
        self.store.collect();
        outcome
    }

    fn trimmed_bytes(&self) -> u128 {
        self.log.streams().iter().map(|log| u128::from(log.trimmed_to().get())).sum()
    }
}

impl Engine {
    fn set_due(&self, from: &[Lsn]) {
        self.schedule.set_due(from, self.options.advanced.checkpoint_bytes);
        self.schedule.wake_when_due();
    }

    /// Starts the worker, if there is to be one.
    pub(super) fn start_checkpoints(self: &Arc<Self>) -> std::io::Result<()> {
        self.set_due(&self.log.streams().iter().map(Stream::start).collect::<Vec<_>>());
        CheckpointSchedule::start(self, self.options.advanced.log.background)
    }

    /// Takes a checkpoint, if that is still needed when it is this caller's turn. Returns whether
    /// it took one.
    pub(crate) fn checkpoint_if(&self, is_needed: impl FnOnce() -> bool) -> Result<bool> {
        // A write of this engine is no call: only its commit is.
        let _visit = self.opening.visit()?;
        let _turn = self.schedule.turn.lock();
        let is_needed = is_needed();
        if is_needed {
            self.take_checkpoint()?;
        }
        Ok(is_needed)
    }

    /// Takes the last checkpoint of a closing, if that is worth it, and marks the database as
    /// closed cleanly if all is in a checkpoint.
    ///
    /// No promise needs this checkpoint: the log has everything, and the next opening reads it.
    /// What the checkpoint saves is that reading, and it costs a second copy of all rows until the
    /// former one is removed. So none is taken by an opening that has only read, nor for a log that
    /// is short beside the rows ([`LOG_SHARE`]); and if the device has no room for it, that is no
    /// failure to close. Nothing else runs.
    pub(super) fn last_checkpoint(&self) -> Result<()> {
        let _turn = self.schedule.turn.lock();
        let is_worth_it = self.uncovered.has_appended(&self.log)
            && self.log_bytes().saturating_mul(LOG_SHARE) >= self.store.used();
        if is_worth_it {
            match self.take_checkpoint() {
                Err(error) if error.is_no_space() && !self.gate.is_shut() => {}
                outcome => drop(outcome?),
            }
        }
        let shutdown = if self.uncovered.is_any(&self.log) { Shutdown::Unclean } else { Shutdown::Clean };
        if self.control.get().shutdown != shutdown {
            self.control.update(|control| control.shutdown = shutdown)?;
        }
        Ok(())
    }

    /// Keeps checkpoints from being taken, and so the log from being trimmed, until dropped.
    pub(crate) fn without_checkpoints(&self) -> impl Drop + '_ {
        self.schedule.turn.lock()
    }

    fn take(&self) -> Result<()> {
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        let _tombstones = self.store.keep_tombstones();
        let noted = self.log.streams().iter().map(|log| {
            pause::at(pause::PausePoint::StreamNoted);
            log.barrier()
        });
        let from: Vec<Lsn> = noted.collect();
        let number = self.control.get().checkpoint_number + 1;
        let greatest = self.write(number, &from).inspect_err(|_| self.folder.discard(number))?;
        self.control.update(|control| control.checkpoint_number = number)?;
        self.uncovered.is_covered_to(&from);
        self.schedule.count();
        self.set_due(&from);
        self.trimmed_stamp.fetch_max(greatest, Ordering::AcqRel);
        self.log.trim(&from)?;
        let mut keep = self.copied.numbers();
        keep.push(number);
        self.folder.remove_all_but(&keep)?;
        Ok(())
    }

    /// Writes the files of checkpoint `number`, which goes with the log from `from` on. The
    /// greatest timestamp there may be in it.
    fn write(&self, number: u64, from: &[Lsn]) -> Result<u64> {
        let writer = self.folder.begin(number)?;
        let tables = self.store.tables();
        let walk = Mutex::new(Walk { tables, from: Bound::Unbounded });
        let threads = match self.options.advanced.log.background {
            Background::Caller => 1,
            Background::Threads => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let write = || self.write_part(&walk, writer.part()?);
        let parts: Result<Vec<_>> = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads.min(PARTS_MAX))
                .filter_map(|_| {
                    let name = "katydid-part".to_owned();
                    // What cannot be helped with is done here.
                    std::thread::Builder::new().name(name).spawn_scoped(scope, write).ok()
                })
                .collect();
            let mut parts = vec![write()];
            for helper in helpers {
                match helper.join() {
                    Ok(part) => parts.push(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            parts.into_iter().collect()
        });
        let parts = parts?;
        // Invariant 3.
        self.log.sync()?;
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        let next_table = self.control.get().next_table;
        let greatest = self.store.now().get();
        writer.finish(Manifest { next_table, greatest, from: from.to_vec(), parts })?;
        Ok(greatest)
    }

    /// Takes batches and writes them until nothing is left.
    fn write_part(&self, walk: &Mutex<Walk>, mut part: PartWriter) -> Result<super::checkpoint::PartSummary> {
        let mut rows: Vec<Row> = Vec::new();
        loop {
            rows.clear();
            let Some(table) = self.next_batch(walk, &mut rows)? else { return part.finish() };
            for row in &rows {
                part.push(&FileRow {
                    table,
                    timestamp: row.timestamp.get(),
                    key: &row.key,
                    value: row.value.as_deref(),
                })?;
            }
        }
    }

    /// The next batch of rows, and its table.
    fn next_batch(&self, walk: &Mutex<Walk>, rows: &mut Vec<Row>) -> Result<Option<TableId>> {
        pause::at(pause::PausePoint::Rows);
        let mut walk = walk.lock();
        let Some(table) = walk.tables.last().cloned() else { return Ok(None) };
        let from = walk.from.as_ref().map(Key::as_slice);
        let next = self.store.rows(&table, from, WAIT_MAX, rows);
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                // The others need not go on.
                walk.tables.clear();
                return Err(self.why_not(error));
            }
        };
        match next {
            Some(fence) => walk.from = Bound::Included(fence),
            None => {
                walk.tables.pop();
                walk.from = Bound::Unbounded;
            }
        }
        Ok(Some(table.id()))
    }

    fn why_not(&self, error: Error) -> Error {
        if self.gate.is_shut() { self.poison_error() } else { error }
    }
}
