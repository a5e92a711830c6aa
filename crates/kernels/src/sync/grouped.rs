//! Protocol `grouped`: a committer writes, takes the sync lock, and syncs unless another thread's
//! sync has covered its record meanwhile.
//!
//! The locking is that of Efficient flushing's existing scheme (section 2.2), without the redundant
//! syncs and the slots (`slotted` has both). Every committer takes the sync lock, even if its
//! record is durable by then.

use super::per_commit::write_to;
use super::requests::Committer;
use super::rounds::{Rounds, Stopwatch};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::sync::PoisonError;

/// The latch for writing; `aggregated` uses it too. The log takes only its own latches under it.
#[derive(Debug)]
pub(super) struct Writing(Mutex<()>);

impl Writing {
    pub(super) fn new() -> Self {
        Writing(Mutex::new(()))
    }

    /// Hands everything up to `end` to the operating system, unless another thread has done so.
    pub(super) fn write_to(&self, rounds: &dyn Rounds, end: Lsn) {
        if rounds.settled(end, Durability::Written) {
            return;
        }
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write_to(rounds, end, Durability::Written, false);
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Grouped {
    writing: Writing,
    /// The sync lock. A thread takes it while it holds no other latch.
    syncing: Mutex<()>,
}

impl Grouped {
    pub(super) fn new() -> Self {
        Grouped { writing: Writing::new(), syncing: Mutex::new(()) }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        self.writing.write_to(rounds, end);
        if level != Durability::Durable {
            return;
        }
        let watch = Stopwatch::start();
        let _lock = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.tally().got_lock(watch.nanoseconds());
        // The durable frontier is the last synced LSN; it advances only under this lock.
        if rounds.settled(end, level) {
            rounds.tally().count_released(1);
        } else {
            rounds.sync(false);
        }
    }
}

impl Committer for Grouped {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if !rounds.settled(end, level) {
            self.commit(rounds, end, level);
        }
    }
}
