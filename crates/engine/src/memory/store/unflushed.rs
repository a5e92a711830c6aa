//! The records in the log's memory that are not durable yet, by the timestamps of their
//! transactions (Cicada with P-WAL, section III-C).
//!
//! Any thread. Each commit adds its record; a thread that looks for old versions takes out what has
//! become durable. Invariants:
//!
//! 1. A record is added before others see the versions that it is about. So no transaction replaces
//!    one of them, or finds it replaced, before the record is here.
//! 2. A record is taken out only when its own stream is durable up to it.

use super::limit::shard;
use super::state::LogView;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use katydid_kernels::txn::Timestamp;
use katydid_wal::StreamLsn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SHARDS: usize = 16;

/// The timestamp of a transaction, and where its record ends.
type Logged = (Timestamp, StreamLsn);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Unflushed {
    /// By the thread that logged. Leaf latches but for the log's own.
    records: Box<[CachePadded<Mutex<Vec<Logged>>>]>,
    /// The last result of [`Unflushed::lower`]. Relaxed: a horizon that was right once is right for
    /// every version that was replaced before.
    last: AtomicU64,
}

impl Unflushed {
    pub(super) fn new() -> Self {
        Unflushed { records: (0..SHARDS).map(|_| CachePadded::default()).collect(), last: AtomicU64::new(0) }
    }

    /// The record of the transaction of `timestamp` ends at `place`.
    pub(super) fn add(&self, timestamp: Timestamp, place: StreamLsn) {
        self.records[shard(SHARDS)].lock().push((timestamp, place));
    }

    /// The lesser of `horizon` and the earliest timestamp of a record that is not durable.
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
