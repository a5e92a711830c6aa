//! Stage three of a log in NVRAM: a waiter finds whether the holes below are filled, and persists
//! what is, until its record is persisted by itself or by another thread (`nvram/medium.rs` of
//! `katydid-wal`).
//!
//! A hole is filled by a thread that is copying, and another thread persists for as long as a fence
//! takes. So the wait is that short, or as long as that thread's turn on the processor. A thread
//! serves requests that could not be done at once.

use super::requests::{Committer, Requested};
use super::rounds::{Ask, Plan, Rounds, SyncProtocol};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::pause;

/// See the head of this file.
#[derive(Debug)]
struct Persisted;

/// Makes the protocol, for one log.
pub fn persisted() -> Box<dyn SyncProtocol> {
    Box::new(Requested::new(Persisted))
}

impl Committer for Persisted {
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
}
