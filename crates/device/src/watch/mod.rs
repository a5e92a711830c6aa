//! The stall watch: a device call that takes longer than a threshold is reported while it lasts and
//! when it ends.
//!
//! The watch wraps a directory, and sees every write, sync and preparation made through it. Each
//! call puts its description and start time into a slot; one thread, the watcher, looks at the
//! slots when the next report of a call under way is due. A stall is counted ([`Stalls`]), and
//! reported as an event of `log` (target `katydid::device`). With the feature `tracing` it is also
//! an event of `tracing`. Nothing about the call itself changes.
//!
//! Invariants:
//!
//! 1. A call costs one look at the clock, and a few stores to a cache line that other threads
//!    hardly use; it allocates nothing.
//! 2. While no call is under way the watcher is parked without a timer: it wakes up at most once
//!    after the last call ended. A call that finds the watcher parked unparks it, so no call goes
//!    unwatched.
//! 3. A stall is counted once, however often it is reported. A caller of [`Watch::stalls`] sees the
//!    stalls under way, whether or not the watcher has run.
//! 4. At most [`SLOTS`] calls are watched at once; calls beyond that number are not watched.
//!
//! All state of the watch is in memory only.

mod slots;
mod through;

use crate::directory::Directory;
use crate::error::Verb;
use slots::{Call, SLOTS, Slot};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use through::WatchedDirectory;

const TARGET: &str = "katydid::device";

/// The counts of a watch since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stalls {
    /// Calls that took longer than the threshold, those under way included.
    pub count: u64,
    /// Longest duration so far of a call that `count` includes.
    pub longest: Duration,
    /// The oldest call under way, if it has taken longer than the threshold.
    pub under_way: Option<Stall>,
}

/// A call that is taking longer than the threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The operation of the call.
    pub verb: Verb,
    /// The file or directory of the call, with the byte range if there is one.
    pub subject: String,
    /// The duration of the call so far.
    pub lasts: Duration,
}

/// Source of the watch's time.
#[derive(Debug, Clone)]
enum Clock {
    Real(Instant),
    /// Nanoseconds. Relaxed: only a test moves this clock, and orders its own steps.
    Hand(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the nanoseconds since the watch was made, plus one, because 0 means no time.
    fn now(&self) -> u64 {
        let since = match self {
            Clock::Real(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Clock::Hand(now) => now.load(Ordering::Relaxed),
        };
        since.saturating_add(1)
    }
}

/// A clock that a test moves. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct HandClock {
    now: Arc<AtomicU64>,
}

impl HandClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.now.fetch_add(by, Ordering::Relaxed);
    }
}

/// State that calls and the watcher share.
struct Shared {
    threshold: u64,
    clock: Clock,
    slots: Box<[Slot]>,
    /// Names of the watched files and directories by their number; freed numbers are used again.
    /// This is a leaf latch.
    names: Mutex<Vec<Option<Arc<str>>>>,
    /// State of reporting. A thread takes this latch before `names`, and holds it while it hands an
    /// event to the logger.
    reports: Mutex<Reports>,
    /// True while the watcher sleeps without a timer. The watcher sets the flag before it looks at
    /// the slots once more. A call that finds the flag set clears it, and so does the watcher when
    /// it wakes up. Both sides are sequentially consistent, so that either the watcher sees the
    /// call or the call sees the flag.
    parked: AtomicBool,
    thread: Mutex<Option<thread::Thread>>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Reports {
    count: u64,
    longest: u64,
    /// For each slot, the start time of the call that was reported last, and the duration at which
    /// that call is reported again.
    latest: Vec<(u64, u64)>,
}

/// A watch, which reports device calls that take too long. Clones are the same watch, which ends
/// with the last clone.
#[derive(Clone)]
pub struct Watch {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watch {
    /// Makes a watch for calls that take `threshold` or longer. A watch with a threshold of zero
    /// watches nothing.
    pub fn new(threshold: Duration) -> Watch {
        Self::with_clock(threshold, Clock::Real(Instant::now()))
    }

    /// Makes a watch whose clock a test moves; see [`Watch::check`].
    pub fn by_hand(threshold: Duration) -> (Watch, HandClock) {
        let clock = HandClock::default();
        (Self::with_clock(threshold, Clock::Hand(clock.now.clone())), clock)
    }

    fn with_clock(threshold: Duration, clock: Clock) -> Watch {
        let shared = Shared {
            threshold: u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX),
            clock,
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            names: Mutex::default(),
            reports: Mutex::new(Reports { count: 0, longest: 0, latest: vec![(0, 0); SLOTS] }),
            parked: AtomicBool::new(false),
            thread: Mutex::default(),
            over: AtomicBool::new(false),
        };
        Watch { owner: Arc::new(Owner { shared: Arc::new(shared), thread: Mutex::default() }) }
    }

    /// Starts the thread that reports stalls while they last. Without that thread, only calls of
    /// [`Watch::check`] and [`Watch::stalls`] notice stalls. Starting twice is no error.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(&self) -> std::io::Result<()> {
        let mut thread = lock(&self.owner.thread);
        if thread.is_none() && self.owner.shared.threshold > 0 {
            let shared = self.owner.shared.clone();
            let named = thread::Builder::new().name("katydid-watch".to_owned());
            let started = named.spawn(move || shared.run())?;
            *thread = Some(started);
        }
        Ok(())
    }

    /// Puts this watch before a directory.
    pub fn before(&self, directory: Arc<dyn Directory>) -> Arc<dyn Directory> {
        if self.owner.shared.threshold == 0 {
            return directory;
        }
        WatchedDirectory::wrap(self.owner.shared.clone(), String::new(), directory)
    }

