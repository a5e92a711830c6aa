//! How long a leader waits for company before it writes.
//!
//! Committers that take turns with a device split into two convoys: while one's write is under way the other's records come in,
//! and each sync carries half of what it could. A leader that waits until everybody who was seen active lately is there
//! carries all of them. There is no fixed delay: it does not wait at all when nobody else was seen, nor longer than half of
//! what the last write and sync took (at most 50 us), and when that was in vain it does not try again for a while.
//!
//! Written only by the holder of the baton; relaxed, for these are guesses, and the baton's own hand-over orders them.

use super::waiters::{Baton, Wishes};
use crate::sync_shim::{AtomicU64, CHECKED, Ordering, yield_now};
use std::time::{Duration, Instant};

/// Longest wait.
const WAIT_NS_MAX: u64 = 50_000;
/// How often a waiter yields in a crowd.
const YIELDS: u32 = 30;
/// After waits in vain, at most this many rounds go by without one.
const RESTS_MAX: u64 = 256;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Gather {
    /// Committers seen active in the last round: those it released and those it left waiting.
    expected: AtomicU64,
    /// What the last write and sync took.
    round_ns: AtomicU64,
    /// Rounds to go without waiting.
    rest: AtomicU64,
    /// What `rest` becomes after the next wait in vain.
    next_rest: AtomicU64,
    /// From so many active committers on, those who wait yield before they park.
    crowd: u64,
}

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    start: Option<Instant>,
}

impl Gather {
    pub(super) fn new() -> Self {
        let number = |value| AtomicU64::new(value);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        Gather {
            expected: number(0),
            round_ns: number(0),
            rest: number(0),
            next_rest: number(1),
            crowd: 4 * cores + 1,
        }
    }

    /// How often a waiter yields before it parks. With many more threads than processors a yield lets another committer
    /// run, and is over when the sync is; a futex sleep and its wake-up would cost both sides more. With few there is
    /// nobody to yield to.
    pub(super) fn yields(&self) -> u32 {
        if !CHECKED && self.expected.load(Ordering::Relaxed) >= self.crowd { YIELDS } else { 0 }
    }

    /// Begins a round of a leader who counts as so many committers (1, or 0 for the syncer). Waits for company, if that may be
    /// and it is likely to come. Returns the wishes that came meanwhile.
    pub(super) fn begin(&self, baton: &Baton, leaders: u64, may_wait: bool) -> (Round, Wishes) {
        let mut wishes = Wishes::NONE;
        if CHECKED {
            return (Round { start: None }, wishes);
        }
        let start = Instant::now();
        let expected = self.expected.load(Ordering::Relaxed);
        if !may_wait || baton.pending() + leaders >= expected {
            return (Round { start: Some(start) }, wishes);
        }
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return (Round { start: Some(start) }, wishes);
        }
        let half = self.round_ns.load(Ordering::Relaxed) / 2;
        let limit = Duration::from_nanos(half.min(WAIT_NS_MAX));
        loop {
            yield_now();
            if baton.has_arrivals() {
                wishes = wishes.and(baton.take());
                if baton.pending() + leaders >= expected {
                    self.next_rest.store(1, Ordering::Relaxed);
                    break;
                }
            }
            if start.elapsed() >= limit {
                let rest = self.next_rest.load(Ordering::Relaxed);
                self.rest.store(rest, Ordering::Relaxed);
                self.next_rest.store((rest * 2).min(RESTS_MAX), Ordering::Relaxed);
                break;
            }
        }
        (Round { start: Some(Instant::now()) }, wishes)
    }

    /// So many committers were seen active, when the baton was let go before the round is over.
    pub(super) fn saw(&self, active: u64) {
        self.expected.store(active, Ordering::Relaxed);
    }

    /// The round is over: so many were released, so many are left.
    pub(super) fn end(&self, round: Round, released: u64, left: u64) {
        if let Some(start) = round.start {
            let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.round_ns.store(took, Ordering::Relaxed);
            self.expected.store(released + left, Ordering::Relaxed);
        }
    }
}
