//! The stream as its sync protocol sees it.
//!
//! Any thread that the protocol makes a leader runs this code.

use super::Core;
use crate::options::Background;
use katydid_device::Verb;
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync::{Ask, Plan, Planned, Rounds, SyncTally};

/// A panic in one of these steps fails the log (`Core::guarded`). The panic must not unwind through
/// the protocol, because then no thread could lead any more, and every waiter would stay queued.
impl Rounds for Core {
    fn plan(&self, ask: Ask) -> Plan {
        let nothing = Plan::Nothing { all: true, under_way: false, needs_sync: false };
        self.guarded(Verb::Write, || self.medium.plan(self, ask)).unwrap_or(nothing)
    }

    fn perform(&self, write: &Planned) {
        if self.guarded(Verb::Write, || self.medium.perform(self, write)).is_none() {
            self.medium.abandon(self, write);
        }
    }

    fn sync(&self, again: bool) {
        self.guarded(Verb::Sync, || self.medium.sync(self, again));
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        self.is_settled(end, level)
    }

    fn ended(&self, to: Lsn) -> bool {
        self.medium.is_durable(self, to) || self.is_over()
    }

    fn reserved(&self) -> Lsn {
        self.buffer.frontiers.reserved()
    }

    fn written(&self) -> Lsn {
        self.buffer.frontiers.written()
    }

    fn is_over(&self) -> bool {
        Core::is_over(self)
    }

    fn start_syncer(&self, number: usize) -> bool {
        self.background == Background::Threads
            && self.spawn("katydid-log-syncer", move |core| core.protocol.serve(core, number)).is_ok()
    }

    fn tally(&self) -> &SyncTally {
        &self.tally.sync
    }
}
