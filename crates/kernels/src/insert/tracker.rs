//! The tracker: a thread that advances the filled frontier, so that other threads that need the
//! frontier have little left to scan. The tracker is ELEDA's worker thread (Jung, Han, Kang, PVLDB
//! 2017, section 4.2), and the scanning thread of ELEDA's bitmap (section 6.5.4).
//!
//! Inserters whose `scan` takes time have a tracker. At most one thread of each log runs it. The
//! inserter's `scan` advances the frontier, and threads that need the frontier call `scan` too.
//! This file decides only when the tracker looks (calls `scan`), and how it is woken.
//!
//! After filling a record that crosses a multiple of 2^`shift` bytes, the owner notifies the
//! tracker. The tracker looks again as long as at least 2^`shift` reserved bytes lie beyond the
//! frontier, but at most `PATIENCE` times while a hole stops the frontier. After that the tracker
//! watches `state` for a bounded number of steps, and then sleeps.
//!
//! | word | written by | read by | ordering |
//! |---|---|---|---|
//! | `state` | owners, the tracker: by `swap` | owners, the tracker | AcqRel: invariant 2 |
//! | `stopped` | [`Tracker::stop`] | the tracker, before each look and park | Release; Acquire |
//! | `thread` | the tracker | the thread that wakes it | under its lock, a leaf latch |
//!
//! Invariants:
//!
//! 1. No thread waits for the tracker. A thread that waits for the frontier scans again and again
//!    by itself. So a tracker that sleeps too long, has ended or was never started only costs other
//!    threads time. No commit depends on a wake-up of the tracker.
//! 2. No wake-up is lost: the tracker finds every record that was filled before a notification,
//!    unless a hole lies below it. Either the owner's swap to `NOTIFIED` or the tracker's swap to
//!    `ASLEEP` comes first. If the owner's swap is first, the tracker's swap synchronises with it,
//!    and the look after that finds the record. If the tracker's swap is first, the owner sees
//!    `ASLEEP` and unparks the tracker.
//! 3. Without notifications the tracker parks after a bounded number of looks, and has no timer.
//!    Each return from a park is counted.
//! 4. After [`Tracker::stop`] the tracker ends, asleep or not, started or not.
//!
//! Differences from the paper:
//!
//! - The paper's worker never sleeps. Here an idle log must have no wake-ups, so the tracker
//!   sleeps, and owners must wake it. The notifications cost an owner a comparison for each record,
//!   and a read-modify-write for each 2^`shift` bytes.
//! - The paper's worker follows each record. But each look at the ends of the lists takes their
//!   cache lines from the owners. So the tracker looks once for each 2^`shift` bytes, and a thread
//!   that needs the frontier finds the few records beyond.
//! - The paper's flusher reads the frontier that the worker leaves. Here a writing thread first
//!   calls `scan` itself, so a commit need not wait until another thread is scheduled.
//!
//! All state of this file is in memory only. Recovery needs none of it.

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
/// An owner has notified the tracker since it last looked.
const NOTIFIED: u32 = 1;
/// The tracker sleeps, or is about to sleep.
const ASLEEP: u32 = 2;

/// Number of pauses before the tracker sleeps. They take about the time in which a busy log fills
/// 2^`shift` bytes.
const PATIENCE: u32 = if CHECKED { 0 } else { 200 };

/// Outcome of a look. Many bytes are at least 2^`shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The frontier advanced, and many reserved bytes lie beyond it.
    Found,
    /// The frontier did not advance: a hole stops it, and many reserved bytes lie beyond it.
    Hole,
    /// Few reserved bytes lie beyond the frontier, so another look is not worth its cost.
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
    /// Makes the tracker for an inserter that looks at `range` bytes at a time, in a log of these
    /// sizes.
    pub(super) fn new(sizes: &BufferSizes, range: u64) -> Self {
        // Owners notify several times before the ring is full or the run-ahead limit is reached.
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

    /// Notifies the tracker if `[start, end)` crosses a boundary. Called by the owner, after it has
    /// announced that the range is filled.
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

    /// The body of the tracker's thread.
    fn run(&self, mut look: impl FnMut() -> Look) {
        *self.lock() = Some(current());
        let mut step = 0;
        while !self.is_stopped() {
            // The swap comes before the look, so that the tracker sees a notification that comes
            // during the look.
            self.state.swap(AWAKE, Ordering::AcqRel);
            match look() {
                Look::Found => {
                    step = 0;
                    continue;
                }
                Look::Hole if step < PATIENCE => {
                    // The owner of the hole needs the processor.
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

    /// Watches `state` for [`PATIENCE`] pauses. Returns true if an owner notified the tracker.
    fn watch(&self) -> bool {
        for step in 0..PATIENCE {
            if self.state.load(Ordering::Relaxed) == NOTIFIED {
                return true;
            }
            pause(step);
        }
        false
    }

    /// Sleeps until an owner notifies the tracker or the log stops it.
    fn sleep(&self, look: &mut impl FnMut() -> Look) {
        self.state.swap(ASLEEP, Ordering::AcqRel);
        // The tracker looks once more after the swap (invariant 2).
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

/// Runs the inserter's tracker on the calling thread until [`Tracker::stop`]. Returns at once if
/// the inserter has no tracker. Calls `found` whenever the frontier has advanced by 2^`shift` bytes
/// since the last call, and after any advance before the tracker waits.
pub fn track(inserter: &dyn Inserter, buffer: &LogBuffer, mut found: impl FnMut()) {
    let Some(tracker) = inserter.tracker() else { return };
    let much = 1 << tracker.shift;
    let mut filled = buffer.frontiers.filled().get();
    let mut reported = filled;
    tracker.run(|| {
        let scan = inserter.scan(buffer);
        // Another thread may have advanced the frontier too.
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
        if filled - reported >= much || (outcome != Look::Found && filled > reported) {
            reported = filled;
            found();
        }
        outcome
    });
}

#[cfg(test)]
mod checks;
