//! Begin of a round of `pipelined`: after a number of commits, a number of bytes, or a number of
//! microseconds, whichever comes first.
//!
//! By default (all zero) at once, and then nothing here costs anything. The syncer waits here;
//! committers count themselves. ELEDA's I/O unit (sections 4.3 and 6.5.3) is a group of as many
//! bytes: the flusher waits until a unit is full, or for the group's time.

use super::rounds::Rounds;
use crate::sync_shim::{AtomicU64, CHECKED, Instant, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Condition that begins a round for which a thread waits: a number of commits, of bytes or of
/// microseconds, whichever is first. The default, all zero, begins it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Group {
    /// Commits that begin a round; 0 for no such rule.
    pub commits: u64,
    /// Bytes of the log that begin a round; 0 for no such rule.
    pub bytes: u64,
    /// The longest wait before a round begins, at most 10 seconds. With 0 a round begins at once,
    /// and the other two fields have no effect.
    pub microseconds: u64,
}

impl Group {
    /// Time that a round still has to wait after it has waited for `waited`, with this many commits
    /// and bytes; none if it begins.
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
    // Commits since the last round began. Relaxed: a guess. A committer that misses the syncer's
    // look at it finds the latch held, and notifies.
    commits: AtomicU64,
    /// True if the log is being closed. A leaf latch.
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

    /// A commit has come; its record is reserved.
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

    /// The syncer, which has something to do, waits for more.
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

    /// Waits by a clock that says how long the wait has taken, and `sleep`, which ends after a time
    /// or a notification.
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

    /// Ends all waits, also later ones.
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
