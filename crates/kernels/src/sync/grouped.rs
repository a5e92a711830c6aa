//! Protocol `grouped`: write; take the sync lock; sync, unless another thread's sync has covered
//! the own record meanwhile.
//!
//! The locking of Efficient flushing's existing scheme (section 2.2), without its redundant syncs
//! and its slots (`slotted` has both). Every committer takes the sync lock, also those that have
//! nothing left to do.

use super::per_commit::write_to;
use super::requests::Committer;
use super::rounds::{Rounds, Stopwatch};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::sync::PoisonError;

/// The latch for writing, which `aggregated` has too. Taken before no other.
#[derive(Debug)]
pub(super) struct Writing(Mutex<()>);

impl Writing {
    pub(super) fn new() -> Self {
        Writing(Mutex::new(()))
    }

    /// Hands everything up to `end` to the operating system, unless another thread has.
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
    /// The sync lock. Taken with no other held.
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
        // The frontier is the last synced LSN; moved under the lock only.
        if rounds.settled(end, level) {
            rounds.tally().told(1);
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
