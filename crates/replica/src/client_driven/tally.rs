//! Counters of a replica.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | all | the thread of each connection | [`Tally::stat`] | relaxed: plain sums |

use super::message::{Answer, Outcome, ReplicaStat};
use katydid::{Database, Error};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a replica.
#[derive(Debug, Default)]
pub(super) struct Tally {
    committed: AtomicU64,
    refused: AtomicU64,
    repeated: AtomicU64,
    server_ns: AtomicU64,
}

impl Tally {
    /// Counts an answer.
    pub fn count(&self, answer: &Answer) {
        let counter = match &answer.outcome {
            _ if answer.repeated => &self.repeated,
            Outcome::Committed { .. } => {
                self.server_ns.fetch_add(answer.server_ns, Ordering::Relaxed);
                &self.committed
            }
            Outcome::Refused(_) => &self.refused,
            Outcome::InDoubt(_) => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters, including those of the database's log.
    pub fn stat(&self, database: &Database) -> Result<ReplicaStat, Error> {
        let log = database.stat()?.log.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(ReplicaStat {
            committed: of(&self.committed),
            refused: of(&self.refused),
            repeated: of(&self.repeated),
            server_ns: of(&self.server_ns),
            lock_ns: log.sync_lock_ns,
            sync_ns: log.sync_ns,
            wait_ns: log.completion_ns,
            locks: log.sync_locks,
            syncs: log.syncs,
            slots: log.slots,
            slot_threads: log.slot_threads,
            queues: log.sync_queues,
            queued: log.sync_queued,
            released: log.released,
        })
    }
}
