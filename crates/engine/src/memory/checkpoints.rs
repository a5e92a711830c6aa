//! Taking checkpoints. [`crate::checkpoint_schedule`] decides when.
//!
//! A checkpoint stops no transaction. Its steps:
//!
//! - (1) keep tombstones from being collected,
//! - (2) note the end of each stream, after a barrier,
//! - (3) write the newest decided version of every record of every table, with its timestamp,
//!   waiting for undecided versions,
//! - (4) make everything appended so far durable,
//! - (5) write the manifest,
//! - (6) name the new checkpoint in the control file,
//! - (7) trim the streams to the ends of step 2, and remove the former checkpoint's files unless
//!   they are being copied.
//!
//! A checkpoint is no snapshot: its rows are of different times.
//!
//! Invariants:
//!
//! 1. A transaction whose record lies below a noted end had put its versions in place before that
//!    end was noted, though they may still be undecided. So (3) meets these versions, or newer
//!    ones. The records above the noted ends are in the part of the log that is kept. Recovery
//!    applies changes by timestamp, so a change that is in the checkpoint and in the log has no
//!    effect the second time.
//! 2. A key that was deleted by a record below a noted end has a tombstone with a timestamp. (3)
//!    writes this tombstone, because (1) keeps it. So no older version in the kept log of another
//!    stream brings the key back.
//! 3. Before (6), each version that (3) has written is durable, with all its dependencies. If (4)
//!    fails, the checkpoint is given up. So no lost transaction is in a checkpoint.
//!
//! A crash before (6) leaves the former checkpoint with all of the log that it needs; a crash after
//! (6) leaves more log and files than needed. After a failure before (6) the files of the attempt
//! are removed, because on a full device they would take the room that commits need.

use super::checkpoint::{Manifest, PARTS_MAX, PartWriter, Row as FileRow};
use super::engine::Engine;
use super::store::{Key, Row, Table};
use crate::Lsn;
use crate::checkpoint_schedule::{CheckpointSchedule, Taker, TakesCheckpoints};
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

/// Longest wait for one undecided version. After that time the checkpoint is given up, and taken
/// later.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Closing takes a checkpoint only if the log that the next opening would read has at least `1 /
/// LOG_SHARE` of the bytes that the rows take in memory.
const LOG_SHARE: u64 = 16;

/// The part of the log that is in no checkpoint.
#[derive(Debug)]
pub(crate) struct Uncovered {
    /// The end of each stream that the last checkpoint of this opening has noted (step 2). Before
    /// that checkpoint: the end of each stream at the opening. Written under
    /// `CheckpointSchedule::turn`. Relaxed, because it is a hint.
    last: Box<[AtomicU64]>,
    /// True if opening has read records that are in no checkpoint. Relaxed, because it is a hint.
    replayed: AtomicBool,
}

impl Uncovered {
    pub(crate) fn new(log: &Log) -> Self {
        let last = log.streams().iter().map(|stream| AtomicU64::new(stream.reserved().get())).collect();
        Uncovered { last, replayed: AtomicBool::new(false) }
    }

    /// Notes that opening has read records that are in no checkpoint.
    pub(crate) fn has_replayed(&self) {
        self.replayed.store(true, Ordering::Relaxed);
    }

    /// Returns whether there is a change that no checkpoint has.
    pub(crate) fn is_any(&self, log: &Log) -> bool {
        self.replayed.load(Ordering::Relaxed) || self.has_appended(log)
    }

    /// Returns whether a record was appended since the last checkpoint of this opening, or since
    /// the database was opened.
    fn has_appended(&self, log: &Log) -> bool {
        let mut ends = log.streams().iter().zip(&self.last);
        ends.any(|(log, last)| log.reserved().get() > last.load(Ordering::Relaxed))
    }

    /// Notes that a checkpoint covers each stream up to `from`.
    fn is_covered_to(&self, from: &[Lsn]) {
        for (last, from) in self.last.iter().zip(from) {
            last.store(from.get(), Ordering::Relaxed);
        }
        self.replayed.store(false, Ordering::Relaxed);
    }
}

