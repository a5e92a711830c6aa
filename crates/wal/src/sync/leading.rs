//! What the holder of the baton does: rounds of write and sync, telling those it covered, passing the baton on.
//!
//! Run by whoever leads: a waiting thread, or the syncer. Checked under loom and the explorer together with `waiters`.
//!
//! Rules:
//!
//! 1. A leader whose own wait is over starts no further write or sync: it hands the baton to one uncovered waiter, or, if
//!    only wishes are left, to the syncer.
//! 2. The one who leads next is woken before those who are done: its write overlaps with their waking.
//! 3. The baton is released only when nobody is queued and nothing is wished.

use super::gather::Gather;
use super::syncer::Syncer;
use super::waiters::{Baton, Waiter, Wishes};
use super::{Rounds, Wrote};
use crate::lsn::Lsn;
use crate::options::Durability;

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    /// A thread that waits for this end and level.
    Waiting(Lsn, Durability),
    /// Somebody who serves until nothing is left: the syncer, or whoever stands in for it.
    Serving,
}

/// Who may be appointed to lead next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Succession {
    /// Any waiter.
    Waiters,
    /// Only the syncer.
    Syncer,
}

/// Leads until the baton is out of this thread's hands.
pub(super) fn lead(
    baton: &Baton,
    gather: &Gather,
    syncer: &Syncer,
    succession: Succession,
    rounds: &dyn Rounds,
    leader: Leader,
) {
    let settled = |waiter: &Waiter| rounds.settled(Lsn::new(waiter.end), waiter.level);
    let mut leader = leader;
    let mut wishes = Wishes::NONE;
    loop {
        wishes = wishes.and(baton.take());
        let own = u64::from(leader != Leader::Serving);
        // Those who made wishes go on meanwhile, and are company enough.
        let (begun, more) = gather.begin(baton, own, !wishes.any());
        wishes = round(baton, rounds, leader, wishes.and(more));
        let mut begun = Some(begun);
        // Passing on, which may have to be tried again when somebody arrives meanwhile.
        loop {
            wishes = wishes.and(baton.take());
            let own_open = matches!(leader, Leader::Waiting(end, level) if !rounds.settled(end, level));
            // A serving leader goes on while there are wishes: it runs already, and waking another takes longer.
            let serves = leader == Leader::Serving && (wishes.any() || succession == Succession::Syncer);
            let found = baton.settle(!own_open && !serves && succession == Succession::Waiters, settled);
            rounds.released(found.covered.count());
            if let Some(begun) = begun.take() {
                let left = baton.pending() + u64::from(found.next.is_some());
                gather.end(begun, own + found.covered.count(), left);
            }
            if let Some(next) = found.next {
                baton.keep(wishes);
                next.hand_over();
                found.covered.finish();
                return;
            }
            if own_open || baton.has_pending() || wishes.any() {
                if !own_open && leader != Leader::Serving {
                    baton.keep(wishes);
                    if syncer.give() {
                        found.covered.finish();
                        return;
                    }
                    // No syncer thread (it could not be started, or the log is being closed): stand in for it.
                    leader = Leader::Serving;
                }
                found.covered.finish();
                break;
            }
            let released = baton.release();
            found.covered.finish();
            if released {
                return;
            }
        }
    }
}

/// One write, and a sync if one is needed. Returns the wishes that remain.
fn round(baton: &Baton, rounds: &dyn Rounds, leader: Leader, wishes: Wishes) -> Wishes {
    let (own, own_level) = match leader {
        Leader::Waiting(end, level) => (end, level),
        Leader::Serving => (Lsn::ZERO, Durability::Buffered),
    };
    let level = own_level.max(wishes.level()).max(baton.pending_level());
    let Wrote { all, needs_sync } = rounds.write(level, own);
    let mut remaining = if all { Wishes::NONE } else { wishes };
    if needs_sync {
        if own_level == Durability::Written && rounds.settled(own, own_level) {
            // Rule 1: the sync is for others, and theirs to do.
            return wishes;
        }
        // Those who asked for no more than the write do not wait for the sync.
        remaining = remaining.and(baton.take());
        let found = baton.settle(false, |waiter| {
            waiter.level != Durability::Durable && rounds.settled(Lsn::new(waiter.end), waiter.level)
        });
        rounds.released(found.covered.count());
        found.covered.finish();
        rounds.sync();
    }
    remaining
}
