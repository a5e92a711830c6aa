//! The parts of an open database, and the steps of a commit.
//!
//! Any thread runs this code. Invariants:
//!
//! 1. A transaction's record is appended after the transaction was validated and before any other
//!    transaction sees its writes. So a transaction that has seen a write knows the position of the
//!    writer's record. A record lies in its stream above the records of the same thread that were
//!    acknowledged as durable before.
//! 2. A transaction is acknowledged when its record and all its dependencies are as durable as it
//!    asked. With `LockRelease::AfterDurable` no other transaction has seen its versions before
//!    that.
//! 3. After the gate has shut no record is written. A transaction that is not durable and hides its
//!    versions becomes in doubt, and each transaction that finds one of these versions fails. A
//!    transaction that is pre-committed and not durable stays so, and no transaction that has seen
//!    its versions is acknowledged as durable. The next opening decides which of these transactions
//!    committed.

use super::checkpoint::CheckpointFolder;
use super::checkpoints::Uncovered;
use super::copied_checkpoints::CopiedCheckpoints;
use super::feed::FeedWakers;
use super::log_record::{self, LoggedWrite};
use super::store::{ActiveTxn, LogView, Store, Timestamp, Validated};
use super::writers::Writers;
use crate::checkpoint_schedule::{CheckpointSchedule, TakesCheckpoints};
use crate::control::ControlFile;
use crate::durability_waiter::{DurabilityWaiter, OnDurable};
use crate::engine_options::{CommitDependencies, MemoryOptions};
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::opening::{Closes, Opening};
use crate::options::{Access, LockRelease, Options};
use crate::pause;
use crate::sharded::{Metrics, ShardedArc};
use crate::stat::Pin;
use crate::ticket::Ticket;
use crate::{CommitStamp, Durability, Lsn};
use katydid_device::{Cause, Gate, Verb, Watch};
use katydid_kernels::txn::{DurablePlaces, Waits};
use katydid_wal::{
    Append, AppendClass, AppendError, Background, Dependencies, Log, Stream, StreamId, StreamLsn,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An open database.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    /// The options that only the memory engine has.
    pub(crate) own: MemoryOptions,
    pub(crate) place: String,
    pub(crate) gate: Gate,
    pub(crate) watch: Watch,
    pub(crate) opening: Arc<Opening>,
    pub(crate) log: Log,
    pub(crate) store: ShardedArc<Store>,
    pub(crate) control: ControlFile,
    pub(crate) folder: CheckpointFolder,
    /// Checkpoints whose files are being copied.
    pub(crate) copied: CopiedCheckpoints,
    pub(crate) schedule: CheckpointSchedule,
    pub(crate) uncovered: Uncovered,
    pub(crate) durability_waiter: DurabilityWaiter<PendingVersions>,
    pub(crate) metrics: Metrics,
    /// Feeds that wait for transactions to end.
    pub(crate) feed_wakers: FeedWakers,
    /// No record with a greater stamp was ever trimmed. A checkpoint raises this (AcqRel) before it
    /// trims the log; a feed or a copy reads it (Acquire) after it has pinned the log.
    pub(crate) trimmed_stamp: AtomicU64,
    writers: Writers,
}

/// The log as the store sees it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) log: Log,
    pub(crate) gate: Gate,
    pub(crate) background: Background,
}

impl DurablePlaces for View {
    fn is_durable(&self, place: StreamLsn) -> bool {
        self.log.is_durable(place)
    }
}

impl Waits for View {
    /// Called before this thread waits for another transaction. That transaction may be waiting for
    /// a commit group that contains records of this thread (after-durable release with group
    /// commit). With background threads nothing has to be done, because a thread of the log writes
    /// the group when the group's time is over. With `Background::Caller` there is no such thread,
    /// so the waiting thread does the log's work here.
    fn before_wait(&self) {
        if self.background == Background::Caller {
            self.log.run_background();
        }
    }
}

impl LogView for View {
    fn failure(&self) -> Error {
        // The gate may be open although the log has failed: a log in NVRAM fails without a device
        // call.
        match (self.gate.failure(), self.log.poisoned()) {
            (Some(first), _) => Error::poisoned_by(first),
            (None, Some(failure)) => Error::from(failure),
            (None, None) => Error::Closed,
        }
    }
}

/// A committed transaction, which may not be durable yet. If it wrote anything, its record is in
/// the log.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    /// End of the transaction's record; `None` if it wrote nothing.
    place: Option<StreamLsn>,
    depends: Dependencies,
    pub(crate) durability: Durability,
    /// Timestamp of the transaction, its position in the order of all transactions.
    timestamp: Timestamp,
    /// Timestamp up to which the transaction may have seen or written versions.
    pub(crate) seen_to: Timestamp,
}

impl Committed {
    /// The stamp that the commit returns: the timestamp, which orders transactions of all streams.
    pub(crate) fn stamp(&self) -> CommitStamp {
        CommitStamp::new(self.timestamp.get())
    }

