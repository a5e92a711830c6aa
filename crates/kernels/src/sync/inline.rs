//! Protocol `inline`: group commit by the workers that commit (Cicada with P-WAL, section III-B.2).
//! No thread of the log writes for a worker that waits.
//!
//! A worker that commits looks at the group. The group is complete if it has the configured number
//! of commits or bytes, or if the group's time, counted from the last write, is over. If the group
//! is complete, the worker itself writes and syncs the whole group, and then goes on with its next
//! transaction. Three calls look at the group:
//!
//! | call | the worker | if the group is incomplete, the worker |
//! |---|---|---|
//! | [`SyncProtocol::offer`], from a queue of callbacks | has commits in the group | goes on |
//! | [`SyncProtocol::wait`] | blocks | sleeps until its commit is settled or the group complete |
//! | [`SyncProtocol::request`] | must not block | goes on, even if the group is complete |
//!
//! Differences from the paper. A request must not block, and perhaps no thread ever calls `offer`
//! or `wait`. So a thread of the log, the carrier, writes the requested commits that are still in
//! the group when the group's time is over. The paper's worker also looks at the group before it
//! aborts a transaction that has waited for too long; here the carrier ends that wait. Several
//! threads may share a log; one of them writes for all.
//!
//! Invariants:
//!
//! 1. A commit is a member from its request or wait until a write or sync has settled it. A waiting
//!    thread sleeps only as a member, and at most for the group's time, so a missed notification
//!    delays it no longer than that. Only the notification that the log is being closed must never
//!    be missed.
//! 2. Only the holder of `turn` writes and syncs. A thread that gets `turn` checks again whether a
//!    write is still needed.
//! 3. While a requested commit is a member, the carrier runs, or a thread is about to start or wake
//!    the carrier.

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
    /// A thread holds this latch during a write and sync (invariant 2). Taken before `over` and
    /// `members`.
    turn: Mutex<()>,
    /// This is a leaf latch.
    members: Mutex<Members>,
    /// True if the log is being closed. Taken before `members`. Used only if the protocol has
    /// groups.
    over: std::sync::Mutex<bool>,
    /// Notified when a group was written, or the log is being closed.
    written: Condvar,
    /// Notified when the log is being closed.
    closing: Condvar,
    carrier: Syncers,
}

/// The commits of the group.
#[derive(Debug, Default)]
struct Members {
    /// The levels that were asked for, by the ends of the commit records.
    levels: BTreeMap<Lsn, Durability>,
    /// The highest end that was requested.
    requested: Lsn,
    /// True if the carrier runs or is about to run.
    is_carried: bool,
    /// Time at which the last write ended; `None` before the first write.
    written_at: Option<Instant>,
}

impl Members {
    fn join(&mut self, end: Lsn, level: Durability) {
        let joined = self.levels.entry(end).or_insert(level);
        *joined = level.max(*joined);
    }

    /// Removes a member that was settled while it joined, because the next group would count it.
    /// The member stays if another thread has asked for a higher level at this position.
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

    /// Returns the time that the group must still wait; `None` if it is complete.
    fn left(&self, rounds: &dyn Rounds) -> Option<Duration> {
        let bytes = || rounds.reserved().since(rounds.written());
        self.left_of(rounds, |members| (members.levels.len() as u64, bytes()))
    }

    /// Returns the time that the group must still wait, whatever commits and bytes have come.
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

    /// Sleeps until `left` returns `None` or the log is closed.
    fn sleep(&self, on: &Condvar, left: impl Fn() -> Option<Duration>) {
        if !self.has_groups() {
            return;
        }
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over && let Some(left) = left() {
            over = on.wait_timeout(over, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for `turn`.
    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs for every member. The caller holds `turn`.
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

    /// Writes until no requested commit is left. If `waits` is true, as for the carrier, each write
    /// begins when the time of the group is over.
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
            rounds.tally().count_released(1);
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
