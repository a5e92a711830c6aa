//! Protocol `inline`: group commit by the workers that commit (Cicada with P-WAL, section III-B.2).
//! No thread of the log writes for them.
//!
//! A worker that commits looks at the group: if as many commits or bytes have come as the group
//! asks for, or its time since the last write is over, the worker writes and syncs everything that
//! is in the group, itself, and goes on with its next transaction afterwards. Otherwise it goes on
//! at once, or waits, if it cannot go on. Three calls are such a look:
//!
//! | call | the worker | if the group is not complete |
//! |---|---|---|
//! | [`SyncProtocol::offer`], by a queue of callbacks that its owner may block in | has commits of its own in the group | it goes on |
//! | [`SyncProtocol::wait`] | blocks in its commit | it sleeps until its commit is settled or the group complete |
//! | [`SyncProtocol::request`] | must not block | it goes on, also if the group is complete |
//!
//! Differences from the paper. A request must not block, and no thread may ever offer or wait. So a
//! thread of the log, the carrier, writes what was requested and is still there when the group's
//! time is over. The paper's worker also looks before it aborts a transaction that has waited for
//! too long; here the carrier's clock ends that wait. Several threads may share a log; then one of
//! them writes for all.
//!
//! Invariants:
//!
//! 1. A commit is a member from its request or wait until a write or sync has settled it. A waiting
//!    thread sleeps only as a member, and no longer than the group's time, so no notification is
//!    needed for what it could miss but one: that the log is closed.
//! 2. Only the holder of `turn` writes and syncs. It looks again whether that is still to be done.
//! 3. While a requested commit is a member, the carrier runs, or a thread is about to give it the
//!    commit.

use super::grouping::Group;
use super::per_commit::write_to;
use super::rounds::{Rounds, Stopwatch, SyncProtocol};
use super::syncer::Syncers;
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{CHECKED, Instant, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Condvar, PoisonError};
use std::time::Duration;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Inline {
    group: Group,
    /// Held through a write and sync (invariant 2). Before `members` and `over`.
    turn: Mutex<()>,
    /// A leaf latch.
    members: Mutex<Members>,
    /// True if the log is being closed. Taken before `members`. Only used where there are groups.
    over: std::sync::Mutex<bool>,
    /// A group was written, or the log is being closed.
    written: Condvar,
    /// The log is being closed.
    closing: Condvar,
    carrier: Syncers,
}

/// Commits of the group.
#[derive(Debug, Default)]
struct Members {
    /// By their ends.
    levels: BTreeMap<Lsn, Durability>,
    /// The last end that was requested.
    requested: Lsn,
    /// True if the carrier runs, or is about to.
    is_carried: bool,
    /// End of the last write; none before the first.
    written_at: Option<Instant>,
}

impl Members {
    fn join(&mut self, end: Lsn, level: Durability) {
        let joined = self.levels.entry(end).or_insert(level);
        *joined = level.max(*joined);
    }

    /// Removes a member that was settled while it joined: it would only be counted into the next
    /// group. If another thread has asked for more at the same position it stays.
    fn leave(&mut self, rounds: &dyn Rounds, end: Lsn) {
        if self.levels.get(&end).is_some_and(|level| rounds.settled(end, *level)) {
            self.levels.remove(&end);
        }
    }

    fn has_requested(&self) -> bool {
        self.levels.range(..=self.requested).next().is_some()
    }
}

