//! How long a leader waits for company before it writes.
//!
//! Committers that take turns with a device split into two convoys: while one's write is under way the other's records come in,
//! and each sync carries half of what it could. A leader that waits until everybody who was seen active lately is there
//! carries all of them. There is no fixed delay: it does not wait at all when nobody else was seen, nor longer than half of
//! what the last write and sync took (at most 0.5 ms), and when that was in vain it does not try again for a while.
//!
//! Callers that do not wait split likewise. What they had under way when the last round was over, in bytes, is what a leader
//! that serves them waits for,
//! at most a quarter of what the round took; not if that is so much that it keeps the device busy in any case.
//!
//! Where very many committers wait, they keep the processors busy by waking: who leads next would wait for a processor before it could
//! write. In such a throng the syncer leads, a thread that sleeps in the device most of the time and gets a processor at once. And it
//! does not wait for company: all of it would have to run first, while the device is idle; two convoys in turn keep both busy.
//!
//! Where transactions take time themselves, a waiter who is told to lead may have to wait for a processor that another's transaction has,
//! while the device is idle. A syncer has just been woken by the device. So when hand-overs turn out slow, the syncer leads for a while.
//!
//! Written only by the holder of the baton; relaxed, for these are guesses, and the baton's own hand-over orders them.

use super::waiters::{Baton, Wishes};
use crate::sync_shim::{AtomicU64, CHECKED, Instant, Ordering, yield_now};
use std::time::Duration;

/// What hand-overs and rounds take is averaged over about so many.
const AVERAGED: u64 = 16;
/// Hand-overs that take more than this part of the time from round to round are slow.
const SLOW_SHARE: u64 = 6;
/// So many rounds are led by the syncer then.
const RELIEF: u64 = 4096;
/// Longest wait.
const WAIT_NS_MAX: u64 = 500_000;
/// And no longer than this part of what the last round took: for those who wait, and for those who do not.
const WAITING_SHARE: u64 = 2;
const SERVING_SHARE: u64 = 4;
/// Callers that do not wait and fill more than this meanwhile keep the device busy anyway.
const SERVED_BYTES_MAX: u64 = 128 << 10;
/// How often a waiter in a crowd yields, at most, before it parks.
const YIELDS: u32 = 300;
/// Nobody yields if a round takes longer: sleeping and being woken cost little beside it.
const YIELDED_NS_MAX: u64 = 1_000_000;
/// A throng: so many committers for each processor.
const THRONG: u64 = 20;
/// What is remembered of the largest number of committers decays by this part each round: a throng splits into convoys now and then.
const FADES: u64 = 16;
/// After waits in vain, at most this many rounds go by without one.
const RESTS_MAX: u64 = 256;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Gather {
    /// Committers seen active in the last round: those it released and those it left waiting.
    expected: AtomicU64,
    /// The most committers seen active in the last rounds.
    most: AtomicU64,
    /// Bytes of the last write for callers that do not wait.
    expected_bytes: AtomicU64,
    /// What the last write and sync took.
    round_ns: AtomicU64,
    /// Rounds to go without waiting.
    rest: AtomicU64,
    /// What `rest` becomes after the next wait in vain.
    next_rest: AtomicU64,
    /// When the baton was last handed to a waiter, and how long it takes on average until that one runs.
    handed_ns: AtomicU64,
    hand_over_ns: AtomicU64,
    /// When the last round was over, and the average from one to the next.
    ended_ns: AtomicU64,
    cycle_ns: AtomicU64,
    /// Rounds that the syncer leads because hand-overs were slow.
    relief: AtomicU64,
    epoch: Instant,
    /// From so many active committers on, those who wait yield before they park.
    crowd: u64,
    /// From so many on the syncer leads.
    pub(super) throng: u64,
}

/// Takes one more value into an average; returns what that is now.
fn average(of: &AtomicU64, value: u64) -> u64 {
    let before = of.load(Ordering::Relaxed);
    let now = before - before / AVERAGED + value / AVERAGED;
    of.store(now, Ordering::Relaxed);
    now
}

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    start: Option<Instant>,
}

