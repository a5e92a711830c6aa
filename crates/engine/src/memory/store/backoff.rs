//! Pauses of transactions that gave way.
//!
//! Any thread. A pause lasts a random time up to a maximum that climbs the hill of the throughput
//! (Cicada, section 3.9). From time to time the maximum is moved a step, and if fewer transactions
//! were committed since than before, the next step goes the other way. A pausing thread yields.

use super::limit::shard;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use katydid_kernels::txn::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ticks between two steps: 4 ms.
const PERIOD: u64 = 1 << 16;
/// One step: 2 us.
const STEP: u64 = 32;
/// The longest maximum: 1 ms.
const LONGEST: u64 = 1 << 14;

#[derive(Debug, Default)]
struct HillClimb {
    begun: u64,
    commits: u64,
    /// Commits in a period, when the last step was made.
    rate: u64,
    is_down: bool,
}

#[derive(Debug)]
pub(super) struct Backoff {
    commits: Box<[CachePadded<AtomicU64>]>,
    pauses: AtomicU64,
    /// In ticks.
    longest: AtomicU64,
    /// Guards the climb; only tried, never waited for.
    climb: Mutex<HillClimb>,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Backoff {
            commits: (0..16).map(|_| CachePadded::default()).collect(),
            pauses: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            climb: Mutex::default(),
        }
    }

    /// One more transaction was validated.
    pub(super) fn count(&self) {
        self.commits[shard(self.commits.len())].fetch_add(1, Relaxed);
    }

    /// Number of pauses.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses.load(Relaxed)
    }

    /// Keeps a transaction that gave way out of the way.
    pub(super) fn pause(&self, clock: &Clock) {
        self.pauses.fetch_add(1, Relaxed);
        let now = clock.now();
        if let Some(mut climb) = self.climb.try_lock()
            && now.saturating_sub(climb.begun) >= PERIOD
        {
            let commits = self.commits.iter().map(|shard| shard.load(Relaxed)).sum();
            self.longest.store(climb.step(now, commits, self.longest.load(Relaxed)), Relaxed);
        }
        let longest = self.longest.load(Relaxed);
        if longest == 0 {
            std::thread::yield_now();
            return;
        }
        let until = now + now.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) % longest;
        while clock.now() < until {
            std::thread::yield_now();
        }
    }
}

impl HillClimb {
    /// The next maximum.
    fn step(&mut self, now: u64, commits: u64, longest: u64) -> u64 {
        let rate = (commits - self.commits).saturating_mul(PERIOD) / (now - self.begun).max(1);
        if rate < self.rate {
            self.is_down = !self.is_down;
        }
        *self = HillClimb { begun: now, commits, rate, is_down: self.is_down && longest > 0 };
        if self.is_down { longest.saturating_sub(STEP) } else { (longest + STEP).min(LONGEST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_finds_the_top_of_a_hill() {
        let mut climb = HillClimb::default();
        let (mut longest, mut commits) = (0, 0);
        let top = 20 * STEP;
        for period in 1..200 {
            longest = climb.step(period * PERIOD, commits, longest);
            commits += 10_000 - longest.abs_diff(top);
        }
        assert!(longest.abs_diff(top) <= 3 * STEP, "{longest}");
    }
}