impl Inline {
    pub(super) fn new(group: Group) -> Self {
        Inline {
            group,
            turn: Mutex::new(()),
            members: Mutex::new(Members::default()),
            over: std::sync::Mutex::new(false),
            written: Condvar::new(),
            closing: Condvar::new(),
            carrier: Syncers::new(1),
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_groups(&self) -> bool {
        !CHECKED && self.group.microseconds > 0
    }

    /// Time that the group still has to wait; none if it is complete.
    fn left(&self, rounds: &dyn Rounds) -> Option<Duration> {
        let bytes = || rounds.reserved().since(rounds.written());
        self.left_of(rounds, |members| (members.levels.len() as u64, bytes()))
    }

    /// Time that the group still has to wait, whatever has come.
    fn time_left(&self, rounds: &dyn Rounds) -> Option<Duration> {
        self.left_of(rounds, |_| (0, 0))
    }

    fn left_of(&self, rounds: &dyn Rounds, found: impl FnOnce(&Members) -> (u64, u64)) -> Option<Duration> {
        if !self.has_groups() || rounds.is_over() {
            return None;
        }
        let members = self.members();
        let waited = members.written_at.map_or(Duration::MAX, |at| at.elapsed());
        let (commits, bytes) = found(&members);
        self.group.left(commits, bytes, waited)
    }

    /// Sleeps until `left` returns none or the log is closed.
    fn sleep(&self, on: &Condvar, left: impl Fn() -> Option<Duration>) {
        if !self.has_groups() {
            return;
        }
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over && let Some(left) = left() {
            over = on.wait_timeout(over, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the turn.
    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs for every member. With the turn.
    fn write(&self, rounds: &dyn Rounds) {
        let (end, level) = {
            let members = self.members();
            let Some((end, _)) = members.levels.last_key_value() else { return };
            (*end, members.levels.values().copied().max().unwrap_or_default())
        };
        write_to(rounds, end, level, false);
        let now = self.has_groups().then(Instant::now);
        {
            let mut members = self.members();
            members.levels.retain(|end, level| !rounds.settled(*end, *level));
            members.written_at = now;
        }
        if self.has_groups() {
            drop(self.over.lock().unwrap_or_else(PoisonError::into_inner));
            self.written.notify_all();
        }
    }

    /// Writes what was requested, until nothing is left of that. In the carrier, when the time of
    /// the group is over.
    fn carry(&self, rounds: &dyn Rounds, waits: bool) {
        loop {
            if waits {
                let left = || self.time_left(rounds).filter(|_| self.members().has_requested());
                self.sleep(&self.closing, left);
            }
            let _turn = self.take_turn();
            {
                let mut members = self.members();
                if !members.has_requested() {
                    members.is_carried = false;
                    return;
                }
            }
            self.write(rounds);
        }
    }
}

impl SyncProtocol for Inline {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if level == Durability::Buffered || rounds.settled(end, level) {
            return;
        }
        let watch = Stopwatch::start();
        self.members().join(end, level);
        self.sleep(&self.written, || self.left(rounds).filter(|_| !rounds.settled(end, level)));
        let _turn = self.take_turn();
        if rounds.settled(end, level) {
            self.members().leave(rounds, end);
            rounds.tally().told(1);
            rounds.tally().waited(watch.nanoseconds(), false);
            return;
        }
        rounds.tally().got_lock(watch.nanoseconds());
        self.write(rounds);
    }

    fn request(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        if level == Durability::Buffered || rounds.settled(end, level) {
            return;
        }
        let is_carried = {
            let mut members = self.members();
            members.join(end, level);
            members.requested = members.requested.max(end);
            std::mem::replace(&mut members.is_carried, true)
        };
        if !is_carried && !self.carrier.give(rounds, 1) {
            self.carry(rounds, false);
        }
    }

    fn offer(&self, rounds: &dyn Rounds) {
        let is_complete = || !self.members().levels.is_empty() && self.left(rounds).is_none();
        if !is_complete() {
            return;
        }
        let watch = Stopwatch::start();
        let _turn = self.take_turn();
        if is_complete() {
            rounds.tally().got_lock(watch.nanoseconds());
            self.write(rounds);
        }
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.carrier.run(number, || self.carry(rounds, true));
    }

    fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.written.notify_all();
        self.closing.notify_all();
        self.carrier.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.carrier.wakeups()
    }
}

#[cfg(all(test, not(any(loom, katydid_explore, miri))))]
mod tests;