    /// Returns the counts since the watch was made.
    pub fn stalls(&self) -> Stalls {
        self.check();
        let shared = &self.owner.shared;
        let now = shared.clock.now();
        let oldest = shared.calls().map(|(_, call)| call).min_by_key(|call| call.began);
        let under_way = oldest.filter(|call| shared.is_stall(now, call)).map(|call| Stall {
            verb: call.verb,
            subject: shared.subject(&call),
            lasts: Duration::from_nanos(now - call.began),
        });
        let reports = lock(&shared.reports);
        Stalls { count: reports.count, longest: Duration::from_nanos(reports.longest), under_way }
    }

    /// Reports every call that is due by now, as the watcher does when it wakes up.
    pub fn check(&self) {
        self.owner.shared.check();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        if let Some(thread) = lock(&self.thread).take() {
            thread.thread().unpark();
            // If the program's logger has panicked in the thread, the thread itself has reported
            // the panic.
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?})", Duration::from_nanos(self.owner.shared.threshold))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

impl Shared {
    /// Runs the watcher until the watch ends.
    fn run(&self) {
        // A call unparks this thread, so the thread is stored before a call can find the watcher
        // parked.
        *lock(&self.thread) = Some(thread::current());
        while !self.over.load(Ordering::SeqCst) {
            match self.check() {
                Some(due) => {
                    let now = self.clock.now();
                    // The watcher sleeps for at least 1 ms even if a report is due, so that it does
                    // not spin on a slot whose call is ending.
                    thread::park_timeout(Duration::from_nanos(due.saturating_sub(now).max(1_000_000)));
                }
                None => {
                    self.parked.store(true, Ordering::SeqCst);
                    if self.calls().next().is_none() && !self.over.load(Ordering::SeqCst) {
                        thread::park();
                    }
                    self.parked.store(false, Ordering::SeqCst);
                }
            }
        }
    }

    /// Returns the calls under way, with the numbers of their slots.
    fn calls(&self) -> impl Iterator<Item = (usize, Call)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.read()?)))
    }

    fn is_stall(&self, now: u64, call: &Call) -> bool {
        now.saturating_sub(call.began) >= self.threshold
    }

    /// Reports the calls that are due. Returns the time of the next report, if any call is under
    /// way.
    fn check(&self) -> Option<u64> {
        let mut reports = lock(&self.reports);
        let mut next: Option<u64> = None;
        let now = self.clock.now();
        for (number, call) in self.calls() {
            let lasts = now.saturating_sub(call.began);
            let mut due = self.threshold;
            if reports.latest[number].0 == call.began {
                due = reports.latest[number].1;
            }
            if lasts >= due {
                if due == self.threshold {
                    reports.count += 1;
                }
                reports.longest = reports.longest.max(lasts);
                // Each report at least doubles the duration at which the next is due.
                while due <= lasts {
                    due = due.saturating_mul(2);
                }
                reports.latest[number] = (call.began, due);
                self.slots[number].mark_reported(call.began);
                let (verb, subject) = (call.verb, self.subject(&call));
                #[cfg(feature = "tracing")]
                tracing::warn!(target: TARGET, %verb, subject, lasts_ms = lasts / 1_000_000, under_way = true, "stall");
                log::warn!(
                    target: TARGET,
                    "the device stalls: to {verb} {subject} has taken {:.1} s so far",
                    seconds(lasts)
                );
            }
            let at = call.began.saturating_add(due);
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }

    /// Runs a call under watch.
    fn watched<T>(&self, verb: Verb, name: u32, from: u64, to: u64, call: impl FnOnce() -> T) -> T {
        let watched = Call { verb, name, from, to, began: self.clock.now() };
        let Some(slot) = Slot::claim(&self.slots, &watched) else { return call() };
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            self.wake();
        }
        // The drop of `_ending` frees the slot, even if the call panics.
        let _ending = Ending { shared: self, slot, watched };
        call()
    }

    #[cold]
    fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }

    /// Reports the end of a call that was reported as a stall.
    #[cold]
    fn ended(&self, call: &Call) {
        let lasted = self.clock.now().saturating_sub(call.began);
        if lasted < self.threshold {
            return;
        }
        let mut reports = lock(&self.reports);
        reports.longest = reports.longest.max(lasted);
        drop(reports);
        let (verb, subject) = (call.verb, self.subject(call));
        #[cfg(feature = "tracing")]
        tracing::warn!(target: TARGET, %verb, subject, lasts_ms = lasted / 1_000_000, under_way = false, "stall");
        log::warn!(
            target: TARGET,
            "the device goes on: to {verb} {subject} took {:.1} s",
            seconds(lasted)
        );
    }

    fn subject(&self, call: &Call) -> String {
        let names = lock(&self.names);
        let name = names.get(call.name as usize).and_then(Option::as_deref).unwrap_or("a closed file");
        if call.from == call.to {
            name.to_owned()
        } else {
            format!("{name} bytes {}..{}", call.from, call.to)
        }
    }

    /// Returns a number that stands for a name until [`Shared::forget`].
    fn name(&self, name: String) -> u32 {
        let mut names = lock(&self.names);
        let number = names.iter().position(Option::is_none).unwrap_or(names.len());
        if number == names.len() {
            names.push(None);
        }
        names[number] = Some(name.into());
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn forget(&self, number: u32) {
        if let Some(name) = lock(&self.names).get_mut(number as usize) {
            *name = None;
        }
    }
}

struct Ending<'a> {
    shared: &'a Shared,
    slot: &'a Slot,
    watched: Call,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.slot.free(self.watched.began) {
            self.shared.ended(&self.watched);
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Takes a latch, even if a thread has panicked while it held the latch: a logger's panic leaves
/// nothing of this file half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
