//! Protocol `pipelined`: one syncer thread writes and syncs for all committers.
//!
//! The protocol is that of Aether's flush pipelining (section 4) and of ELEDA's flusher (3.3). A
//! round begins after a number of commits, bytes or microseconds, whichever comes first
//! (`grouping`). By default a round begins as soon as the last round is over.

use super::grouping::Group;
use super::heuristics::Heuristics;
use super::leading::{Leader, Stage, Succession};
use super::rounds::{Rounds, Stopwatch, SyncProtocol};
use super::waiters::{SyncRequests, Waiter};
use crate::durability::Durability;
use crate::lsn::Lsn;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pipelined {
    stage: Stage,
}

impl Pipelined {
    pub(super) fn new(heuristics: Heuristics, group: Group) -> Self {
        Pipelined { stage: Stage::new(Succession::Syncer, heuristics, 1, group) }
    }

    fn lead(&self, rounds: &dyn Rounds) {
        self.stage.lead(rounds, Leader::Serving);
    }

    /// Gives the baton, which this thread has just taken, to the syncer.
    fn give(&self, rounds: &dyn Rounds) {
        if !self.stage.syncers.give(rounds, 1) {
            self.stage.lead(rounds, Leader::Serving);
        }
    }
}

impl SyncProtocol for Pipelined {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if rounds.settled(end, level) {
            return;
        }
        let waiter = Waiter::new(end.get(), level);
        if self.stage.baton.enqueue(&waiter) {
            self.give(rounds);
        }
        self.stage.grouping.one_more(rounds);
        let watch = Stopwatch::start();
        waiter.wait(self.stage.pace.yields());
        rounds.tally().waited(watch.nanoseconds(), false);
    }

    fn request(&self, rounds: &dyn Rounds, _: Lsn, level: Durability) {
        if self.stage.baton.request(SyncRequests::of(level)) {
            self.give(rounds);
        }
        self.stage.grouping.one_more(rounds);
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.stage.syncers.run(number, || self.lead(rounds));
    }

    fn stop(&self) {
        self.stage.grouping.end();
        self.stage.syncers.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.stage.syncers.wakeups()
    }
}