    /// The positions to wait for: the transaction's own, and those of its dependencies.
    pub(crate) fn waits_for(&self) -> (StreamLsn, &Dependencies) {
        let none = StreamLsn { stream: StreamId::FIRST, end: Lsn::ZERO };
        (self.place.or_else(|| self.depends.iter().next()).unwrap_or(none), &self.depends)
    }

    /// Makes a ticket for a session or a future.
    pub(crate) fn into_ticket(self) -> Ticket {
        let (at, stamp) = (self.waits_for().0, self.stamp());
        let Committed { depends: dependencies, durability, seen_to, .. } = self;
        Ticket { at, dependencies, durability, stamp, seen_to }
    }
}

/// A transaction in the log whose versions no other transaction sees before the transaction is as
/// durable as it asked.
#[derive(Debug)]
pub(crate) struct PendingVersions {
    pub(crate) committed: Committed,
    pub(crate) held: Validated,
}

/// The parts from which [`Engine::new`] makes an engine.
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) own: MemoryOptions,
    pub(crate) place: String,
    pub(crate) gate: Gate,
    pub(crate) watch: Watch,
    pub(crate) opening: Arc<Opening>,
    pub(crate) log: Log,
    pub(crate) store: Arc<Store>,
    pub(crate) control: ControlFile,
    pub(crate) folder: CheckpointFolder,
    pub(crate) trimmed_stamp: u64,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Arc<Engine> {
        let Parts { options, own, place, gate, watch, opening, log, store, control, folder, trimmed_stamp } =
            parts;
        Arc::new(Engine {
            place,
            gate,
            watch,
            opening,
            schedule: CheckpointSchedule::new(log.streams().len(), &options),
            uncovered: Uncovered::new(&log),
            options,
            own,
            writers: Writers::new(log.streams().len()),
            log,
            store: ShardedArc::new(store),
            control,
            folder,
            copied: CopiedCheckpoints::default(),
            durability_waiter: DurabilityWaiter::default(),
            metrics: Metrics::default(),
            feed_wakers: FeedWakers::default(),
            trimmed_stamp: AtomicU64::new(trimmed_stamp),
        })
    }

    /// Fails if the database was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.opening.check()
    }

    /// Begins a transaction on the store.
    #[inline]
    pub(crate) fn begin(&self, access: Access) -> Result<ActiveTxn> {
        ActiveTxn::begin(self.store.of_thread().clone(), access, self.options.lock_wait)
    }

    /// Fails if the log has failed.
    pub(crate) fn check_unharmed(&self) -> Result<()> {
        if self.gate.is_shut() { Err(self.poison_error()) } else { Ok(()) }
    }

    /// Fails if the calling thread may not write: the database is closed or poisoned, or the
    /// thread's stream of the log has no room even after checkpoints.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_unharmed()?;
        let (log, share) = (self.stream_of_thread(), self.log.streams().len() as u64);
        if log.is_bounded() {
            return self.enter_log(log);
        }
        let live = || log.reserved().since(log.trimmed_to());
        if live() > self.options.advanced.log_soft_bytes / share {
            self.schedule.worker.notify();
            let limit = self.options.advanced.log_hard_bytes / share;
            while live() > limit {
                self.make_room(log, || live() > limit)?;
            }
        }
        Ok(())
    }

    /// The error of every call after the gate has shut.
    pub(crate) fn poison_error(&self) -> Error {
        match self.gate.failure() {
            Some(first) => Error::poisoned_by(first),
            None => Error::Internal("the gate is open"),
        }
    }

    /// Bytes of log that the database needs, in all streams. Pins may keep more.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.streams().iter().map(|log| log.reserved().since(log.trimmed_to())).sum()
    }

    /// The reason why the oldest part of the log is kept: always the last checkpoint.
    pub(crate) fn pinned_by(&self) -> Pin {
        Pin::Checkpoint(self.stream_of_thread().trimmed_to())
    }

    pub(super) fn stream_of_thread(&self) -> &Stream {
        &self.log.streams()[self.writers.stream()]
    }

    // ---- commit

    /// Appends the record of a transaction, if it wrote anything. With early release, or if
    /// `durability` is `Buffered`, other transactions see its writes when this returns. Otherwise
    /// the call also returns the validated transaction. The caller waits until the transaction is
    /// as durable as it asks, and then passes it to [`Engine::end`].
    pub(crate) fn pre_commit(
        &self,
        running: ActiveTxn,
        durability: Durability,
    ) -> Result<(Committed, Option<Validated>)> {
        let outcome = self.pre_commit_silently(running, durability);
        self.feed_wakers.notify(&self.log);
        outcome
    }

    fn pre_commit_silently(
        &self,
        running: ActiveTxn,
        durability: Durability,
    ) -> Result<(Committed, Option<Validated>)> {
        let room = self.set_aside(&running)?;
        let txn = running.id();
        let mut validated = running.validate()?;
        let (timestamp, seen_to) = (validated.timestamp(), validated.seen_to());
        if validated.writes().len() == 0 {
            let depends = validated.depends().clone();
            // The transaction has written nothing, so `abort` undoes nothing and only frees the
            // transaction's slot. The commit succeeds.
            validated.abort();
            let timestamp = seen_to;
            return Ok((Committed { place: None, depends, durability, timestamp, seen_to }, None));
        }
        if self.own.commit_dependencies == CommitDependencies::All {
            validated.depends_mut().join_all(&self.log.everything());
        }
        let class = if room.is_some() { AppendClass::Critical } else { AppendClass::Normal };
        let place = self.append(txn, &validated, class)?;
        self.store.has_logged(timestamp, place);
        pause::at(pause::PausePoint::Appended);
        drop(room);
        self.metrics.count_commit();
        self.schedule.note(place.stream.index(), place.end);
        let now =
            self.options.advanced.lock_release == LockRelease::Early || durability == Durability::Buffered;
        let (depends, validated) = if now {
            (validated.pre_committed(place), None)
        } else {
            (validated.depends().clone(), Some(validated))
        };
        Ok((Committed { place: Some(place), depends, durability, timestamp, seen_to }, validated))
    }

    fn append(&self, txn: TxnId, validated: &Validated, class: AppendClass) -> Result<StreamLsn> {
        pause::at(pause::PausePoint::Append);
        let appended = self.writers.with(&self.log, |session, buffer| {
            for (table, key, value) in validated.writes() {
                log_record::encode(&LoggedWrite { table, key, value }, buffer);
            }
            let stamp = CommitStamp::new(validated.timestamp().get());
            let payload = [buffer.as_slice()];
            let record = Append::new(log_record::WRITES, &payload).txn(txn.get()).class(class);
            session.append(&record.commit(stamp, validated.depends()))
        })?;
        appended.map(|appended| appended.position()).map_err(|error| match error {
            // A log in NVRAM may have failed without a device call, so the gate is shut here.
            AppendError::Poisoned { cause } => {
                self.gate.shut(cause);
                self.poison_error()
            }
            AppendError::NoSpace if self.stream_of_thread().is_bounded() => {
                self.log_full(self.stream_of_thread())
            }
            error => error.into(),
        })
    }

    /// Blocks until the transaction is as durable as it asks.
    pub(crate) fn wait(&self, committed: &Committed) -> Result<()> {
        let (place, depends) = committed.waits_for();
        Ok(self.log.wait(place, depends, committed.durability)?)
    }

    /// Ends a transaction with pending versions. `outcome` is the result of the wait for its
    /// durability.
    pub(crate) fn end(&self, committed: &Committed, validated: Validated, outcome: &Result<()>) {
        match (outcome, committed.place) {
            (Ok(()), _) if committed.durability == Durability::Durable => validated.committed(),
            (Ok(()), Some(place)) => {
                validated.pre_committed(place);
            }
            _ => validated.in_doubt(),
        }
        self.feed_wakers.notify(&self.log);
    }

    /// Notes in the store that a transaction is about to be acknowledged. The transaction may have
    /// seen or written versions up to `seen_to`.
    pub(crate) fn acknowledge(&self, seen_to: Timestamp) {
        self.store.acknowledge(seen_to);
    }

    // ---- the end

    /// Does the work that background threads would have done by now, if the database was opened
    /// without them.
    pub(crate) fn run_background(&self) {
        if self.options.advanced.log.background == Background::Threads {
            return;
        }
        self.log.run_background();
        self.on_notification();
    }
}

