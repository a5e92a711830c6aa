//! The log records that are not durable yet, with the timestamps of their transactions (Cicada with
//! P-WAL, section III-C).
//!
//! Any thread runs this code. Each commit adds its record. A thread that computes the horizon
//! removes the records that have become durable. Invariants:
//!
//! 1. A record is added before other transactions see the versions of its transaction. So no
//!    transaction replaces one of these versions before the record is in this list.
//! 2. A record is removed only when its own stream is durable up to it.

use super::limit::shard;
use super::state::LogView;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use katydid_kernels::txn::Timestamp;
use katydid_wal::StreamLsn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SHARDS: usize = 16;

/// The timestamp of a transaction, and the end of its record.
type Logged = (Timestamp, StreamLsn);

/// The log records that are not durable yet.
#[derive(Debug)]
pub(super) struct Unflushed {
    /// The records, sharded by the logging thread. A thread that holds one of these latches takes
    /// no other latches than the log's.
    records: Box<[CachePadded<Mutex<Vec<Logged>>>]>,
    /// The last result of [`Unflushed::lower`]. Relaxed, because a horizon that was once valid
    /// stays valid for all versions that were replaced at timestamps below it.
    last: AtomicU64,
}

impl Unflushed {
    pub(super) fn new() -> Self {
        Unflushed { records: (0..SHARDS).map(|_| CachePadded::default()).collect(), last: AtomicU64::new(0) }
    }

    /// Adds the record of the transaction with `timestamp`. The record ends at `place`.
    pub(super) fn add(&self, timestamp: Timestamp, place: StreamLsn) {
        self.records[shard(SHARDS)].lock().push((timestamp, place));
    }

    /// The minimum of `horizon` and the timestamps of all records that are not durable.
    pub(super) fn lower(&self, horizon: Timestamp, log: &dyn LogView) -> Timestamp {
        let lowered = self.oldest(log).map_or(horizon, |oldest| oldest.min(horizon));
        self.last.store(lowered.get(), Relaxed);
        lowered
    }

    /// The last result of [`Unflushed::lower`]; zero before the first.
    pub(super) fn last(&self) -> Timestamp {
        Timestamp::new(self.last.load(Relaxed))
    }

    fn oldest(&self, log: &dyn LogView) -> Option<Timestamp> {
        let oldest_of = |records: &CachePadded<Mutex<Vec<Logged>>>| {
            let mut records = records.lock();
            records.retain(|(_, place)| !log.is_durable(*place));
            records.iter().map(|(timestamp, _)| *timestamp).min()
        };
        self.records.iter().filter_map(oldest_of).min()
    }
}
