//! The mechanism of `policy`: passes the leaders' observations and the time to the policy, and
//! carries out its decisions.
//!
//! Leaders, and threads that have performed a write, run this code. Waiters and arriving committers
//! read the published numbers `syncer_leads` and `yields`. Rules:
//!
//! 1. The policy's latch is a leaf, and no thread waits for it. A thread that finds the latch held
//!    drops its event: the policy's figures are guesses, and a leader must not wait for a thread
//!    that lost its processor.
//! 2. All accesses to the published numbers are relaxed, because the numbers are guesses too.
//! 3. Under the checkers there is no time, so there are no delays and no yields. Events are
//!    observed only if a model is built by `with_many`.

use super::heuristics::Heuristics;
use super::policy::{Decision, Delay, Event, Policy};
use super::waiters::{Baton, SyncRequests};
use crate::sync_shim::{AtomicU32, AtomicU64, CHECKED, Instant, Ordering, yield_now};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pace {
    policy: Mutex<Policy>,
    syncer_leads: AtomicU32,
    yields: AtomicU32,
    /// True if the policy is used at all.
    observes: bool,
    /// Time at which the baton was last handed to a waiter, in nanoseconds since `epoch`. Written
    /// by the holder of the baton.
    handed_ns: AtomicU64,
    epoch: Instant,
}

/// A round under way, with the time at which its write began.
#[derive(Debug)]
pub(super) struct Round {
    start: Option<Instant>,
}

impl Pace {
    pub(super) fn new(heuristics: Heuristics) -> Self {
        // Under checkers the processors are not counted, because that reads files, and checkers
        // make many logs.
        let cores =
            if CHECKED { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) as u64 };
        let policy = Policy::new(heuristics, cores);
        let first = policy.decide();
        Pace {
            syncer_leads: AtomicU32::new(u32::from(first.syncer_leads)),
            yields: AtomicU32::new(first.yields),
            observes: !CHECKED,
            policy: Mutex::new(policy),
            handed_ns: AtomicU64::new(0),
            epoch: Instant::now(),
        }
    }

    /// Makes the syncer lead while at least `many` committers are active, even under the checkers.
    #[cfg(test)]
    pub(super) fn with_many(self, many: u64) -> Self {
        let policy = Policy::new(Heuristics::ALL, 1).with_many(many);
        Pace { policy: Mutex::new(policy), observes: true, ..self }
    }

    fn policy(&self) -> Option<MutexGuard<'_, Policy>> {
        match self.policy.try_lock() {
            Ok(policy) => Some(policy),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn report(&self, event: Event) {
        if let Some(mut policy) = self.policy() {
            let Decision { syncer_leads, yields, .. } = policy.observe(event);
            self.syncer_leads.store(u32::from(syncer_leads), Ordering::Relaxed);
            if !CHECKED {
                self.yields.store(yields, Ordering::Relaxed);
            }
        }
    }

    fn decision(&self) -> Option<Decision> {
        self.policy().map(|policy| policy.decide())
    }

    fn now_ns(&self) -> u64 {
        if CHECKED { 0 } else { nanoseconds(self.epoch.elapsed()) }
    }

    // ---- decisions

    /// Number of yields of a waiter before it parks.
    pub(super) fn yields(&self) -> u32 {
        if CHECKED { 0 } else { self.yields.load(Ordering::Relaxed) }
    }

    /// Returns whether the syncer leads instead of waiters.
    pub(super) fn syncer_leads(&self) -> bool {
        self.observes && self.syncer_leads.load(Ordering::Relaxed) != 0
    }

    /// Begins a round of a leader that counts as `leaders` committers: 1, or 0 for the syncer. If
    /// `may_delay` is true, delays the round until enough committers wait. Returns the requests
    /// that came meanwhile.
    pub(super) fn begin(&self, baton: &Baton, leaders: u64, may_delay: bool) -> (Round, SyncRequests) {
        let mut requests = SyncRequests::NONE;
        if CHECKED {
            return (Round { start: None }, requests);
        }
        let arrived = || baton.pending() + leaders;
        if may_delay && let Some(delay) = self.decision().map(|decision| decision.delay) {
            let enough = || {
                if baton.has_arrivals() {
                    requests = requests.and(baton.take());
                }
                arrived() >= delay.enough
            };
            self.delay(delay, arrived() >= delay.enough, enough);
        }
        (Round { start: Some(Instant::now()) }, requests)
    }

    /// Begins a round of a leader that serves non-blocking callers. `bytes` returns the number of
    /// reserved bytes that are not written yet.
    pub(super) fn begin_serving(&self, bytes: impl Fn() -> u64) -> Round {
        if CHECKED {
            return Round { start: None };
        }
        if let Some(delay) = self.decision().map(|decision| decision.serving_delay) {
            self.delay(delay, bytes() >= delay.enough, || bytes() >= delay.enough);
        }
        Round { start: Some(Instant::now()) }
    }

    /// Yields until `enough` returns true or the delay's time is over.
    fn delay(&self, delay: Delay, is_enough: bool, mut enough: impl FnMut() -> bool) {
        if is_enough {
            return;
        }
        let Some(ns_max) = delay.ns_max else { return self.report(Event::Skipped) };
        let (start, longest) = (Instant::now(), Duration::from_nanos(ns_max));
        let in_vain = loop {
            yield_now();
            if enough() {
                break false;
            }
            if start.elapsed() >= longest {
                break true;
            }
        };
        self.report(Event::Delayed { in_vain });
    }

    // ---- events

    /// Reports the end of a round. The round released `released` committers; `left` others still
    /// wait.
    pub(super) fn end(&self, round: Round, released: u64, left: u64) {
        if self.observes {
            let took_ns = round.start.map_or(0, |start| nanoseconds(start.elapsed()));
            self.report(Event::Round { now_ns: self.now_ns(), took_ns, released, left });
        }
    }

    /// Reports that the baton is passed on before the end of the round, while `active` committers
    /// wait.
    pub(super) fn passes_on(&self, active: u64) {
        if self.observes {
            self.report(Event::PassedOn { active });
        }
    }

    /// Reports the end of a write for callers that do not block. `bytes` is the number of bytes
    /// from the start of the write to the reserved frontier, which is loaded when the write has
    /// ended.
    pub(super) fn served(&self, bytes: u64) {
        if !CHECKED {
            self.report(Event::Served { bytes });
        }
    }

    /// Called when the baton is about to be handed to a waiter.
    pub(super) fn hands_over(&self) {
        if !CHECKED {
            self.handed_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// Called by the appointed waiter when it runs.
    pub(super) fn takes_over(&self) {
        if !CHECKED {
            let took_ns = self.now_ns().saturating_sub(self.handed_ns.load(Ordering::Relaxed));
            self.report(Event::HandedOver { took_ns });
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
