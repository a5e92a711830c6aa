//! Pauses of threads whose transactions were aborted by a conflict.
//!
//! Any thread runs this code. A pause lasts a random time up to a maximum, which hill climbing
//! adapts to the throughput (Cicada, section 3.9). When at least 4 ms have passed since the last
//! step, the next pause makes a step: it raises or lowers the maximum. If the rate of commits has
//! fallen since the last step, the direction is reversed. A pausing thread yields.

use super::limit::shard;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use katydid_kernels::txn::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Least number of ticks of the store's clock between two steps: 4 ms.
const PERIOD: u64 = 1 << 16;
/// Ticks by which a step changes the maximum: 2 us.
const STEP: u64 = 32;
/// Upper limit of the maximum, in ticks: 1 ms.
const LONGEST: u64 = 1 << 14;

#[derive(Debug, Default)]
struct HillClimb {
    begun: u64,
    commits: u64,
    /// Rate of commits, per [`PERIOD`] ticks, between the last step and the step before it.
    rate: u64,
    is_down: bool,
}

#[derive(Debug)]
pub(super) struct Backoff {
    commits: Box<[CachePadded<AtomicU64>]>,
    pauses: AtomicU64,
    /// The present maximum of a pause, in ticks.
    longest: AtomicU64,
    /// The state of the hill climbing. Threads only try this latch and never wait for it.
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

    /// Counts a validated transaction.
    pub(super) fn count(&self) {
        self.commits[shard(self.commits.len())].fetch_add(1, Relaxed);
    }

    /// Number of pauses.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses.load(Relaxed)
    }

    /// Pauses the calling thread, whose transaction was aborted by a conflict.
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
    /// Makes a step and returns the next maximum.
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