impl Closes for Engine {
    fn end_waits(&self) {
        self.store.end_waits();
    }

    fn stop_threads(&self) {
        self.schedule.worker.stop();
        self.durability_waiter.stop();
    }

    /// Takes a last checkpoint if it is worth its cost, and closes the log.
    fn finish(&self) -> Result<()> {
        let outcome = match self.options.access {
            _ if self.gate.is_shut() => Err(self.poison_error()),
            Access::ReadWrite => self.last_checkpoint(),
            // A read-only opening writes to an overlay in memory, which is dropped at the end. So a
            // checkpoint would be lost.
            Access::ReadOnly => Ok(()),
        };
        self.writers.clear();
        outcome.and(self.log.close().map_err(Error::from))
    }
}

impl OnDurable for Engine {
    type Pending = PendingVersions;

    fn durability_waiter(&self) -> &DurabilityWaiter<PendingVersions> {
        &self.durability_waiter
    }

    fn on_durable(&self, PendingVersions { committed, held }: PendingVersions) {
        let outcome = self.wait(&committed);
        self.end(&committed, held, &outcome);
    }

    fn panicked(&self, what: &'static str) {
        let cause = Cause::Io(Arc::new(std::io::Error::other(format!("internal error: {what}"))));
        self.gate.shut(katydid_device::Error::new(Verb::Write, self.place.clone(), cause));
    }
}