impl Gather {
    pub(super) fn new() -> Self {
        let number = |value| AtomicU64::new(value);
        // Counting them reads files, and checkers make very many logs.
        let cores =
            if CHECKED { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) as u64 };
        Gather {
            expected: number(0),
            most: number(0),
            expected_bytes: number(0),
            round_ns: number(0),
            rest: number(0),
            next_rest: number(1),
            handed_ns: number(0),
            hand_over_ns: number(0),
            ended_ns: number(0),
            cycle_ns: number(0),
            relief: number(0),
            epoch: Instant::now(),
            crowd: cores + 1,
            throng: if CHECKED { u64::MAX } else { THRONG * cores },
        }
    }

    /// How often a waiter yields before it parks. With more committers than processors a yield lets another
    /// run, and is over when the sync is; a futex sleep and its wake-up would cost both sides more, the most where the processor went to
    /// sleep as well. With fewer there is nobody to yield to.
    pub(super) fn yields(&self) -> u32 {
        if CHECKED {
            return 0;
        }
        let crowded = self.expected.load(Ordering::Relaxed) >= self.crowd;
        let short = self.round_ns.load(Ordering::Relaxed) <= YIELDED_NS_MAX;
        if crowded && short { YIELDS } else { 0 }
    }

    /// Whether so many wait that the syncer should lead.
    pub(super) fn is_throng(&self) -> bool {
        // Not so much as a look where there can be none: fewer steps for the checkers.
        self.throng != u64::MAX && self.most.load(Ordering::Relaxed) >= self.throng
    }

    /// Whether the syncer should lead: in a throng, and where hand-overs were slow lately.
    pub(super) fn syncer_leads(&self) -> bool {
        self.is_throng() || !CHECKED && self.relief.load(Ordering::Relaxed) > 0
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The baton is about to be handed to a waiter.
    pub(super) fn hands_over(&self) {
        if !CHECKED {
            self.handed_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// The waiter runs.
    pub(super) fn takes_over(&self) {
        if CHECKED {
            return;
        }
        let took = self.now_ns().saturating_sub(self.handed_ns.load(Ordering::Relaxed));
        let took = average(&self.hand_over_ns, took);
        let crowded = self.expected.load(Ordering::Relaxed) >= self.crowd;
        if crowded && took > self.cycle_ns.load(Ordering::Relaxed) / SLOW_SHARE {
            self.relief.store(RELIEF, Ordering::Relaxed);
            self.hand_over_ns.store(0, Ordering::Relaxed);
        }
    }

    /// A round is over.
    fn count_round(&self) {
        if CHECKED {
            return;
        }
        let now = self.now_ns();
        average(&self.cycle_ns, now.saturating_sub(self.ended_ns.load(Ordering::Relaxed)));
        self.ended_ns.store(now, Ordering::Relaxed);
        let relief = self.relief.load(Ordering::Relaxed);
        if relief > 0 {
            let left = if self.most.load(Ordering::Relaxed) >= self.crowd { relief - 1 } else { 0 };
            self.relief.store(left, Ordering::Relaxed);
        }
    }

    fn remember(&self, active: u64) {
        if self.throng == u64::MAX {
            return;
        }
        let most = self.most.load(Ordering::Relaxed);
        self.most.store(active.max(most - most.div_ceil(FADES)), Ordering::Relaxed);
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
        if !may_wait || self.is_throng() || baton.pending() + leaders >= expected {
            return (Round { start: Some(start) }, wishes);
        }
        let Some(limit) = self.limit(WAITING_SHARE) else { return (Round { start: Some(start) }, wishes) };
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
                self.waited_in_vain();
                break;
            }
        }
        (Round { start: Some(Instant::now()) }, wishes)
    }

    /// The same for a leader that serves callers who do not wait: what comes counts by bytes, `bytes` so far, as many as last
    /// time.
    pub(super) fn begin_serving(&self, bytes: impl Fn() -> u64) -> Round {
        if CHECKED {
            return Round { start: None };
        }
        let start = Instant::now();
        let expected = self.expected_bytes.load(Ordering::Relaxed);
        if bytes() < expected
            && let Some(limit) = self.limit(SERVING_SHARE)
        {
            loop {
                yield_now();
                if bytes() >= expected {
                    self.next_rest.store(1, Ordering::Relaxed);
                    break;
                }
                if start.elapsed() >= limit {
                    self.waited_in_vain();
                    break;
                }
            }
            return Round { start: Some(Instant::now()) };
        }
        Round { start: Some(start) }
    }

    /// So many bytes were written for callers that do not wait, or have come meanwhile.
    pub(super) fn served(&self, bytes: u64) {
        // Fewer will do: otherwise one that was left out each time would be waited for.
        let expected = if bytes > SERVED_BYTES_MAX { 0 } else { bytes - bytes / 8 };
        self.expected_bytes.store(expected, Ordering::Relaxed);
    }

    /// How long to wait at most, if at all this time.
    fn limit(&self, share: u64) -> Option<Duration> {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return None;
        }
        let most = self.round_ns.load(Ordering::Relaxed) / share;
        Some(Duration::from_nanos(most.min(WAIT_NS_MAX)))
    }

    fn waited_in_vain(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
        self.next_rest.store((rest * 2).min(RESTS_MAX), Ordering::Relaxed);
    }

    /// So many committers were seen active, when the baton was let go before the round is over.
    pub(super) fn saw(&self, active: u64) {
        self.remember(active);
        self.expected.store(active, Ordering::Relaxed);
    }

    /// The round is over: so many were released, so many are left.
    pub(super) fn end(&self, round: Round, released: u64, left: u64) {
        self.remember(released + left);
        self.count_round();
        if let Some(start) = round.start {
            let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.round_ns.store(took, Ordering::Relaxed);
            self.expected.store(released + left, Ordering::Relaxed);
        }
    }
}
