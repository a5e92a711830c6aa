//! Protocol `per_commit`: each committer writes up to its own record and syncs, in turn; nobody is covered by anybody else.
//!
//! The papers' baseline, group commit switched off (Aether, figure 5; Efficient flushing, 2.1). Slow on purpose.

use super::requests::Requests;
use super::rounds::{Ask, Plan, Rounds, Stopwatch, SyncProtocol};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{Mutex, rest};
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct PerCommit {
    /// Held through a committer's write and sync. A leaf latch but for the log's own.
    turn: Mutex<()>,
    requests: Requests,
}

impl PerCommit {
    pub(super) fn new() -> Self {
        PerCommit { turn: Mutex::new(()), requests: Requests::new() }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        let watch = Stopwatch::start();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.tally().got_lock(watch.nanoseconds());
        if rounds.settled(end, level) {
            // Written by one that came later and was quicker. Its sync is not this one's.
            if level == Durability::Durable {
                rounds.sync(true);
            }
            return;
        }
        write_to(rounds, end, level, true);
    }
}

/// Writes until `end` is settled at `level`, with a sync where one is needed. By one thread at a time.
pub(super) fn write_to(rounds: &dyn Rounds, end: Lsn, level: Durability, only_own: bool) {
    let mut step = 0;
    while !rounds.settled(end, level) {
        match rounds.plan(Ask { level, own: end, only_own, depth: 1 }) {
            Plan::Write(write) => {
                rounds.perform(&write);
                if level == Durability::Durable && !write.durable {
                    rounds.sync(false);
                }
            }
            Plan::Nothing { needs_sync: true, .. } => rounds.sync(false),
            // A hole below the own record: its owner is about to fill it.
            Plan::Nothing { .. } | Plan::Blocked => {
                rest(step);
                step += 1;
            }
        }
    }
}

impl SyncProtocol for PerCommit {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        self.commit(rounds, end, level);
    }

    fn request(&self, rounds: &dyn Rounds, level: Durability) {
        self.requests.make(rounds, level, |end, level| self.commit(rounds, end, level));
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.requests.run(rounds, number, |end, level| self.commit(rounds, end, level));
    }

    fn stop(&self) {
        self.requests.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.requests.wakeups()
    }
}
