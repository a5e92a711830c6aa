//! Times at which checkpoints are due, and the worker thread that takes them. Both engines share
//! it.
//!
//! Any thread. A committing thread compares the end of its record with one word of its stream, and
//! notifies the worker if it has come so far. There is no timer. With `Background::Caller` there is
//! no worker: the engine's `run_background` does its work. Invariants:
//!
//! 1. One checkpoint at a time: its taker holds `turn` (rank 1).
//! 2. The worker takes checkpoints one after the other only while one is due and the last one has
//!    trimmed the log. A transaction that keeps the log therefore does not keep the worker busy.
//!
//! Positions here are hints, relaxed: a commit that reads an old one notifies the worker once too
//! often, or leaves that to the next commit. Nothing survives a crash.

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

/// Positions of one stream of the log.
#[derive(Debug)]
struct Stream {
    /// Position at which the next checkpoint is due.
    due: AtomicU64,
    /// Position at which a commit notifies the worker: `due`, or earlier.
    wake: AtomicU64,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct CheckpointSchedule {
    /// Invariant 1.
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
    fn write_checkpoint(&self) -> Result<()>;
    /// The opening it belongs to, and the directory.
    fn checkpoint_of(&self) -> (&Opening, &str);
    /// Bytes trimmed from the log, of all streams.
    fn trimmed_bytes(&self) -> u128;
    /// The worker's work after a notification.
    fn on_notification(&self) {
        self.take_due_checkpoints();
    }

    /// Takes a checkpoint and tells of it; the caller holds `turn`.
    fn take_checkpoint(&self) -> Result<()> {
        let (opening, place) = self.checkpoint_of();
        opening.observed.tell_slow();
        let begun = Instant::now();
        let taken = self.write_checkpoint();
        events::checkpoint(place, begun.elapsed(), taken.as_ref().err());
        taken
    }

    /// Takes a checkpoint when it is the caller's turn.
    fn checkpoint(&self) -> Result<()> {
        let _turn = self.schedule().turn.lock();
        self.take_checkpoint()
    }

    /// Invariant 2.
    fn take_due_checkpoints(&self) {
        while self.checkpoint_is_due() && !self.schedule().worker.is_stopping() {
            let before = self.trimmed_bytes();
            // A failure has shut the gate, or is a lack of space or a long wait, which the next
            // taker meets as well.
            if self.checkpoint().is_err() || self.trimmed_bytes() <= before {
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

    /// Starts the worker of `engine`, if there is to be one.
    ///
    /// # Errors
    /// The system starts no thread.
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

    /// Sets where the next checkpoint is due: `bytes` of log after `from`, each stream with its
    /// share of them.
    pub(crate) fn set_due(&self, from: &[Lsn], bytes: u64) {
        let share = bytes / self.streams.len().max(1) as u64;
        for (stream, from) in self.streams.iter().zip(from) {
            stream.due.store(from.get().saturating_add(share), Ordering::Relaxed);
        }
    }

    /// Sets where a commit of each stream notifies the worker: where a checkpoint is due.
    pub(crate) fn wake_when_due(&self) {
        for Stream { due, wake } in &self.streams {
            wake.store(due.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Sets where a commit of a stream notifies the worker: at `at`, or where a checkpoint is due,
    /// if that is earlier.
    pub(crate) fn wake_at(&self, stream: usize, at: Lsn) {
        let Stream { due, wake } = &self.streams[stream];
        wake.store(at.get().min(due.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Returns whether a stream that ends at `end` has reached the position at which a checkpoint
    /// is due.
    pub(crate) fn is_due(&self, stream: usize, end: Lsn) -> bool {
        end.get() >= self.streams[stream].due.load(Ordering::Relaxed)
    }

    /// Called with the end of each commit's record: notifies the worker if it has something to do.
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

    /// Checkpoints completed.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }
}
