//! Protocol `adaptive`: the first thread that waits leads. A lone committer needs no thread switch.
//!
//! A leader writes all filled bytes. The write itself is durable if the device supports durable
//! writes. After the write the leader appoints a waiter that the write has not covered as the next
//! leader. The leader wakes the appointed waiter first, and then the covered waiters. Syncer
//! threads serve the requests of callers that do not block. The policy (`policy`) may let the
//! syncer lead instead of waiters, and may delay a write for a fuller batch. If the options allow
//! several writes in flight, a leader passes the baton (the right to lead) on before it performs
//! its write.

use super::grouping::Group;
use super::heuristics::Heuristics;
use super::leading::{Leader, Stage, Succession};
use super::rounds::{Rounds, Stopwatch, SyncProtocol};
use super::waiters::{Arrival, Signal, SyncRequests, Waiter};
use crate::durability::Durability;
use crate::lsn::Lsn;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Adaptive {
    pub(super) stage: Stage,
}

impl Adaptive {
    pub(super) fn new(heuristics: Heuristics, depth: u32) -> Self {
        Adaptive { stage: Stage::new(Succession::Waiters, heuristics, depth, Group::default()) }
    }

    /// Returns true if the thread of `waiter` must lead now. If not, `waiter` is queued.
    fn leads_at_once(&self, rounds: &dyn Rounds, waiter: &Waiter) -> bool {
        let stage = &self.stage;
        if !stage.pace.syncer_leads() {
            return stage.baton.arrive(waiter) == Arrival::Leads;
        }
        if stage.baton.enqueue(waiter) && !stage.syncers.give(rounds, stage.depth) {
            stage.lead(rounds, Leader::Serving);
        }
        false
    }
}

impl SyncProtocol for Adaptive {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if rounds.settled(end, level) {
            return;
        }
        let stage = &self.stage;
        let waiter = Waiter::new(end.get(), level);
        if !self.leads_at_once(rounds, &waiter) {
            let watch = Stopwatch::start();
            let leads = waiter.wait(stage.pace.yields()) == Signal::Lead;
            rounds.tally().waited(watch.nanoseconds(), leads);
            if !leads {
                return;
            }
            stage.pace.takes_over();
        }
        let waiter = Waiter::new(end.get(), level);
        stage.lead(rounds, Leader::Waiting(&waiter));
    }

    fn request(&self, rounds: &dyn Rounds, _: Lsn, level: Durability) {
        let stage = &self.stage;
        if stage.baton.request(SyncRequests::of(level)) && !stage.syncers.give(rounds, stage.depth) {
            stage.lead(rounds, Leader::Serving);
        }
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.stage.syncers.run(number, || self.stage.lead(rounds, Leader::Serving));
    }

    fn stop(&self) {
        self.stage.syncers.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.stage.syncers.wakeups()
    }

    fn depth(&self) -> u32 {
        self.stage.depth
    }
}
