//! Protocol `per_commit`: committers take turns. Each writes up to its own record and syncs; no
//! sync covers another commit.
//!
//! `per_commit` is the papers' baseline without group commit (Aether, figure 5; Efficient flushing,
//! 2.1; Cicada with P-WAL, the non-group commit of figures 4 and 5). The protocol is slow on
//! purpose.
//!
//! A commit that no thread waits for is queued. The syncer takes the queued commits in the order of
//! their LSNs, and writes and syncs each by itself, so the durable frontier stops at the end of
//! each. If the syncer cannot be started, requesting threads serve the queue. Several such threads
//! may serve at once, and then take their turns in any order.
//!
//! Invariants:
//!
//! 1. A requested commit is queued until the thread that serves the queue takes it. When the
//!    commit's turn ends, the commit is settled.
//! 2. A thread that adds an entry to an empty queue makes sure that a thread serves the queue: the
//!    syncer, or itself. The serving thread goes on until the queue is empty.

use super::rounds::{Ask, Plan, Rounds, Stopwatch, SyncProtocol};
use super::syncer::Syncers;
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{Mutex, rest};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct PerCommit {
    /// A committer holds this latch during its write and sync. The log takes only its own latches
    /// under it.
    turn: Mutex<()>,
    /// Requested commits, by their ends (invariant 1). This is a leaf latch.
    queue: Mutex<BTreeMap<Lsn, Durability>>,
    thread: Syncers,
}

impl PerCommit {
    pub(super) fn new() -> Self {
        PerCommit { turn: Mutex::new(()), queue: Mutex::new(BTreeMap::new()), thread: Syncers::new(1) }
    }

    fn commit(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        let watch = Stopwatch::start();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.tally().got_lock(watch.nanoseconds());
        if rounds.settled(end, level) {
            // A thread with a later record came first and wrote this record too. The sync of that
            // thread does not count for this commit.
            if level == Durability::Durable {
                rounds.sync(true);
            }
            return;
        }
        write_to(rounds, end, level, true);
    }

    /// Writes and syncs for the queued commits, one after the other.
    fn serve_all(&self, rounds: &dyn Rounds) {
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            let Some((end, level)) = next else { return };
            self.commit(rounds, end, level);
        }
    }
}

/// Writes, and syncs if necessary, until `end` is settled at `level`. Called by one thread at a
/// time.
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
            // Another thread is about to fill a hole below this record, or performs the write that
            // must end first.
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

    fn request(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if level == Durability::Buffered {
            return;
        }
        let is_first = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = queue.is_empty();
            let queued = queue.entry(end).or_insert(level);
            *queued = level.max(*queued);
            is_first
        };
        if is_first && !self.thread.give(rounds, 1) {
            self.serve_all(rounds);
        }
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.thread.run(number, || self.serve_all(rounds));
    }

    fn stop(&self) {
        self.thread.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.thread.wakeups()
    }

    fn syncs_each(&self) -> bool {
        true
    }
}
