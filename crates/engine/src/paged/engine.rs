//! The parts of an open paged database, and the operations that several of them need.
//!
//! Runs on any thread. `open` decides the order in which the parts are created; this module does no
//! I/O of its own. Invariants:
//!
//! 1. After the gate has shut nothing is written. Changes that are only in memory and can no longer
//!    be undone stay locked: the locks of their transactions are kept until the database is opened
//!    again (`leaked_locks`).
//! 2. The gate is shut after a thread has found a bug, or has panicked, in the middle of a change
//!    (`poison`). Pages in memory may then be wrong, so not even reads begin.
//! 3. A transaction whose rollback failed keeps its locks and its slot: no transaction sees its
//!    changes, and the log retains the records that undo them. While the gate is open, the rollback
//!    is tried again until it succeeds (`unfinished`); only then are the locks released. After the
//!    gate has shut, recovery undoes the transaction.

use crate::Lsn;
use crate::checkpoint_schedule::CheckpointSchedule;
use crate::control::ControlFile;
use crate::durability_waiter::{DurabilityWaiter, OnDurable};
use crate::error::{ConflictKind, Error, Result};
use crate::events;
use crate::latch::Mutex;
use crate::lock::{Conflict, Locks, TxnLocks};
use crate::opening::{Opening, Visit};
use crate::options::Options;
use crate::paged::active::ActiveTable;
use crate::paged::cache_size::CacheSize;
use crate::paged::committed::Committed;
use crate::paged::log_room::Waiter;
use crate::paged::pool::{Pool, WalBarrier};
use crate::paged::space::Space;
use crate::paged::spread::Spread;
use crate::paged::tree::{Chain, Pages, read_chain};
use crate::paged::undo_room::UndoRoom;
use crate::paged::unfinished::Unfinished;
use crate::paged::views::{TxnImages, Unshown, Versions, View, Views};
use crate::paged::writer::Writer;
use crate::sharded::Metrics;
use crate::stat::Pin;
use crate::waits::Waits;
use katydid_device::{Cause, Gate, Verb, Watch};
use katydid_wal::{Append, AppendClass, Appended, Dependencies, Durability, Kind, Log, Stream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A commit that is not yet as durable as it asked, and the locks that its transaction keeps until
/// then.
#[derive(Debug)]
pub(crate) struct PendingLocks {
    pub(crate) committed: Committed,
    pub(crate) locks: TxnLocks,
    /// Before-images that views read instead of the transaction's changes until then.
    pub(crate) images: Option<Arc<TxnImages>>,
}

/// Stage of a transaction that wants to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The log has no record of the transaction.
    First,
    Later,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    /// Maximum bytes of undo entries that a transaction keeps in memory.
    pub(crate) undo_bytes: usize,
    pub(crate) place: String,
    pub(crate) gate: Gate,
    pub(crate) watch: Watch,
    pub(crate) opening: Arc<Opening>,
    /// The only stream of `whole_log`.
    pub(crate) log: Stream,
    pub(crate) whole_log: Log,
    pub(crate) barrier: Arc<LogBarrier>,
    pub(crate) pool: Arc<Pool>,
    /// Memory that the pool may take, and the reason for this size.
    pub(crate) cache: CacheSize,
    pub(crate) space: Arc<Space>,
    pub(crate) locks: Locks,
    pub(crate) active: ActiveTable,
    pub(crate) metrics: Metrics,
    pub(crate) undo_room: UndoRoom,
    pub(crate) control: ControlFile,
    pub(crate) schedule: CheckpointSchedule,
    /// Page writes of the next checkpoint. A leaf latch; the thread that does the worker's work
    /// takes it, and so does a thread that has taken a checkpoint.
    pub(crate) spread: Mutex<Spread>,
    /// LSN of the begin record of the last complete checkpoint. Written (Release) by the thread
    /// that takes the checkpoint, which holds `CheckpointSchedule::turn`; read with Acquire.
    pub(crate) checkpoint_begin: AtomicU64,
    /// True from a refusal for lack of space until the next checkpoint begins; while the flag is
    /// true, a checkpoint is due. The refused thread sets the flag and notifies the worker.
    /// Relaxed, because the notification orders this write before the worker's read.
    pub(crate) lacks_space: AtomicBool,
    /// True if the next checkpoint is the first since the database was compacted. The opening sets
    /// it; the thread that takes the checkpoint reads and clears it. Relaxed, because this thread
    /// holds `CheckpointSchedule::turn`, which orders the accesses.
    pub(crate) is_rewritten: AtomicBool,
    /// True if updates are logged with whole values, which feeds need. The opening sets the flag if
    /// the options or a consumer ask for whole values. Each feed sets it as well, and no thread
    /// clears it. The flag is a hint: a change that has begun may still be logged without whole
    /// values.
    pub(crate) record_values: AtomicBool,
    pub(crate) durability_waiter: DurabilityWaiter<PendingLocks>,
    /// Locks that are never released (invariant 1).
    pub(crate) leaked_locks: Mutex<Vec<TxnLocks>>,
    /// Transactions whose rollback or clean-up failed (invariant 3).
    pub(crate) unfinished: Unfinished,
    pub(crate) waits: Waits,
    pub(crate) views: Views,
    pub(crate) unshown: Unshown,
}

