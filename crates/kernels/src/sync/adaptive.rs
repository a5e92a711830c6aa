//! Protocol `adaptive`: the first who waits leads, on its own thread.
//!
//! No thread switch for a lone committer. A leader writes everything filled, durable as it is written where the device can,
//! then appoints one
//! uncovered waiter, wakes it first, then the covered. Non-blocking requests are served by syncer threads, one more waiter as it
//! were; and in a throng, and where hand-overs are slow, it is the syncer who leads (`gather`). Where several writes under way serve committers better (`depth`), the baton is passed on before a write is performed.

use super::grouping::Group;
use super::leading::{Leader, Stage, Succession};
use super::rounds::{Rounds, Stopwatch, SyncProtocol};
use super::waiters::{Arrival, Signal, Waiter, Wishes};
use crate::durability::Durability;
use crate::lsn::Lsn;
use std::ops::RangeInclusive;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Adaptive {
    pub(super) stage: Stage,
}

impl Adaptive {
    pub(super) fn new(depth: RangeInclusive<u32>) -> Self {
        Adaptive { stage: Stage::new(Succession::Waiters, depth, Group::default()) }
    }

    /// Whether `waiter` has to lead itself, now; otherwise it is queued.
    fn leads_at_once(&self, rounds: &dyn Rounds, waiter: &Waiter) -> bool {
        let stage = &self.stage;
        if !stage.gather.syncer_leads() {
            return stage.baton.arrive(waiter) == Arrival::Leads;
        }
        if stage.baton.enqueue(waiter) && !stage.syncers.give(rounds, stage.depth.now()) {
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
            let leads = waiter.wait(stage.gather.yields()) == Signal::Lead;
            rounds.tally().waited(watch.nanoseconds(), leads);
            if !leads {
                return;
            }
            stage.gather.takes_over();
        }
        let waiter = Waiter::new(end.get(), level);
        stage.lead(rounds, Leader::Waiting(&waiter));
    }

    fn request(&self, rounds: &dyn Rounds, level: Durability) {
        let stage = &self.stage;
        if stage.baton.wish(Wishes::of(level)) && !stage.syncers.give(rounds, stage.depth.now()) {
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
        self.stage.depth.now()
    }
}
