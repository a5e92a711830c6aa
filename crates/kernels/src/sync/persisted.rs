//! Stage three of a log in NVRAM: a waiter finds whether the holes below are filled, and persists what is, until its record is persisted by
//! itself or by another thread (`nvram/medium.rs` of `katydid-wal`).
//!
//! A hole is filled by a thread that is copying, and somebody else persists for as long as a fence takes: the wait is that short, or as
//! long as that thread's turn on the processor. What is requested and could not be done at once a thread waits for.

use super::requests::Requests;
use super::rounds::{Ask, Plan, Rounds, SyncProtocol};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::pause;

/// See the head of this file.
#[derive(Debug)]
pub struct Persisted {
    requests: Requests,
}

impl Default for Persisted {
    fn default() -> Self {
        Self::new()
    }
}

impl Persisted {
    /// For one log.
    pub fn new() -> Self {
        Persisted { requests: Requests::new() }
    }
}

impl SyncProtocol for Persisted {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        let mut step = 0;
        while !rounds.settled(end, level) {
            if let Plan::Write(write) = rounds.plan(Ask { level, own: end, only_own: false, depth: 1 }) {
                rounds.perform(&write);
            }
            if rounds.settled(end, level) {
                return;
            }
            pause(step);
            step += 1;
        }
    }

    fn request(&self, rounds: &dyn Rounds, _: Lsn, level: Durability) {
        self.requests.make(rounds, level, |end, level| self.wait(rounds, end, level));
    }

    fn serve(&self, rounds: &dyn Rounds, number: usize) {
        self.requests.run(rounds, number, |end, level| self.wait(rounds, end, level));
    }

    fn stop(&self) {
        self.requests.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.requests.wakeups()
    }
}