/// The log as the pool needs it for the write-ahead rule.
#[derive(Debug)]
pub(crate) struct LogBarrier {
    log: Stream,
    opening: Arc<Opening>,
    /// A position below every record that is appended from now on: at first the end of the log at
    /// its opening, then the position of the record for which [`LogBarrier::separate`] was called
    /// last. `None` if the log keeps the order of appends, because the reserved frontier then
    /// serves as the floor. Raised (AcqRel) after a barrier of the log was passed, read (Acquire)
    /// before an append.
    floor: Option<AtomicU64>,
    gate: Gate,
    place: String,
    /// The bug for which the database was shut off. Set once (Release), before the gate is shut;
    /// every call reads it (Acquire).
    internal_error: OnceLock<&'static str>,
}

impl LogBarrier {
    /// Creates the barrier of a log to which nothing was appended since its opening.
    pub(crate) fn new(
        log: Stream,
        keeps_order: bool,
        opening: Arc<Opening>,
        gate: Gate,
        place: String,
    ) -> Self {
        let floor = (!keeps_order).then(|| AtomicU64::new(log.reserved().get()));
        LogBarrier { log, floor, opening, gate, place, internal_error: OnceLock::new() }
    }

    /// The error of every call after the gate has shut.
    fn poison_error(&self) -> Error {
        if let Some(what) = self.internal_error.get() {
            return Error::Poisoned { cause: Arc::new(Error::Internal(what)) };
        }
        match self.gate.failure() {
            Some(first) => Error::poisoned_by(first),
            None => Error::Internal("the gate is open"),
        }
    }

    /// Separates `record`, which is in the log, from later records: every record whose append
    /// begins after this call has returned lies above `record`.
    pub(crate) fn separate(&self, record: Lsn) {
        self.log.barrier();
        if let Some(floor) = &self.floor {
            floor.fetch_max(record.get(), Ordering::AcqRel);
        }
    }
}

impl WalBarrier for LogBarrier {
    fn make_durable(&self, end: Lsn) -> Result<()> {
        Ok(self.log.wait(end, Durability::Durable)?)
    }

    fn reserved(&self) -> Lsn {
        self.log.reserved()
    }

    fn floor(&self) -> Lsn {
        match &self.floor {
            Some(floor) => Lsn::new(floor.load(Ordering::Acquire)),
            None => self.log.reserved(),
        }
    }

    /// Shuts the database off for a bug (invariant 2). Returns the error of the call that found the
    /// bug.
    #[cold]
    fn poison(&self, what: &'static str) -> Error {
        self.internal_error.get_or_init(|| what);
        let cause = Cause::Io(Arc::new(std::io::Error::other(format!("internal error: {what}"))));
        self.gate.shut(katydid_device::Error::new(Verb::Write, self.place.clone(), cause));
        self.poison_error()
    }

    fn visit(&self) -> Result<Option<Visit<'_>>> {
        self.opening.visit().map(Some)
    }
}

