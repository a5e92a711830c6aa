//! The parts of an open database, and what they need of each other.
//!
//! Any thread. The order in which the parts come to life is `open`'s; nothing here does I/O of its
//! own. Invariants:
//!
//! 1. After the gate has shut nothing is written. Changes that are in memory only and cannot be
//!    undone any more stay behind their transactions' locks, which are then kept until the database
//!    is opened again (`leaked_locks`).
//! 2. After a bug was found in the middle of a change, or a thread panicked there (`poison`), the
//!    gate is shut, and what is in memory may be wrong: not even reads begin.
//! 3. A transaction whose rollback failed keeps its locks and its slot: no transaction sees its
//!    changes, and the log is kept for what undoes them. While the gate is open the rollback is
//!    tried again until it succeeds (`unfinished`); then the locks are released. After the gate has
//!    shut recovery undoes it.

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

/// A commit, and the locks that its transaction keeps until it is durable.
#[derive(Debug)]
pub(crate) struct PendingLocks {
    pub(crate) committed: Committed,
    pub(crate) locks: TxnLocks,
    /// Images that views need instead of its changes until then.
    pub(crate) images: Option<Arc<TxnImages>>,
}

/// Stage of a transaction that wants to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing of it is in the log.
    First,
    Later,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    /// Bytes of undo kept in memory per transaction.
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
    /// Memory that the pool may take, and why.
    pub(crate) cache: CacheSize,
    pub(crate) space: Arc<Space>,
    pub(crate) locks: Locks,
    pub(crate) active: ActiveTable,
    pub(crate) metrics: Metrics,
    pub(crate) undo_room: UndoRoom,
    pub(crate) control: ControlFile,
    pub(crate) schedule: CheckpointSchedule,
    /// Begin of the last complete checkpoint. Written by the thread that takes the checkpoint and
    /// holds the turn; Release and Acquire.
    pub(crate) checkpoint_begin: AtomicU64,
    /// True from a refusal for lack of space until the next checkpoint begins, which is due then.
    /// The refused thread stores it and notifies the worker; relaxed, the notification orders it.
    pub(crate) lacks_space: AtomicBool,
    /// True if the next checkpoint is the first since the database was compacted. Set by the
    /// opening; cleared by the thread that takes the checkpoint and holds the turn. Relaxed.
    pub(crate) is_rewritten: AtomicBool,
    /// True if updates are logged with whole values, for feeds. Set by feeds and never cleared; a
    /// hint, so that a change under way may still be logged without.
    pub(crate) record_values: AtomicBool,
    pub(crate) durability_waiter: DurabilityWaiter<PendingLocks>,
    /// Locks that are never released: invariant 1.
    pub(crate) leaked_locks: Mutex<Vec<TxnLocks>>,
    /// Invariant 3.
    pub(crate) unfinished: Unfinished,
    pub(crate) waits: Waits,
    pub(crate) views: Views,
    pub(crate) unshown: Unshown,
}

/// The write-ahead rule, as the pool asks for it.
#[derive(Debug)]
pub(crate) struct LogBarrier {
    log: Stream,
    opening: Arc<Opening>,
    /// Start of a record, or end of the log as it was opened, below everything that is appended
    /// from now on; only if the log does not keep the order of appends, or this would be its
    /// reserved frontier. Raised (Release) after a barrier of the log was passed, read (Acquire)
    /// before an append.
    floor: Option<AtomicU64>,
    gate: Gate,
    place: String,
    /// The bug for which the database was shut off. Set (once, release) before the gate is shut,
    /// read (acquire) by every call.
    internal_error: OnceLock<&'static str>,
}

impl LogBarrier {
    /// The barrier of a log that nothing was appended to since it was opened.
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

    /// Returns when everything that is appended later lies above `record`, which was appended
    /// before.
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

    /// Invariant 2. Returns the error of the call that found the bug.
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
        Pages { pool: &self.pool, space: &self.space, hint: None }
    }

    /// Fails if the database was closed, or shut off for a bug.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.opening.check()?;
        if self.barrier.internal_error.get().is_some() { Err(self.poison_error()) } else { Ok(()) }
    }

    /// Invariant 2; the error of the call that found the bug.
    #[cold]
    pub(crate) fn poison(&self, what: &'static str) -> Error {
        let error = self.barrier.poison(what);
        // Locks of transactions that cannot be rolled back are never released.
        self.locks.shut();
        error
    }

    /// Fails if nothing may be written: closed, poisoned, or no room in the log.
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

    /// At the hard limit a thread that wants to write helps to make room, and is refused only if
    /// that did not help. It takes no checkpoint that cannot move the log's start: refusals would
    /// make the log longer by a checkpoint's records each.
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

    /// Bytes of log that the database needs. Pins may keep more.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.reserved().since(self.log.trimmed_to())
    }

    /// Releases locks; see `Locks::release_all`.
    #[inline]
    pub(crate) fn release_locks(&self, mut locks: TxnLocks, commit_end: Option<Lsn>) {
        self.locks.release_all(&mut locks, commit_end);
        self.active.give_locks(locks);
    }

    /// A transaction commits for views. It holds its locks.
    #[inline]
    pub(crate) fn show_to_views(&self, images: Option<&TxnImages>, commit_end: Lsn) {
        if let Some(images) = images {
            self.views.committed(images, commit_end);
        }
    }

    /// Opens a read view. It sees all commits that were acknowledged, also those whose locks are
    /// still to be released.
    pub(crate) fn open_view(&self) -> View {
        let is_settled = |end, durability| {
            let settled = self.whole_log.is_settled(self.log.at(end), &Dependencies::default(), durability);
            matches!(settled, Some(Ok(())))
        };
        self.unshown.show_settled(is_settled, |images, end| self.show_to_views(Some(images), end));
        self.views.open(|| self.log.reserved())
    }

    /// A long value that is about to be freed; none if it cannot be read.
    pub(crate) fn read_long(&self, versions: &Versions, chain: Chain) -> Option<Vec<u8>> {
        read_chain(&self.pool, versions.table(), chain).ok()
    }

    /// Ends the images of a transaction whose locks are released. They are not its writer's any
    /// more.
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

    /// Keeps locks for good. After the gate has shut no transaction waits for locks any more: most
    /// will never be released.
    pub(crate) fn keep_locks(&self, locks: TxnLocks) {
        locks.disown();
        self.leaked_locks.lock().push(locks);
        self.hear_of_log();
        if self.gate.is_shut() {
            self.locks.shut();
        }
    }

    /// Shuts the gate if the log has failed: one in NVRAM may have done so without a device call.
    pub(crate) fn hear_of_log(&self) {
        if let Some(katydid_wal::Error::Poisoned { cause }) = self.whole_log.poisoned() {
            self.gate.shut(cause);
        }
    }

    /// Appends a record that belongs to no transaction's undo, above `after`.
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

    /// Turns a refused lock into the caller's error. After the gate has shut, or when the database
    /// is being closed, some locks are kept for good, and waiting for one of them is not the other
    /// transaction's fault; nor is it if that one could not be rolled back so far.
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

    /// The reason why the oldest part of the log is kept.
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

    /// After a failure the locks are kept, because it is not known whether the commit survives.
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
