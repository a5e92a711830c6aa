//! Protocol `slotted`: the existing scheme with which Efficient flushing compares its design
//! (section 2.2), including the redundant syncs.
//!
//! Committers form slots ([`consolidation`](super::consolidation)). Each slot's last thread takes
//! the sync lock and compares the slot's end with the sync LSN. If the sync LSN is smaller, the
//! thread syncs and raises the sync LSN to the slot's own end, although the sync has covered
//! everything written. So a thread skips its own sync only if another thread has synced for a
//! higher end. A sync for a lower end does not count, even if it has covered the thread's record,
//! and the thread syncs a second time. `aggregated` saves this second sync. `grouped` has no second
//! sync, because it looks at the durable frontier.
//!
//! Invariants:
//!
//! 1. Until the log fails, the sync LSN is never above the durable frontier: after a sync it is
//!    raised to the end that the syncing thread had written before the sync.
//! 2. A failed sync also raises the sync LSN. After a failure every waiter is settled, and gets the
//!    error from the log.

use super::consolidation::{FlushSlots, Part};
use super::requests::Committer;
use super::rounds::{Rounds, Stopwatch};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Slotted {
    slots: FlushSlots,
    /// The sync lock. A thread takes it while it holds no other latch.
    syncing: Mutex<()>,
}

impl Slotted {
    pub(super) fn new(flush_slots: u32) -> Self {
        Slotted { slots: FlushSlots::new(flush_slots), syncing: Mutex::new(()) }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn) {
        match self.slots.enter(rounds, end) {
            Part::Flush { end, slot } => {
                self.sync(rounds, end);
                self.slots.flushed(slot);
            }
            Part::Wait => self.slots.wait(rounds, end),
        }
    }

    fn sync(&self, rounds: &dyn Rounds, end: Lsn) {
        let watch = Stopwatch::start();
        let _lock = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.tally().got_lock(watch.nanoseconds());
        if self.slots.covers(end) {
            rounds.tally().count_released(1);
            return;
        }
        rounds.sync(true);
        self.slots.advance(rounds, end);
    }
}

impl Committer for Slotted {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        match level {
            Durability::Buffered => {}
            Durability::Written if rounds.settled(end, level) => {}
            Durability::Written => self.slots.write(rounds, end),
            Durability::Durable if self.slots.covers(end) => {}
            Durability::Durable => self.commit(rounds, end),
        }
    }

    fn looks_at_frontiers(&self) -> bool {
        false
    }
}
