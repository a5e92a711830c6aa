//! Decisions of protocol `adaptive`: which thread leads, how long a leader delays its write, how
//! often a waiter yields.
//!
//! Pure: no clock, no thread, no atomic. The mechanism (`pace`) tells the policy what leaders saw
//! ([`Event`]), and acts on its [`Decision`]. Everything here is a guess about the load. A wrong
//! guess, or an event that is missing, costs time and never durability.
//!
//! Each rule is a [`Heuristic`], so that an ablation can switch it off:
//!
//! 1. `Delay`: committers that take turns with a device split into two convoys. While the write of
//!    one is under way the records of the other arrive, and each sync carries half of what it
//!    could. A leader that delays its write until all committers of the last round are there
//!    carries all of them. It delays by at most half of what the last round took, and by at most
//!    0.5 ms.
//! 2. `ServingDelay`: callers that do not block split in the same way. A leader that serves them
//!    waits for as many bytes as they had under way at the end of the last round, by at most a
//!    quarter of that round. It does not if they fill more than [`SERVED_BYTES_MAX`] meanwhile: the
//!    device is busy in any case.
//! 3. `Backoff`: after a delay in vain the leader skips one, then two, then four, at most
//!    [`BACKOFF_MAX`] delays.
//! 4. `Yield`: with more committers than processors a waiter yields before it parks. A yield lets
//!    another committer run; a futex sleep and its wake-up cost both sides more. With fewer
//!    committers there is no other thread to run, and beside a long round a sleep costs little.
//! 5. `ManyCommitters`: very many committers keep the processors busy by waking, and an appointed
//!    committer waits for a processor while the device is idle. The syncer sleeps in the device and
//!    gets a processor at once, so it leads. It does not delay: all committers would have to run
//!    first, while the device is idle. Two convoys in turn keep both busy.
//! 6. `SlowHandOver`: where transactions take time themselves, an appointed waiter may wait for a
//!    processor that another transaction has. Where hand-overs took long on average, the syncer
//!    leads the next [`SYNCER_LED_ROUNDS`] rounds.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use super::heuristics::{Heuristic, Heuristics};

/// The number of hand-overs and rounds in an average.
const AVERAGED: u64 = 16;
/// Hand-overs that take more than this part of the time from round to round are slow.
const SLOW_SHARE: u64 = 6;
/// Rounds that the syncer leads after slow hand-overs.
const SYNCER_LED_ROUNDS: u64 = 4096;
/// Longest delay.
const DELAY_NS_MAX: u64 = 500_000;
/// The part of the last round that a delay may take: for blocking committers, and for callers that
/// do not block.
const DELAY_SHARE: u64 = 2;
const SERVING_DELAY_SHARE: u64 = 4;
/// Callers that do not block and fill more than this in a round keep the device busy without a
/// delay.
const SERVED_BYTES_MAX: u64 = 128 << 10;
/// Maximum number of yields of a waiter before it parks.
const YIELDS: u32 = 300;
/// No waiter yields if a round takes longer.
const YIELDED_ROUND_NS_MAX: u64 = 1_000_000;
/// Very many committers: this number for each processor.
const MANY_FOR_EACH_CORE: u64 = 20;
/// The largest number of committers seen lately decays by this part in each round: committers split
/// into convoys now and then.
const DECAY: u64 = 16;
/// Delays that are skipped after many in vain.
const BACKOFF_MAX: u64 = 256;

/// An observation of a leader.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A round is over at `now_ns`. Its write and sync took `took_ns`; `released` committers were
    /// covered, and `left` still wait.
    Round { now_ns: u64, took_ns: u64, released: u64, left: u64 },
    /// The leader passed the baton on before its write; `active` committers were there.
    PassedOn { active: u64 },
    /// A delay ended because enough had come, or because its time was over.
    Delayed { in_vain: bool },
    /// A delay was skipped because of the backoff.
    Skipped,
    /// An appointed waiter runs, `took_ns` after its appointment.
    HandedOver { took_ns: u64 },
    /// A write for callers that do not block has ended; they filled `bytes` since it began, those
    /// written included.
    Served { bytes: u64 },
}

/// Limits of a leader's delay of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delay {
    /// The number of committers, or of bytes, that makes a delay needless.
    pub(super) enough: u64,
    /// The longest, in nanoseconds; none while backing off.
    pub(super) ns_max: Option<u64>,
}

