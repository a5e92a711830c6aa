//! When a round of `pipelined` begins: after so many commits, so many bytes, or so many microseconds, whichever is first.
//!
//! By default (all zero) at once, and then nothing here costs anything. The syncer waits here; committers count themselves.

use super::rounds::Rounds;
use crate::sync_shim::{AtomicU64, CHECKED, Instant, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// When a round of `Pipelined` begins that somebody waits for: after so many commits, so many bytes or so many microseconds, whichever is first.
/// The default, all zero, is at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Group {
    /// Commits that begin a round; 0 for no such rule.
    pub commits: u64,
    /// Bytes of the log that begin a round; 0 for no such rule.
    pub bytes: u64,
    /// The longest wait before a round begins, at most 10 seconds. With 0 a round begins at once, and the other two fields have no effect.
    pub microseconds: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Grouping {
    group: Group,
    // Commits since the last round began. Relaxed: a guess; who misses the syncer's look at it finds the latch held, and
    // notifies.
    commits: AtomicU64,
    /// Whether the log is being closed. A leaf latch.
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
        if self.is_enough(rounds) {
            drop(self.over.lock().unwrap_or_else(PoisonError::into_inner));
            self.enough.notify_one();
        }
    }

    /// The syncer, which has something to do, waits for more.
    pub(super) fn wait(&self, rounds: &dyn Rounds) {
        if self.is_off() {
            return;
        }
        let deadline = Instant::now() + Duration::from_micros(self.group.microseconds);
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over && !self.is_enough(rounds) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.enough.wait_timeout(over, left);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.commits.store(0, Ordering::SeqCst);
    }

    /// Nobody waits any more.
    pub(super) fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.enough.notify_one();
    }

    fn is_enough(&self, rounds: &dyn Rounds) -> bool {
        let Group { commits, bytes, .. } = self.group;
        (commits > 0 && self.commits.load(Ordering::SeqCst) >= commits)
            || (bytes > 0 && rounds.reserved().since(rounds.written()) >= bytes)
            || rounds.is_over()
    }
}