/// The rows that are still to be written. Threads take them in batches.
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

    fn write_checkpoint(&self, _taker: Taker) -> Result<()> {
        let outcome = self.take();
        if let Some(taken) = self.log.streams().iter().filter_map(Stream::fullness).max() {
            self.schedule.share.left(taken);
        }
        if outcome.is_err() {
            // The next attempt is due after `checkpoint_bytes` of new log, and not at the next
            // commit. A transaction that finds the log full does not wait for that, and takes a
            // checkpoint at once.
            self.set_due(&self.log.streams().iter().map(Stream::reserved).collect::<Vec<_>>());
        }
        // The checkpoint has kept tombstones, and perhaps no later transaction collects them.
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

    /// Starts the worker thread, if this database has background threads.
    pub(super) fn start_checkpoints(self: &Arc<Self>) -> std::io::Result<()> {
        self.set_due(&self.log.streams().iter().map(Stream::start).collect::<Vec<_>>());
        CheckpointSchedule::start(self, self.options.advanced.log.background)
    }

    /// Waits until no other thread takes a checkpoint, and then takes one if `is_needed` returns
    /// true. Returns whether it took a checkpoint.
    pub(crate) fn checkpoint_if(&self, is_needed: impl FnOnce() -> bool) -> Result<bool> {
        // In this engine a write is no call of the opening. So this visit makes closing wait for a
        // writer that takes a checkpoint.
        let _visit = self.opening.visit()?;
        let _turn = self.schedule.turn.lock();
        let is_needed = is_needed();
        if is_needed {
            self.take_checkpoint(Taker::Caller)?;
        }
        Ok(is_needed)
    }

    /// Takes the last checkpoint of a closing if it is worth its cost. Marks the database as closed
    /// cleanly if every change is in a checkpoint.
    ///
    /// Durability does not need this checkpoint: the log has everything, and the next opening reads
    /// the log. The checkpoint saves that reading, and costs a second copy of all rows until the
    /// former one is removed. So the last checkpoint is left out if the opening has only read, or
    /// if the log is short compared with the rows ([`LOG_SHARE`]). If the device has no room for
    /// the checkpoint, closing succeeds without it. No other operation of the opening runs
    /// meanwhile.
    pub(super) fn last_checkpoint(&self) -> Result<()> {
        let _turn = self.schedule.turn.lock();
        let is_worth_it = self.uncovered.has_appended(&self.log)
            && self.log_bytes().saturating_mul(LOG_SHARE) >= self.store.used();
        if is_worth_it {
            match self.take_checkpoint(Taker::Caller) {
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

    /// Prevents checkpoints until the returned guard is dropped. Because only checkpoints trim the
    /// log, the guard also prevents trims.
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

    /// Writes the files of checkpoint `number`, which needs the log from `from` on. Returns an
    /// upper bound of the timestamps in the checkpoint.
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
                    // If no thread can be started, this thread writes the remaining rows.
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
        // For invariant 3: the written versions become durable before the control file names the
        // checkpoint.
        self.log.sync()?;
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        let next_table = self.control.get().next_table;
        let greatest = self.store.now().get();
        writer.finish(Manifest { next_table, greatest, from: from.to_vec(), parts })?;
        Ok(greatest)
    }

    /// Takes batches of rows and writes them until none is left.
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

    /// Fills `rows` with the next batch, and returns its table; `None` at the end.
    fn next_batch(&self, walk: &Mutex<Walk>, rows: &mut Vec<Row>) -> Result<Option<TableId>> {
        pause::at(pause::PausePoint::Rows);
        let mut walk = walk.lock();
        let Some(table) = walk.tables.last().cloned() else { return Ok(None) };
        let from = walk.from.as_ref().map(Key::as_slice);
        let next = self.store.rows(&table, from, WAIT_MAX, rows);
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                // The other threads find no more rows, and end.
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
