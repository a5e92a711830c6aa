//! The syncers: threads that lead when no waiting thread can. Started when first needed, parked
//! whenever they have nothing to do.
//!
//! One, unless several writes are under way for callers that do not wait: a thread is needed for
//! each.
//!
//! Invariants, of each:
//!
//! 1. `signal` is set, and `state` changed, under `state`'s lock; the thread ends only under it
//!    with no signal left. So a baton given with `true` is always served.
//! 2. Every return from `park` is counted: an idle log shows none.

use super::rounds::Rounds;
use crate::sync_shim::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Thread, current, park};
use std::sync::PoisonError;

/// All syncers of a log.
#[derive(Debug)]
pub(super) struct Syncers {
    all: Vec<Syncer>,
}

impl Syncers {
    /// A number of syncers, `most`, none of which is started yet.
    pub(super) fn new(most: u32) -> Self {
        Syncers { all: (0..most.max(1)).map(|_| Syncer::new()).collect() }
    }

    /// Hands the baton to one of the first `among`, an idle one rather than a busy one; false if
    /// there is none, and then the caller still holds it.
    pub(super) fn give(&self, rounds: &dyn Rounds, among: u32) -> bool {
        self.give_to_idle(rounds, among) || self.all.iter().any(Syncer::give)
    }

    /// Hands the baton to an idle one of the first `among`; false if there is none, and then the
    /// caller still holds it.
    pub(super) fn give_to_idle(&self, rounds: &dyn Rounds, among: u32) -> bool {
        let mut among = self.all.iter().take(among as usize).enumerate();
        among.any(|(number, syncer)| {
            syncer.ensure(|| rounds.start_syncer(number));
            syncer.is_idle() && syncer.give()
        })
    }

    /// The body of the thread of this number.
    pub(super) fn run(&self, number: usize, lead: impl FnMut()) {
        if let Some(syncer) = self.all.get(number) {
            syncer.run(lead);
        }
    }

    /// Ends them once they have served what they were given; those that never ran will not start.
    pub(super) fn stop(&self) {
        self.all.iter().for_each(Syncer::stop);
    }

    pub(super) fn wakeups(&self) -> u64 {
        self.all.iter().map(Syncer::wakeups).sum()
    }
}

const LEAD: u32 = 1;
const STOP: u32 = 2;

#[derive(Debug)]
enum State {
    Absent,
    Starting,
    Running(Thread),
    Stopped,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Syncer {
    /// Guards the thread's life (invariant 1). A leaf latch.
    state: Mutex<State>,
    // Set by the thread that gives the baton or stops the syncer, taken by the syncer; Release and
    // Acquire: the syncer sees what the last leader left pending.
    signal: AtomicU32,
    // 1 while the thread leads; written by it only. A guess for others: they may give it the baton
    // all the same.
    busy: AtomicU32,
    // Written by the syncer only; read by threads that count.
    wakeups: AtomicU64,
}

impl Syncer {
    pub(super) fn new() -> Self {
        Syncer {
            state: Mutex::new(State::Absent),
            signal: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            wakeups: AtomicU64::new(0),
        }
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0 && self.signal.load(Ordering::Relaxed) & LEAD == 0
    }

    /// Starts the thread if it was never started. `start` returns whether it could.
    pub(super) fn ensure(&self, start: impl FnOnce() -> bool) {
        {
            let mut state = self.lock();
            if !matches!(*state, State::Absent) {
                return;
            }
            *state = State::Starting;
        }
        if !start() {
            *self.lock() = State::Stopped;
        }
    }

    /// Hands the baton to the thread; false if there is none, and then the caller still holds it.
    pub(super) fn give(&self) -> bool {
        let state = self.lock();
        match &*state {
            State::Absent | State::Stopped => return false,
            State::Starting => {
                self.signal.fetch_or(LEAD, Ordering::Release);
            }
            State::Running(thread) => {
                self.signal.fetch_or(LEAD, Ordering::Release);
                thread.unpark();
            }
        }
        true
    }

    /// The thread's body: calls `lead` each time it is given the baton, until stopped.
    pub(super) fn run(&self, mut lead: impl FnMut()) {
        {
            let mut state = self.lock();
            if matches!(*state, State::Stopped) {
                return;
            }
            *state = State::Running(current());
        }
        let mut stopping = false;
        loop {
            let signal = self.signal.swap(0, Ordering::Acquire);
            stopping |= signal & STOP != 0;
            if signal & LEAD != 0 {
                self.busy.store(1, Ordering::Relaxed);
                lead();
                self.busy.store(0, Ordering::Relaxed);
                continue;
            }
            if stopping {
                let mut state = self.lock();
                if self.signal.load(Ordering::Acquire) & LEAD == 0 {
                    *state = State::Stopped;
                    return;
                }
                continue;
            }
            park();
            let before = self.wakeups.load(Ordering::Relaxed);
            self.wakeups.store(before + 1, Ordering::Relaxed);
        }
    }

    /// Ends the thread once it has served what it was given; one that never ran will not start.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        match &*state {
            State::Absent => *state = State::Stopped,
            State::Stopped => {}
            State::Starting => {
                self.signal.fetch_or(STOP, Ordering::Release);
            }
            State::Running(thread) => {
                self.signal.fetch_or(STOP, Ordering::Release);
                thread.unpark();
            }
        }
    }

    pub(super) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
