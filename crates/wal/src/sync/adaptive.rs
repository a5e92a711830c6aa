//! Protocol `adaptive`, at depth 1: the first who waits leads, on its own thread.
//!
//! No thread switch for a lone committer. A leader writes and syncs everything filled, then appoints one uncovered waiter,
//! wakes it first, then the covered. Non-blocking requests are served by the syncer thread, one more waiter as it were.

use super::gather::Gather;
use super::leading::{Leader, Succession, lead};
use super::syncer::Syncer;
use super::waiters::{Arrival, Baton, Signal, Waiter, Wishes};
use super::{Rounds, SyncProtocol};
use crate::lsn::Lsn;
use crate::options::Durability;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Adaptive {
    baton: Baton,
    gather: Gather,
    syncer: Syncer,
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Adaptive { baton: Baton::new(), gather: Gather::new(), syncer: Syncer::new() }
    }

    fn lead(&self, rounds: &dyn Rounds, leader: Leader) {
        lead(&self.baton, &self.gather, &self.syncer, Succession::Waiters, rounds, leader);
    }
}

impl SyncProtocol for Adaptive {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if rounds.settled(end, level) {
            return;
        }
        let waiter = Waiter::new(end.get(), level);
        let leads = match self.baton.arrive(&waiter) {
            Arrival::Leads => true,
            Arrival::Queued => waiter.wait(self.gather.yields()) == Signal::Lead,
        };
        if leads {
            self.lead(rounds, Leader::Waiting(end, level));
        }
    }

    fn request(&self, rounds: &dyn Rounds, level: Durability) {
        if self.baton.wish(Wishes::of(level)) {
            self.syncer.ensure(|| rounds.start_syncer());
            if !self.syncer.give() {
                self.lead(rounds, Leader::Serving);
            }
        }
    }

    fn serve(&self, rounds: &dyn Rounds) {
        self.syncer.run(|| self.lead(rounds, Leader::Serving));
    }

    fn stop(&self) {
        self.syncer.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.syncer.wakeups()
    }
}
