//! The syncers: threads that lead when no waiting thread can. A syncer is started when it is first
//! needed, and is parked whenever it has nothing to do.
//!
//! One syncer is enough, unless several writes for callers that do not wait are in flight. Each
//! such write needs a thread.
//!
//! Invariants of each syncer:
//!
//! 1. `signal` is set and `state` is changed under the lock of `state`. The thread ends only under
//!    that lock, and only when `signal` has no `LEAD`. So a baton (the right to lead) for which
//!    `give` has returned true always gets a thread that leads.
//! 2. Every return from `park` is counted, so a test can check that an idle log has none.

use super::rounds::Rounds;
use crate::sync_shim::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Thread, current, park};
use std::sync::PoisonError;

/// All syncers of a log.
#[derive(Debug)]
pub(super) struct Syncers {
    all: Vec<Syncer>,
}

impl Syncers {
    /// Makes `most` syncers, at least one. No syncer is started yet.
    pub(super) fn new(most: u32) -> Self {
        Syncers { all: (0..most.max(1)).map(|_| Syncer::new()).collect() }
    }

    /// Hands the baton to an idle syncer among the first `among`, or to a busy one if none is idle.
    /// Returns false if no syncer could take the baton; the caller then still holds it.
    pub(super) fn give(&self, rounds: &dyn Rounds, among: u32) -> bool {
        self.give_to_idle(rounds, among) || self.all.iter().any(Syncer::give)
    }

    /// Hands the baton to an idle syncer among the first `among`. Returns false if none is idle;
    /// the caller then still holds the baton.
    pub(super) fn give_to_idle(&self, rounds: &dyn Rounds, among: u32) -> bool {
        let mut among = self.all.iter().take(among as usize).enumerate();
        among.any(|(number, syncer)| {
            syncer.ensure(|| rounds.start_syncer(number));
            syncer.is_idle() && syncer.give()
        })
    }

    /// The body of the syncer thread with this number.
    pub(super) fn run(&self, number: usize, lead: impl FnMut()) {
        if let Some(syncer) = self.all.get(number) {
            syncer.run(lead);
        }
    }

    /// Ends all syncers once they have served what they were given. Syncers that were never started
    /// will not start.
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
    /// This leaf latch guards the thread's life (invariant 1).
    state: Mutex<State>,
    // Set by the thread that gives the baton or stops the syncer (Release), taken by the syncer
    // (Acquire). So the syncer sees what the last leader left pending.
    signal: AtomicU32,
    // 1 while the thread leads; written only by the syncer. Other threads read a value that may be
    // old, so they may give the baton to a busy syncer.
    busy: AtomicU32,
    // Written only by the syncer; read for metrics and tests.
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

    /// Starts the thread if it was never started. `start` returns whether the start succeeded.
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

    /// Hands the baton to the thread. Returns false if there is no thread; the caller then still
    /// holds the baton.
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

    /// The thread's body: calls `lead` each time the thread is given the baton, until it is
    /// stopped.
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

    /// Ends the thread once it has served what it was given. A thread that was never started will
    /// not start.
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
