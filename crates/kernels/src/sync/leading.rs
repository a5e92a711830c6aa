//! The steps of the thread that holds the baton (the right to lead): it writes and syncs in rounds,
//! releases the covered waiters, and passes the baton on.
//!
//! The leading thread, which is a waiting thread or a syncer, runs this code. Loom and the explorer
//! check it together with `waiters` and `inflight`.
//!
//! Rules:
//!
//! 1. A leader whose own wait is over starts no further write or sync: it hands the baton to one
//!    uncovered waiter, or, if only requests are left, to a syncer.
//! 2. A leader wakes the next leader before the covered waiters, so that the next write overlaps
//!    with their waking. If the policy says so (`policy`, rules 5 and 6), the next leader is a
//!    syncer. A syncer goes on leading while the policy says so and a thread waits.
//! 3. The baton is released only when no waiter is queued and nothing is requested.
//! 4. If further writes may be planned while a write is in flight, the leader passes the baton on
//!    before it performs the write, and enters the covered waiters in `inflight`. If the write is
//!    the last one that may be in flight, the leader keeps the baton.

use super::grouping::Group;
use super::grouping::Grouping;
use super::heuristics::Heuristics;
use super::inflight::InFlight;
use super::pace::Pace;
use super::rounds::{Ask, Plan, Planned, Rounds};
use super::syncer::Syncers;
use super::waiters::{Baton, SyncRequests, Waiter};
use crate::durability::Durability;
use crate::lsn::Lsn;

/// The leading thread.
#[derive(Clone, Copy)]
pub(super) enum Leader<'a> {
    /// A waiting thread.
    Waiting(&'a Waiter),
    /// A syncer, or a thread that stands in for one. Such a thread leads until no waiter and no
    /// request is left, or until it may appoint a waiter instead.
    Serving,
}

/// The threads that a leader may appoint to lead next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Succession {
    /// Any waiter.
    Waiters,
    /// Only the syncer.
    Syncer,
}

/// State that leaders share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) baton: Baton,
    pub(super) pace: Pace,
    /// Maximum writes in flight.
    pub(super) depth: u32,
    pub(super) grouping: Grouping,
    pub(super) syncers: Syncers,
    pub(super) in_flight: InFlight,
    pub(super) succession: Succession,
}

impl Leader<'_> {
    fn ask(self) -> (Lsn, Durability) {
        match self {
            Leader::Waiting(waiter) => (Lsn::new(waiter.end), waiter.level),
            Leader::Serving => (Lsn::ZERO, Durability::Buffered),
        }
    }

    fn serves(self) -> bool {
        matches!(self, Leader::Serving)
    }

    fn is_open(self, rounds: &dyn Rounds) -> bool {
        let (own, level) = self.ask();
        !self.serves() && !rounds.settled(own, level)
    }
}

fn settled(rounds: &dyn Rounds, waiter: &Waiter) -> bool {
    rounds.settled(Lsn::new(waiter.end), waiter.level)
}

/// The baton after a step.
enum BatonOutcome {
    /// Another thread has the baton, or the baton is released.
    Passed,
    /// This thread still has the baton.
    Kept,
}

impl Stage {
    pub(super) fn new(succession: Succession, heuristics: Heuristics, depth: u32, group: Group) -> Self {
        Stage {
            baton: Baton::new(),
            grouping: Grouping::new(group),
            syncers: Syncers::new(depth),
            in_flight: InFlight::new(),
            pace: Pace::new(heuristics),
            depth,
            succession,
        }
    }

    /// Leads until this thread has given the baton away and its own wait is over.
    pub(super) fn lead(&self, rounds: &dyn Rounds, leader: Leader<'_>) {
        let mut leader = leader;
        let mut requests = SyncRequests::NONE;
        loop {
            self.grouping.wait(rounds);
            requests = requests.and(self.baton.take());
            let own = u64::from(!leader.serves());
            // No leader delays while a write is in flight, because the next batch fills meanwhile.
            // In `adaptive` a serving leader with requests delays until enough bytes wait
            // (`begin_serving`). Any other leader delays until enough blocked committers wait
            // (`begin`), and not at all if there are requests, because their callers do not block.
            let alone = self.in_flight.is_empty();
            let serves = leader.serves() && requests.any() && alone && self.succession == Succession::Waiters;
            let (begun, more) = if serves {
                let bytes = || rounds.reserved().since(rounds.written());
                (self.pace.begin_serving(bytes), SyncRequests::NONE)
            } else {
                self.pace.begin(&self.baton, own, !requests.any() && alone)
            };
            requests = requests.and(more);
            let requested = requests.any();
            if self.round(rounds, leader, &mut requests).is_gone() {
                return;
            }
            let mut begun = Some(begun);
            // Pass the baton on. The leader tries again if a waiter arrives meanwhile.
            loop {
                requests = requests.and(self.baton.take());
                let own_open = leader.is_open(rounds);
                // A serving leader goes on if there are requests, or if there were some before this
                // round: it runs already, and waking another thread would take longer. It also goes
                // on if no waiter may be appointed.
                let syncer_only = self.succession == Succession::Syncer;
                let syncer_leads = self.pace.syncer_leads();
                let serves = leader.serves() && (requests.any() || requested || syncer_only);
                let appoint = !own_open && !serves && !syncer_only && !syncer_leads;
                let found = self.baton.settle(appoint, |waiter| settled(rounds, waiter));
                rounds.tally().count_released(found.covered.count());
                if let Some(begun) = begun.take() {
                    let left = self.baton.pending() + u64::from(found.next.is_some());
                    self.pace.end(begun, own + found.covered.count(), left);
                }
                if let Some(next) = found.next {
                    self.baton.keep(requests);
                    self.pace.hands_over();
                    next.hand_over();
                    found.covered.finish();
                    return;
                }
                if own_open || self.baton.has_pending() || requests.any() {
                    if !own_open && !leader.serves() {
                        self.baton.keep(requests);
                        if self.syncers.give(rounds, self.depth) {
                            found.covered.finish();
                            return;
                        }
                        // No syncer could take the baton, because its start failed or the log is
                        // being closed. This thread stands in for it.
                        leader = Leader::Serving;
                    }
                    found.covered.finish();
                    break;
                }
                let released = self.baton.release();
                found.covered.finish();
                if released {
                    return;
                }
            }
        }
    }

