//! Decisions of protocol `adaptive`: which thread leads, how long a leader delays its write, how
//! often a waiter yields.
//!
//! Pure functions: no clock, no thread, no atomic. The mechanism (`pace`) reports to the policy
//! what leaders observed ([`Event`]), and acts on its [`Decision`]. Each decision is a guess about
//! the load. A wrong guess or a missing event costs time, and never durability.
//!
//! A round is one write of a leader, and its sync. Each rule is a [`Heuristic`], which a
//! measurement can switch off:
//!
//! 1. `Delay`: blocking committers split into two sets. While the write of one set is under way,
//!    the records of the other set arrive, so each sync covers only half of the committers. If a
//!    leader delays its write until all committers of the last round wait again, the write covers
//!    all of them. The delay is at most half of the last round's duration, and at most 0.5 ms.
//! 2. `ServingDelay`: callers that do not block split into two sets too. A leader that serves them
//!    delays its write until 7/8 as many bytes wait as were under way at the end of the last round.
//!    The delay is at most a quarter of that round's duration, and at most 0.5 ms. The leader does
//!    not delay if these callers fill more than [`SERVED_BYTES_MAX`] in a round, because they keep
//!    the device busy in any case.
//! 3. `Backoff`: after a delay in vain the leader skips the next delay. After each further delay in
//!    vain it skips twice as many delays as before, up to [`BACKOFF_MAX`].
//! 4. `Yield`: with more committers than processors a waiter yields before it parks. A yield lets
//!    another committer run. A futex sleep and its wake-up cost the sleeping and the waking thread
//!    more time than a yield. With fewer committers there is no other thread to run. The cost of a
//!    sleep does not matter if the round is long.
//! 5. `ManyCommitters`: very many committers keep the processors busy by waking up, and an
//!    appointed committer waits for a processor while the device is idle. The syncer sleeps in the
//!    device and gets a processor at once, so the syncer leads. The syncer does not delay its
//!    writes for blocking committers, because the device would be idle until all committers have
//!    run. The committers then form two sets, and while the device writes for one set, the other
//!    set runs.
//! 6. `SlowHandOver`: if transactions take much processor time, an appointed waiter may wait for a
//!    processor on which another transaction runs. If hand-overs took long on average, the syncer
//!    leads the next [`SYNCER_LED_ROUNDS`] rounds, or until there are no more committers than
//!    processors.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use super::heuristics::{Heuristic, Heuristics};

/// Number of hand-overs or rounds over which an average is taken.
const AVERAGED: u64 = 16;
/// Hand-overs are slow if their average time is more than 1/`SLOW_SHARE` of the average time from
/// the end of one round to the end of the next.
const SLOW_SHARE: u64 = 6;
/// Maximum number of rounds that the syncer leads after slow hand-overs.
const SYNCER_LED_ROUNDS: u64 = 4096;
/// The longest delay, in nanoseconds.
const DELAY_NS_MAX: u64 = 500_000;
/// The last round's duration divided by this number is the longest delay for blocking committers.
/// `SERVING_DELAY_SHARE` is the divisor for callers that do not block.
const DELAY_SHARE: u64 = 2;
const SERVING_DELAY_SHARE: u64 = 4;
/// Callers that do not block and fill more than this number of bytes in a round keep the device
/// busy without a delay.
const SERVED_BYTES_MAX: u64 = 128 << 10;
/// Maximum number of yields of a waiter before it parks.
const YIELDS: u32 = 300;
/// No waiter yields if a round takes longer than this number of nanoseconds.
const YIELDED_ROUND_NS_MAX: u64 = 1_000_000;
/// The syncer leads if there are at least this many committers for each processor.
const MANY_FOR_EACH_CORE: u64 = 20;
/// The remembered maximum of committers decays by 1/`DECAY` in each round. The maximum must not
/// drop at once, because committers split into two sets now and then.
const DECAY: u64 = 16;
/// Maximum number of skipped delays after delays in vain.
const BACKOFF_MAX: u64 = 256;

/// An observation that a leader reports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A round ended at `now_ns`. The write and sync of the round took `took_ns`. The round covered
    /// `released` committers, and `left` committers still wait.
    Round { now_ns: u64, took_ns: u64, released: u64, left: u64 },
    /// The leader passed the baton on before its write, while `active` committers waited.
    PassedOn { active: u64 },
    /// A delay ended because enough committers or bytes had come, or because its time was over
    /// (`in_vain`).
    Delayed { in_vain: bool },
    /// The leader skipped a delay because of the backoff.
    Skipped,
    /// An appointed waiter began to run `took_ns` after its appointment.
    HandedOver { took_ns: u64 },
    /// A write for callers that do not block has ended. `bytes` is the number of bytes from the
    /// start of the write to the reserved frontier, which is loaded when the write has ended.
    Served { bytes: u64 },
}

/// Limits of a leader's delay of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delay {
    /// Number of waiting committers, or of bytes, at which the leader ends its delay.
    pub(super) enough: u64,
    /// The longest delay in nanoseconds; `None` if the backoff skips the delay.
    pub(super) ns_max: Option<u64>,
}

/// The decision that holds until the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    /// True if the syncer leads instead of waiters.
    pub(super) syncer_leads: bool,
    /// Number of yields of a waiter before it parks.
    pub(super) yields: u32,
    /// Delay of a leader of blocking committers; `enough` counts committers.
    pub(super) delay: Delay,
    /// Delay of a leader that serves non-blocking callers; `enough` counts bytes.
    pub(super) serving_delay: Delay,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    uses: Heuristics,
    /// The smallest number of active committers at which waiters yield.
    oversubscribed: u64,
    /// The smallest number of active committers at which the syncer leads.
    many: u64,
    /// Number of active committers in the last round: those that were released and those that still
    /// waited.
    committers: u64,
    /// The decaying maximum of active committers in the last rounds.
    committers_most: u64,
    /// Number of bytes for which a serving leader waits before its write.
    served_bytes: u64,
    /// Duration of the last round's write and sync in nanoseconds.
    round_ns: u64,
    /// Number of delays still to skip. `next_skips` is the number to skip after the next delay in
    /// vain.
    skips: u64,
    next_skips: u64,
    /// Average time from the appointment of a waiter until it runs, in nanoseconds.
    hand_over_ns: u64,
    /// End of the last round. `cycle_ns` is the average time from the end of one round to that of
    /// the next.
    ended_ns: u64,
    cycle_ns: u64,
    /// Number of rounds that the syncer still leads because hand-overs were slow.
    syncer_led: u64,
}

/// Updates the average `of` with a value, and returns the average.
fn average(of: &mut u64, value: u64) -> u64 {
    *of = *of - *of / AVERAGED + value / AVERAGED;
    *of
}

impl Policy {
    /// Makes a policy for `cores` processors.
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

    /// Returns a policy by which the syncer leads if there are at least `many` active committers.
    #[cfg(test)]
    pub(super) fn with_many(self, many: u64) -> Self {
        Policy { many, ..self }
    }

    /// Takes an event in, and returns the decision that holds from now on.
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
                // The leader waits for an eighth less than these bytes. If it waited for all of
                // them, one late caller in each round would make the leader wait for the longest
                // delay.
                self.served_bytes = if bytes > SERVED_BYTES_MAX { 0 } else { bytes - bytes / 8 };
            }
        }
        self.decide()
    }

    fn remember(&mut self, active: u64) {
        let most = self.committers_most;
        self.committers_most = active.max(most - most.div_ceil(DECAY));
    }

    /// Returns the present decision.
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