/// The decision that holds until the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    /// The syncer leads, not a waiter.
    pub(super) syncer_leads: bool,
    /// Number of yields of a waiter before it parks.
    pub(super) yields: u32,
    /// Delay of a leader of blocking committers; `enough` counts committers.
    pub(super) delay: Delay,
    /// Delay of a leader that serves callers that do not block; `enough` counts bytes.
    pub(super) serving_delay: Delay,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    uses: Heuristics,
    /// The least number of active committers with which waiters yield.
    oversubscribed: u64,
    /// The least number of active committers with which the syncer leads.
    many: u64,
    /// Committers seen active in the last round: those released and those left waiting.
    committers: u64,
    /// The most committers seen active in the last rounds.
    committers_most: u64,
    /// Bytes to wait for before a serving write.
    served_bytes: u64,
    /// Nanoseconds of the last round's write and sync.
    round_ns: u64,
    /// Delays to skip now, and after the next delay in vain.
    skips: u64,
    next_skips: u64,
    /// Average nanoseconds until an appointed waiter runs.
    hand_over_ns: u64,
    /// End of the last round, and the average time from one to the next.
    ended_ns: u64,
    cycle_ns: u64,
    /// Rounds that the syncer still leads because hand-overs were slow.
    syncer_led: u64,
}

/// Takes one more value into an average.
fn average(of: &mut u64, value: u64) -> u64 {
    *of = *of - *of / AVERAGED + value / AVERAGED;
    *of
}

impl Policy {
    /// A policy for `cores` processors.
    pub(super) fn new(uses: Heuristics, cores: u64) -> Self {
        Policy {
            uses,
            oversubscribed: cores + 1,
            many: MANY_FOR_EACH_CORE * cores,
            committers: 0,
            committers_most: 0,
            served_bytes: 0,
            round_ns: 0,
            skips: 0,
            next_skips: 1,
            hand_over_ns: 0,
            ended_ns: 0,
            cycle_ns: 0,
            syncer_led: 0,
        }
    }

    /// A policy in which `many` active committers are very many.
    #[cfg(test)]
    pub(super) fn with_many(self, many: u64) -> Self {
        Policy { many, ..self }
    }

    /// Takes an event in; the decision from now on.
    pub(super) fn observe(&mut self, event: Event) -> Decision {
        match event {
            Event::Round { now_ns, took_ns, released, left } => {
                self.remember(released + left);
                self.round_ns = took_ns;
                self.committers = released + left;
                average(&mut self.cycle_ns, now_ns.saturating_sub(self.ended_ns));
                self.ended_ns = now_ns;
                let goes_on = self.committers_most >= self.oversubscribed;
                self.syncer_led = if goes_on { self.syncer_led.saturating_sub(1) } else { 0 };
            }
            Event::PassedOn { active } => {
                self.remember(active);
                self.committers = active;
            }
            Event::Delayed { in_vain: false } => self.next_skips = 1,
            Event::Delayed { in_vain: true } if self.uses.has(Heuristic::Backoff) => {
                self.skips = self.next_skips;
                self.next_skips = (self.next_skips * 2).min(BACKOFF_MAX);
            }
            Event::Delayed { in_vain: true } => {}
            Event::Skipped => self.skips = self.skips.saturating_sub(1),
            Event::HandedOver { took_ns } => {
                let took = average(&mut self.hand_over_ns, took_ns);
                let is_slow = self.committers >= self.oversubscribed && took > self.cycle_ns / SLOW_SHARE;
                if is_slow && self.uses.has(Heuristic::SlowHandOver) {
                    self.syncer_led = SYNCER_LED_ROUNDS;
                    self.hand_over_ns = 0;
                }
            }
            Event::Served { bytes } => {
                // An eighth less: otherwise one caller that was left out each time would be waited
                // for.
                self.served_bytes = if bytes > SERVED_BYTES_MAX { 0 } else { bytes - bytes / 8 };
            }
        }
        self.decide()
    }

    fn remember(&mut self, active: u64) {
        let most = self.committers_most;
        self.committers_most = active.max(most - most.div_ceil(DECAY));
    }

    /// The decision of the moment.
    pub(super) fn decide(&self) -> Decision {
        let uses = |heuristic| self.uses.has(heuristic);
        let are_many = uses(Heuristic::ManyCommitters) && self.committers_most >= self.many;
        let yields = uses(Heuristic::Yield)
            && self.committers >= self.oversubscribed
            && self.round_ns <= YIELDED_ROUND_NS_MAX;
        let delays = uses(Heuristic::Delay) && !are_many;
        Decision {
            syncer_leads: are_many || self.syncer_led > 0,
            yields: if yields { YIELDS } else { 0 },
            delay: self.delay(if delays { self.committers } else { 0 }, DELAY_SHARE),
            serving_delay: self.delay(
                if uses(Heuristic::ServingDelay) { self.served_bytes } else { 0 },
                SERVING_DELAY_SHARE,
            ),
        }
    }

    fn delay(&self, enough: u64, share: u64) -> Delay {
        let ns_max = (self.round_ns / share).min(DELAY_NS_MAX);
        Delay { enough, ns_max: (self.skips == 0).then_some(ns_max) }
    }
}
