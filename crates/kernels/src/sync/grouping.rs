//! The condition that begins a round of `pipelined`, which is a write and its sync: a number of
//! commits, bytes or microseconds, whichever comes first.
//!
//! By default (all zero) a round begins at once, and this file costs no time. The syncer waits
//! here; each committer counts its commit. ELEDA's I/O unit (sections 4.3 and 6.5.3) is a group
//! with a number of bytes: the flusher waits until a unit is full or the group's time is over.

use super::rounds::Rounds;
use crate::sync_shim::{AtomicU64, CHECKED, Instant, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Condition that begins a round of `pipelined`, which is a write and its sync, or completes a
/// group of `inline`: a number of commits, bytes or microseconds, whichever comes first. By default
/// (all zero) a round begins at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Group {
    /// Number of commits at which a round begins; 0 switches this condition off.
    pub commits: u64,
    /// Number of bytes of the log at which a round begins; 0 switches this condition off.
    pub bytes: u64,
    /// The longest wait before a round begins, at most 10 seconds. With 0 a round begins at once,
    /// and the other two fields have no effect.
    pub microseconds: u64,
}

impl Group {
    /// Returns the time that a round must still wait, given the `commits` and `bytes` that have
    /// come and the time that the round has waited. Returns `None` if the round begins now.
    pub(super) fn left(self, commits: u64, bytes: u64, waited: Duration) -> Option<Duration> {
        let enough = |rule: u64, found: u64| rule > 0 && found >= rule;
        let left = Duration::from_micros(self.microseconds).saturating_sub(waited);
        let begins = left.is_zero() || enough(self.commits, commits) || enough(self.bytes, bytes);
        (!begins).then_some(left)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Grouping {
    group: Group,
    // Commits since the last round began. The syncer reads the number with `over` held. A committer
    // that completes the group takes `over` after it has counted, so the syncer sees the commit or
    // is notified.
    commits: AtomicU64,
    /// True if the log is being closed. This is a leaf latch.
    over: Mutex<bool>,
    enough: Condvar,
}

impl Grouping {
    pub(super) fn new(group: Group) -> Self {
        Grouping { group, commits: AtomicU64::new(0), over: Mutex::new(false), enough: Condvar::new() }
    }

    fn is_off(&self) -> bool {
        CHECKED || self.group.microseconds == 0
    }

    /// Counts a commit whose record is reserved, and notifies the syncer if the group is complete.
    pub(super) fn one_more(&self, rounds: &dyn Rounds) {
        if self.is_off() {
            return;
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.left(rounds, Duration::ZERO).is_none() {
            drop(self.over.lock().unwrap_or_else(PoisonError::into_inner));
            self.enough.notify_one();
        }
    }

    /// Blocks the syncer, which has something to write, until the group is complete.
    pub(super) fn wait(&self, rounds: &dyn Rounds) {
        if self.is_off() {
            return;
        }
        let begun = Instant::now();
        self.wait_by(
            rounds,
            || begun.elapsed(),
            |over, left| self.enough.wait_timeout(over, left).unwrap_or_else(PoisonError::into_inner).0,
        );
    }

    /// Waits with the clock `waited`, which returns the duration of the wait so far, and with
    /// `sleep`, which ends after the given time or a notification.
    fn wait_by<'a>(
        &'a self,
        rounds: &dyn Rounds,
        waited: impl Fn() -> Duration,
        mut sleep: impl FnMut(MutexGuard<'a, bool>, Duration) -> MutexGuard<'a, bool>,
    ) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over && let Some(left) = self.left(rounds, waited()) {
            over = sleep(over, left);
        }
        self.commits.store(0, Ordering::SeqCst);
    }

    /// Ends all present and later waits.
    pub(super) fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.enough.notify_one();
    }

    fn left(&self, rounds: &dyn Rounds, waited: Duration) -> Option<Duration> {
        if rounds.is_over() {
            return None;
        }
        let bytes = rounds.reserved().since(rounds.written());
        self.group.left(self.commits.load(Ordering::SeqCst), bytes, waited)
    }
}

#[cfg(all(test, not(any(loom, katydid_explore, miri))))]
mod tests;