impl Engine {
    /// The pages, as trees use them.
    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages { pool: &self.pool, space: &self.space, shortcuts: None }
    }

    /// Fails if the database was closed, or was shut off for a bug.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.opening.check()?;
        if self.barrier.internal_error.get().is_some() { Err(self.poison_error()) } else { Ok(()) }
    }

    /// Shuts the database off for a bug (invariant 2). Returns the error of the call that found the
    /// bug.
    #[cold]
    pub(crate) fn poison(&self, what: &'static str) -> Error {
        let error = self.barrier.poison(what);
        // All waits for locks end now, because transactions that cannot be rolled back never
        // release theirs.
        self.locks.shut();
        error
    }

    /// Fails if a write may not begin: the database is closed or poisoned, or the log has no room.
    pub(crate) fn check_writable(&self, stage: Stage, who: Waiter) -> Result<()> {
        self.check_open()?;
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        if self.space.is_short() {
            self.schedule.worker.notify();
        }
        if self.log.is_bounded() {
            return if stage == Stage::First { self.enter_log(who) } else { Ok(()) };
        }
        if self.log_bytes() > self.options.advanced.log_soft_bytes {
            self.schedule.worker.notify();
            if self.log_bytes() > self.options.advanced.log_hard_bytes {
                return self.make_log_room();
            }
        }
        Ok(())
    }

    /// Makes room in a log that is at its hard limit. Runs on the thread that wants to write. The
    /// write is refused only if the log is still too long afterwards. A checkpoint that cannot move
    /// the log's start is not taken; otherwise each refused write would lengthen the log by a
    /// checkpoint's records.
    #[cold]
    fn make_log_room(&self) -> Result<()> {
        let limit = self.options.advanced.log_hard_bytes;
        self.end_unended();
        self.checkpoint_if(|| self.log_bytes() > limit && self.head().is_none())?;
        let used = self.log_bytes();
        if used > limit {
            return Err(self.log_full(used, limit));
        }
        Ok(())
    }

    /// The error of a call that finds the log full.
    #[cold]
    pub(crate) fn log_full(&self, used: u64, limit: u64) -> Error {
        let pinned_by = self.pinned_by();
        if let Pin::Transaction(txn, _) = pinned_by
            && let Some(error) = self.unfinished.error_of(&[txn])
        {
            return error;
        }
        Error::LogFull { pinned_by, used, limit }
    }

    /// The error of every call after the gate has shut.
    pub(crate) fn poison_error(&self) -> Error {
        self.barrier.poison_error()
    }

    /// Bytes of log that the database needs. Pins may retain more.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.reserved().since(self.log.trimmed_to())
    }

    /// Releases locks; see `Locks::release_all`.
    #[inline]
    pub(crate) fn release_locks(&self, mut locks: TxnLocks, commit_end: Option<Lsn>) {
        self.locks.release_all(&mut locks, commit_end);
        self.active.give_locks(locks);
    }

    /// Makes a commit visible to views. The transaction still holds its locks.
    #[inline]
    pub(crate) fn show_to_views(&self, images: Option<&TxnImages>, commit_end: Lsn) {
        if let Some(images) = images {
            self.views.committed(images, commit_end);
        }
    }

    /// Opens a read view. The view sees every acknowledged commit, including those whose locks are
    /// not released yet.
    pub(crate) fn open_view(&self) -> View {
        let is_settled = |end, durability| {
            let settled = self.whole_log.is_settled(self.log.at(end), &Dependencies::default(), durability);
            matches!(settled, Some(Ok(())))
        };
        self.unshown.show_settled(is_settled, |images, end| self.show_to_views(Some(images), end));
        self.views.open(|| self.log.reserved())
    }

    /// Reads a long value that is about to be freed. `None` if it cannot be read.
    pub(crate) fn read_long(&self, versions: &Versions, chain: Chain) -> Option<Vec<u8>> {
        read_chain(&self.pool, versions.table(), chain).ok()
    }

    /// Ends the before-images of a transaction whose locks are released, and gives their
    /// `TxnImages` back for another transaction. The caller has taken it out of the transaction's
    /// writer.
    pub(crate) fn end_images(&self, images: Option<Arc<TxnImages>>) {
        if let Some(images) = images {
            self.views.ended(&images);
            self.views.give_images(images);
        }
    }

    /// Gives back the writer of a transaction that has ended, or whose changes are all undone.
    pub(crate) fn give_writer(&self, writer: Box<Writer>) {
        if let Some(images) = &writer.images {
            self.views.ended(images);
        }
        self.active.give_writer(writer);
    }

    /// Keeps locks until the database is opened again. If the gate has shut, also ends all waits
    /// for locks, because most locks will never be released.
    pub(crate) fn keep_locks(&self, locks: TxnLocks) {
        locks.disown();
        self.leaked_locks.lock().push(locks);
        self.hear_of_log();
        if self.gate.is_shut() {
            self.locks.shut();
        }
    }

    /// Shuts the gate if the log has failed. A log in NVRAM may fail without a device call, and
    /// then the gate has not noticed the failure.
    pub(crate) fn hear_of_log(&self) {
        if let Some(katydid_wal::Error::Poisoned { cause }) = self.whole_log.poisoned() {
            self.gate.shut(cause);
        }
    }

    /// Appends a record that belongs to no transaction's undo. The record lies above `after`.
    pub(crate) fn append_system(
        &self,
        kind: u8,
        after: Lsn,
        payload: &[&[u8]],
        class: AppendClass,
    ) -> Result<Appended> {
        let append = Append::new(Kind::new(kind), payload).depends_on(after).class(class);
        self.active.append(&self.log, &append)
    }

    /// Turns a refused lock into the caller's error. The error is `Conflict` or `WaitsForItself`,
    /// except in three cases: the gate has shut; the database is being closed; the holder's
    /// rollback has failed so far. In the first two cases some locks are never released, so the
    /// returned error is not retryable.
    pub(crate) fn conflict(&self, conflict: Conflict) -> Error {
        if conflict.kind == ConflictKind::Timeout && self.gate.is_shut() {
            return self.poison_error();
        }
        if conflict.kind == ConflictKind::Timeout && self.opening.is_closing() {
            return Error::Closed;
        }
        if let Some(error) = self.unfinished.error_of(&conflict.blockers) {
            return error;
        }
        self.metrics.count_conflict();
        let Conflict { victim, blockers, wanted, kind, own } = conflict;
        let holder = own.or(blockers.first().copied());
        let contested = Some(Box::new(self.locks.contested(wanted, holder)));
        match own {
            Some(holder) => Error::WaitsForItself { holder, contested },
            None => events::conflict(Error::Conflict { victim, holder, kind, contested }),
        }
    }

    /// The reason why the log retains its oldest part.
    pub(crate) fn pinned_by(&self) -> Pin {
        let mut pin = Pin::Checkpoint(self.last_checkpoint());
        if let (_, Some((txn, first))) = self.active.oldest()
            && first < pin.lsn()
        {
            pin = Pin::Transaction(txn, first);
        }
        let page = self.pool.dirty_pages().into_iter().map(|(_, lsn)| lsn).min();
        if let Some(lsn) = page
            && lsn < pin.lsn()
        {
            pin = Pin::DirtyPage(lsn);
        }
        pin
    }
}

impl OnDurable for Engine {
    type Pending = PendingLocks;

    fn durability_waiter(&self) -> &DurabilityWaiter<PendingLocks> {
        &self.durability_waiter
    }

    /// Waits for the commit, then releases its locks. If the wait fails, the locks are kept,
    /// because it is not known whether the commit survives.
    fn on_durable(&self, PendingLocks { committed, mut locks, images }: PendingLocks) {
        match self.log.wait(committed.end, committed.durability) {
            Ok(()) => {
                self.unshown.take(committed.end, |images| self.show_to_views(Some(images), committed.end));
                self.locks.release_all(&mut locks, committed.left_behind());
                self.end_images(images);
            }
            Err(_) => {
                self.unshown.take(committed.end, |_| {});
                self.keep_locks(locks);
            }
        }
    }

    fn panicked(&self, what: &'static str) {
        let _every_later_call_fails_with_it = self.poison(what);
    }
}
