//! Stage three of a log in NVRAM. A waiter repeats two steps until its record is persisted: it
//! scans for holes below its record, and persists the filled bytes. Another thread may persist the
//! record first (`nvram/medium.rs` of `katydid-wal`).
//!
//! The wait is short: a thread waits only while another thread copies into a hole or executes a
//! fence. The wait is longer only if that thread has lost its processor. A thread of the log serves
//! requests that could not be served at once.

use super::requests::{Committer, Requested};
use super::rounds::{Ask, Plan, Rounds, SyncProtocol};
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::pause;

/// See the head of this file.
#[derive(Debug)]
struct Persisted;

/// Makes the protocol for one log.
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