    /// Performs one write, and a sync if one is needed, or waits for a write in flight. Requests
    /// that the write has served are removed from `requests`.
    fn round(&self, rounds: &dyn Rounds, leader: Leader<'_>, requests: &mut SyncRequests) -> BatonOutcome {
        let (own, own_level) = leader.ask();
        let level = own_level.max(requests.level()).max(self.baton.pending_level());
        let ended = self.in_flight.so_far();
        let ask = Ask { level, own, only_own: false, depth: self.depth };
        let (all, needs_sync) = match rounds.plan(ask) {
            Plan::Blocked => {
                self.in_flight.wait_for_an_end(ended);
                return BatonOutcome::Kept;
            }
            Plan::Nothing { under_way: true, .. } if leader.is_open(rounds) || self.baton.has_pending() => {
                self.in_flight.wait_for_an_end(ended);
                return BatonOutcome::Kept;
            }
            Plan::Nothing { all, needs_sync, .. } => (all, needs_sync),
            Plan::Write(write) => {
                if write.parallel && self.hand_over_before_write(rounds, leader, &write, requests) {
                    rounds.perform(&write);
                    self.in_flight.ended(rounds);
                    if let Leader::Waiting(waiter) = leader {
                        self.in_flight.join(rounds, waiter);
                    }
                    return BatonOutcome::Passed;
                }
                rounds.perform(&write);
                self.in_flight.ended(rounds);
                if leader.serves() {
                    self.pace.served(rounds.reserved().since(write.from));
                }
                (write.all, level == Durability::Durable && !write.durable)
            }
        };
        let requested = std::mem::replace(requests, if all { SyncRequests::NONE } else { *requests });
        if needs_sync {
            if own_level == Durability::Written && rounds.settled(own, own_level) {
                // Rule 1: only other threads need the sync, so one of them does it.
                *requests = requested;
                return BatonOutcome::Kept;
            }
            // Waiters that need only the write do not wait for the sync.
            *requests = requests.and(self.baton.take());
            let found = self
                .baton
                .settle(false, |waiter| waiter.level != Durability::Durable && settled(rounds, waiter));
            rounds.tally().count_released(found.covered.count());
            found.covered.finish();
            rounds.sync(false);
        }
        BatonOutcome::Kept
    }

    /// Passes the baton on before a write is performed (rule 4). Returns false if this thread must
    /// keep the baton.
    fn hand_over_before_write(
        &self,
        rounds: &dyn Rounds,
        leader: Leader<'_>,
        write: &Planned,
        requests: &mut SyncRequests,
    ) -> bool {
        let covered = |waiter: &Waiter| waiter.end <= write.to.get();
        if let Leader::Waiting(waiter) = leader
            && !covered(waiter)
        {
            return false;
        }
        if write.all {
            *requests = SyncRequests::NONE;
        }
        let appoint = self.succession == Succession::Waiters;
        let mut found = self.baton.settle(appoint, covered);
        self.pace.passes_on(u64::from(!leader.serves()) + found.covered.count() + self.baton.pending());
        self.in_flight.enter(write.to, found.covered);
        loop {
            if let Some(next) = found.next {
                self.baton.keep(*requests);
                self.pace.hands_over();
                next.hand_over();
                return true;
            }
            if requests.any() || self.baton.has_pending() {
                self.baton.keep(*requests);
                return self.syncers.give_to_idle(rounds, self.depth);
            }
            if self.baton.release() {
                return true;
            }
            *requests = requests.and(self.baton.take());
            found = self.baton.settle(appoint, covered);
            self.in_flight.add(found.covered);
        }
    }
}

impl BatonOutcome {
    fn is_gone(&self) -> bool {
        matches!(self, BatonOutcome::Passed)
    }
}
