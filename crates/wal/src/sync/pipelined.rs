//! Protocol `pipelined`: a syncer thread writes and syncs for everybody; nobody else does.
//!
//! As in ELEDA and Aether's flush pipelining, with no delay: the next round starts when the last one is over.

use super::gather::Gather;
use super::leading::{Leader, Succession, lead};
use super::syncer::Syncer;
use super::waiters::{Baton, Waiter, Wishes};
use super::{Rounds, SyncProtocol};
use crate::lsn::Lsn;
use crate::options::Durability;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pipelined {
    baton: Baton,
    gather: Gather,
    syncer: Syncer,
}

impl Pipelined {
    pub(super) fn new() -> Self {
        Pipelined { baton: Baton::new(), gather: Gather::new(), syncer: Syncer::new() }
    }

    fn lead(&self, rounds: &dyn Rounds) {
        lead(&self.baton, &self.gather, &self.syncer, Succession::Syncer, rounds, Leader::Serving);
    }

    /// Gets a baton, just taken, to the syncer.
    fn give(&self, rounds: &dyn Rounds) {
        self.syncer.ensure(|| rounds.start_syncer());
        if !self.syncer.give() {
            self.lead(rounds);
        }
    }
}

impl SyncProtocol for Pipelined {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if rounds.settled(end, level) {
            return;
        }
        let waiter = Waiter::new(end.get(), level);
        if self.baton.enqueue(&waiter) {
            self.give(rounds);
        }
        waiter.wait(self.gather.yields());
    }

    fn request(&self, rounds: &dyn Rounds, level: Durability) {
        if self.baton.wish(Wishes::of(level)) {
            self.give(rounds);
        }
    }

    fn serve(&self, rounds: &dyn Rounds) {
        self.syncer.run(|| self.lead(rounds));
    }

    fn stop(&self) {
        self.syncer.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.syncer.wakeups()
    }
}
