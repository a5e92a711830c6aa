//! Times at which checkpoints are due, and the worker thread that takes them. Both engines use this
//! schedule.
//!
//! Any thread may call this code. A committing thread compares the end of its record with the
//! position `wake` of its stream, and notifies the worker if the record ends at or above that
//! position. No timer starts checkpoints. With `Background::Caller` there is no worker: the
//! engine's `run_background` does the worker's work. Invariants:
//!
//! 1. One checkpoint is taken at a time: the thread that takes it holds `turn` (rank 1).
//! 2. After a checkpoint the worker takes another one at once only if a checkpoint is due and the
//!    last one has trimmed the log. So an old transaction that keeps the log from being trimmed
//!    does not keep the worker busy.
//!
//! Positions here are hints, with relaxed accesses: a commit that reads an old position notifies
//! the worker once too often, or leaves the notification to the next commit. Nothing here survives
//! a crash.

use crate::Lsn;
use crate::durability_waiter::OnDurable;
use crate::error::Result;
use crate::events;
use crate::fullness::Share;
use crate::latch::Mutex;
use crate::opening::Opening;
use crate::options::Options;
use crate::worker::Worker;
use katydid_wal::Background;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A thread that takes a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The worker, which takes a checkpoint that is due. No caller waits for it.
    Worker,
    /// A thread of the program, which waits for the checkpoint.
    Caller,
}

/// Positions of one stream of the log.
#[derive(Debug)]
struct Stream {
    /// Position at which the next checkpoint is due.
    due: AtomicU64,
    /// Position at which a commit notifies the worker: `due`, or a lower position.
    wake: AtomicU64,
}

/// The schedule of an engine's checkpoints; see the head of this file.
#[derive(Debug)]
pub(crate) struct CheckpointSchedule {
    /// Held by the thread that takes a checkpoint (invariant 1).
    pub(crate) turn: Mutex<()>,
    streams: Box<[Stream]>,
    /// Fullness of streams in NVRAM.
    pub(crate) share: Share,
    completed: AtomicU64,
    pub(crate) worker: Worker,
}

/// An engine whose checkpoints are scheduled.
pub(crate) trait TakesCheckpoints: OnDurable {
    /// The engine's schedule.
    fn schedule(&self) -> &CheckpointSchedule;
    /// Returns true if a checkpoint is due.
    fn checkpoint_is_due(&self) -> bool;
    /// Writes a checkpoint; the caller holds `turn`.
    fn write_checkpoint(&self, taker: Taker) -> Result<()>;
    /// The engine's opening, and the name of its directory.
    fn checkpoint_of(&self) -> (&Opening, &str);
    /// Number of bytes trimmed from the log since the opening, over all streams.
    fn trimmed_bytes(&self) -> u128;
    /// The worker's work after a notification.
    fn on_notification(&self) {
        self.take_due_checkpoints();
    }

    /// Takes a checkpoint and emits an event; the caller holds `turn`.
    fn take_checkpoint(&self, taker: Taker) -> Result<()> {
        let (opening, place) = self.checkpoint_of();
        opening.observed.report_slow();
        let begun = Instant::now();
        let taken = self.write_checkpoint(taker);
        events::checkpoint(place, begun.elapsed(), taken.as_ref().err());
        taken
    }

    /// Waits for the checkpoint that another thread may be taking, and then takes one.
    fn checkpoint(&self, taker: Taker) -> Result<()> {
        let _turn = self.schedule().turn.lock();
        self.take_checkpoint(taker)
    }

    /// Takes checkpoints while a checkpoint is due and the last checkpoint has trimmed the log
    /// (invariant 2).
    fn take_due_checkpoints(&self) {
        while self.checkpoint_is_due() && !self.schedule().worker.is_stopping() {
            let before = self.trimmed_bytes();
            // A failed checkpoint has shut the gate, found no space, or (memory engine) waited too
            // long for an undecided version. Another checkpoint would fail for the same reason.
            if self.checkpoint(Taker::Worker).is_err() || self.trimmed_bytes() <= before {
                break;
            }
        }
    }
}

impl CheckpointSchedule {
    /// The schedule of a log with `streams` streams. No checkpoint is due before
    /// [`CheckpointSchedule::set_due`].
    pub(crate) fn new(streams: usize, options: &Options) -> Self {
        let never = || AtomicU64::new(u64::MAX);
        CheckpointSchedule {
            turn: Mutex::new(()),
            streams: (0..streams).map(|_| Stream { due: never(), wake: never() }).collect(),
            share: Share::new(options),
            completed: AtomicU64::new(0),
            worker: Worker::default(),
        }
    }

    /// Starts the worker of `engine`, unless `background` is `Background::Caller`.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub(crate) fn start<E: TakesCheckpoints>(engine: &Arc<E>, background: Background) -> std::io::Result<()> {
        if background == Background::Caller {
            return Ok(());
        }
        Worker::start(
            engine,
            |engine| &engine.schedule().worker,
            "katydid-checkpoint",
            E::on_notification,
            |engine| engine.panicked("a panic while a checkpoint was taken"),
        )
    }

    /// Sets where the next checkpoint is due: `bytes` of log after `from`, divided evenly among the
    /// streams.
    pub(crate) fn set_due(&self, from: &[Lsn], bytes: u64) {
        let share = bytes / self.streams.len().max(1) as u64;
        for (stream, from) in self.streams.iter().zip(from) {
            stream.due.store(from.get().saturating_add(share), Ordering::Relaxed);
        }
    }

    /// Makes commits of each stream notify the worker at the position at which a checkpoint is due.
    pub(crate) fn wake_when_due(&self) {
        for Stream { due, wake } in &self.streams {
            wake.store(due.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Makes commits of `stream` notify the worker at `at` or at the position at which a checkpoint
    /// is due, whichever is lower.
    pub(crate) fn wake_at(&self, stream: usize, at: Lsn) {
        let Stream { due, wake } = &self.streams[stream];
        wake.store(at.get().min(due.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Returns whether a stream that ends at `end` has reached the position at which a checkpoint
    /// is due.
    pub(crate) fn is_due(&self, stream: usize, end: Lsn) -> bool {
        end.get() >= self.streams[stream].due.load(Ordering::Relaxed)
    }

    /// Notifies the worker if `end` has reached the stream's position `wake`. Called with the end
    /// of each commit record, and of records of a bulk load.
    #[inline]
    pub(crate) fn note(&self, stream: usize, end: Lsn) {
        if end.get() >= self.streams[stream].wake.load(Ordering::Relaxed) {
            self.worker.notify();
        }
    }

    /// Counts a completed checkpoint.
    pub(crate) fn count(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of completed checkpoints.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }
}
