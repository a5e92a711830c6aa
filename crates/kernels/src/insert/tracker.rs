//! The tracker: a thread that finds out what is filled, so that a thread that needs to know finds
//! most of that done (ELEDA: Jung, Han, Kang, PVLDB 2017, section 4.2, its worker thread; and the
//! scanning thread of its bitmap, section 6.5.4).
//!
//! For inserters whose `scan` is work. Run by one thread of each log, or by none. The inserter's
//! `scan` moves the frontier, and threads that need the frontier call it too. This file decides
//! only when the tracker looks, and how it is woken.
//!
//! Owners notify the tracker for each multiple of 2^`shift` bytes that their records cross, after
//! filling. The tracker looks as long as that much lies behind the frontier; then it watches
//! `state` for a while, and then sleeps.
//!
//! | word | written by | read by | ordering |
//! |---|---|---|---|
//! | `state` | owners, the tracker; always by `swap` | both | AcqRel: invariant 2 |
//! | `stopped` | [`Tracker::stop`] | the tracker | Release; Acquire, and again after each nap |
//! | `thread` | the tracker | the thread that wakes it | under its lock, a leaf latch |
//!
//! Invariants:
//!
//! 1. No thread waits for the tracker. A thread that waits for the frontier scans again and again
//!    by itself. So a tracker that sleeps too long, has ended, or never was, costs other threads
//!    time and nothing else; no commit depends on a wake-up.
//! 2. All the same, none is lost: what was filled before a notification is found by the tracker,
//!    unless a hole is in the way. Either the owner's swap or the tracker's to `ASLEEP` is first.
//!    If the owner's is, the tracker's synchronises with it and the look behind it finds the
//!    record. If the tracker's is, the owner sees it and unparks.
//! 3. Without notifications the tracker parks after a bounded number of looks, and has no timer.
//!    Each return from a park is counted.
//! 4. After [`Tracker::stop`] the tracker ends, asleep or not, started or not.
//!
//! Where this differs from the paper, and why:
//!
//! - The paper's worker never rests. An idle log must have no wake-ups, so this one sleeps, and
//!   owners must wake it. That costs an owner a comparison for each record, and a read-modify-write
//!   for each 2^`shift` bytes.
//! - The paper's worker follows each record. Looking at the lists' ends takes their lines from the
//!   owners each time. So this tracker looks once for each 2^`shift` bytes, and a thread that needs
//!   the frontier finds the few records behind.
//! - The paper's flusher reads the frontier that the worker leaves. Here a writing thread looks by
//!   itself first: a commit need not wait for another thread to be scheduled.
//!
//! A crash leaves nothing of this behind.

use super::mutants::{Built, Mutant};
use super::{BufferSizes, Inserter, LogBuffer};
use crate::counter::Counter;
use crate::sync_shim::{
    AtomicBool, AtomicU32, CHECKED, Mutex, MutexGuard, Ordering, Thread, current, park, pause,
};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// The tracker is awake, and no owner has notified it since it last looked.
const AWAKE: u32 = 0;
/// An owner has notified it since then.
const NOTIFIED: u32 = 1;
/// The tracker sleeps, or is about to.
const ASLEEP: u32 = 2;

/// Pauses before it sleeps: about as long as a busy log takes to fill what an owner notifies for.
const PATIENCE: u32 = if CHECKED { 0 } else { 200 };

/// Outcome of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// To filled bytes.
    Found,
    /// To a hole, with much behind it.
    Hole,
    /// To nothing worth another look.
    Nothing,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Tracker {
    state: CachePadded<AtomicU32>,
    stopped: AtomicBool,
    thread: Mutex<Option<Thread>>,
    wakeups: Counter,
    shift: u32,
    built: Built,
}

impl Tracker {
    /// For an inserter of a log of these sizes, that looks at `range` bytes at a time.
    pub(super) fn new(sizes: &BufferSizes, range: u64) -> Self {
        // Several times before the ring is full or appenders have run too far ahead.
        let step = range.min(sizes.ring_bytes as u64 / 8).min(sizes.run_ahead_bytes as u64 / 4);
        Tracker::with_shift(step.ilog2(), Built::default())
    }

    fn with_shift(shift: u32, built: Built) -> Self {
        Tracker {
            state: CachePadded::new(AtomicU32::new(AWAKE)),
            stopped: AtomicBool::new(false),
            thread: Mutex::new(None),
            wakeups: Counter::default(),
            shift,
            built,
        }
    }

    /// The owner has filled `[start, end)` and said so.
    #[inline]
    pub(super) fn filled(&self, start: u64, end: u64) {
        if start >> self.shift != end >> self.shift {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        if self.state.swap(NOTIFIED, self.built.order(Mutant::RelaxedNotification, Ordering::AcqRel))
            == ASLEEP
        {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = &*self.lock() {
            thread.unpark();
        }
    }

    /// Ends the thread that runs [`track`], for good.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.unpark();
    }

    /// Number of times the tracker has woken up.
    pub fn wakeups(&self) -> u64 {
        self.wakeups.get()
    }

    /// The thread's body.
    fn run(&self, mut look: impl FnMut() -> Look) {
        *self.lock() = Some(current());
        let mut step = 0;
        while !self.is_stopped() {
            // Before the look: a notification after this is seen.
            self.state.swap(AWAKE, Ordering::AcqRel);
            match look() {
                Look::Found => {
                    step = 0;
                    continue;
                }
                Look::Hole if step < PATIENCE => {
                    // Its owner needs the processor.
                    pause(step);
                    step += 1;
                    continue;
                }
                Look::Hole | Look::Nothing => {}
            }
            if !self.watch() {
                self.sleep(&mut look);
            }
            step = 0;
        }
        *self.lock() = None;
    }

    /// Returns whether an owner notified this thread before its patience was over.
    fn watch(&self) -> bool {
        for step in 0..PATIENCE {
            if self.state.load(Ordering::Relaxed) == NOTIFIED {
                return true;
            }
            pause(step);
        }
        false
    }

    /// Sleeps until an owner notifies it or the log stops it.
    fn sleep(&self, look: &mut impl FnMut() -> Look) {
        self.state.swap(ASLEEP, Ordering::AcqRel);
        // Invariant 2.
        if !self.built.is(Mutant::SleptUnlooked) && look() == Look::Found {
            return;
        }
        while self.state.load(Ordering::Acquire) == ASLEEP && !self.is_stopped() {
            park();
            self.wakeups.add_alone(1);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the tracker's thread, for an inserter that needs one, until it is stopped. Calls `found`
/// when a large part was found filled, and before it rests.
pub fn track(inserter: &dyn Inserter, buffer: &LogBuffer, mut found: impl FnMut()) {
    let Some(tracker) = inserter.tracker() else { return };
    let much = 1 << tracker.shift;
    let mut filled = buffer.frontiers.filled().get();
    let mut told = filled;
    tracker.run(|| {
        let scan = inserter.scan(buffer);
        // Another thread may have moved it, too.
        let moved = scan.filled > filled;
        filled = filled.max(scan.filled);
        let behind = scan.cutoff.saturating_sub(filled);
        let outcome = if moved && behind >= much {
            Look::Found
        } else if behind >= much {
            Look::Hole
        } else {
            Look::Nothing
        };
        if filled - told >= much || (outcome != Look::Found && filled > told) {
            told = filled;
            found();
        }
        outcome
    });
}

#[cfg(test)]
mod checks;
