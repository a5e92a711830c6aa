//! Garbage collection: committing threads cut off old versions and remove records without a value.
//!
//! A committing thread adds to its queue the records that it wrote, and prunes about twice as many
//! records of this queue. So queues get shorter as soon as the horizon allows it, and no thread
//! stops for a collection. Invariants:
//!
//! 1. A version is cut off only if a newer version was written below the horizon. So a transaction
//!    that reads now or later finds the newer one.
//! 2. A tombstone is removed only when it is durable, lies below the horizon, is the only version
//!    of its record, and no [`KeepTombstones`] guard exists. The gap that the record leaves then
//!    prevents writes at earlier timestamps.
//! 3. The records of a transaction are pruned when its timestamp is below the horizon. The versions
//!    that the transaction replaced are freed then, even if the transaction is not durable. So
//!    memory is bounded, however slow the log is. (`OldVersions::UntilDurable` lowers the horizon
//!    to the timestamp of the oldest log record that is not durable, except for a transaction that
//!    finds the memory full.) Tombstones stay queued as invariant 2 requires. Any other record that
//!    cannot be removed has a newer version, whose writer queues the record again.

use super::limit::{RECORD_BYTES, VERSION_BYTES, shard};
use super::record::{Pruned, Record, Version};
use super::state::Store;
use super::unflushed::Unflushed;
use crate::latch::Mutex;
use crossbeam_utils::CachePadded;
use katydid_kernels::txn::Timestamp;
use katydid_kernels::txn::{Outcome, TxnStatus};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const SHARDS: usize = 16;
/// Least number of transactions added to a queue between two computations of the horizon.
const HORIZON_EVERY: u32 = 32;

/// The records that one transaction wrote.
#[derive(Debug)]
struct Retired {
    timestamp: Timestamp,
    /// `None` if the transaction was aborted and left records without a version.
    status: Option<Arc<TxnStatus>>,
    records: SmallVec<[Arc<Record>; 2]>,
}

#[derive(Debug, Default)]
struct Queue {
    retired: VecDeque<Retired>,
    /// Tombstones below the horizon that are not durable yet, or that a checkpoint needs.
    kept: VecDeque<Retired>,
    since_horizon: u32,
}

impl Queue {
    fn len(&self) -> usize {
        self.retired.len() + self.kept.len()
    }
}

/// Limit up to which queued records are pruned.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// The horizon that was computed last. The next one is computed after [`HORIZON_EVERY`]
    /// transactions at the earliest.
    Known,
    /// The present horizon.
    Now,
    /// This timestamp.
    Below(Timestamp),
}

#[derive(Debug)]
pub(super) struct Collector {
    /// Latches of rank 5. A thread holds at most one of them at a time, and releases it before it
    /// prunes records.
    queues: Box<[CachePadded<Mutex<Queue>>]>,
    keep_tombstones: AtomicUsize,
}

impl Collector {
    pub(super) fn new() -> Self {
        Collector {
            queues: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            keep_tombstones: AtomicUsize::new(0),
        }
    }

    /// Number of transactions with records in the queues: records to prune, and tombstones to
    /// remove.
    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.lock().len()).sum()
    }

    fn keeps_tombstones(&self) -> bool {
        self.keep_tombstones.load(SeqCst) > 0
    }

    /// Takes the next transaction to prune from queue `at`. Also returns the horizon, which is
    /// above the transaction's timestamp.
    fn next(&self, at: usize, store: &Store, reach: Reach) -> Option<(Retired, Timestamp)> {
        let mut queue = self.queues[at].lock();
        let queue = &mut *queue;
        let mut horizon = match reach {
            Reach::Below(horizon) => horizon,
            Reach::Known | Reach::Now => store.last_horizon(),
        };
        if !queue.kept.is_empty() && !self.keeps_tombstones() {
            let status = queue.kept.front().and_then(|kept| kept.status.as_ref());
            let outcome = status.map_or(Outcome::Durable, |status| status.outcome(store.log.as_ref()));
            if matches!(outcome, Outcome::Durable) {
                return queue.kept.pop_front().map(|kept| (kept, horizon));
            }
        }
        let front = queue.retired.front()?;
        if front.timestamp >= horizon {
            let every = HORIZON_EVERY + store.slots.scanned() as u32 / 4;
            let is_time = match reach {
                Reach::Known => queue.since_horizon >= every,
                Reach::Now => true,
                Reach::Below(_) => false,
            };
            if !is_time {
                return None;
            }
            queue.since_horizon = 0;
            horizon = store.horizon();
        }
        if queue.retired.front()?.timestamp >= horizon {
            return None;
        }
        queue.retired.pop_front().map(|retired| (retired, horizon))
    }
}

/// Guard of a checkpoint: while it exists, no tombstone is removed.
#[derive(Debug)]
pub(crate) struct KeepTombstones(Arc<Store>);

impl Drop for KeepTombstones {
    fn drop(&mut self) {
        self.0.collector.keep_tombstones.fetch_sub(1, SeqCst);
    }
}

impl Store {
    /// Prevents the removal of tombstones until the guard is dropped.
    pub(crate) fn keep_tombstones(self: &Arc<Self>) -> KeepTombstones {
        self.collector.keep_tombstones.fetch_add(1, SeqCst);
        KeepTombstones(self.clone())
    }

    /// Computes the horizon. Replaced versions below it can be cut off.
    fn horizon(&self) -> Timestamp {
        let unread = self.slots.horizon();
        self.unflushed.as_ref().map_or(unread, |unflushed| unflushed.lower(unread, self.log.as_ref()))
    }

    /// The horizon as last computed.
    fn last_horizon(&self) -> Timestamp {
        self.unflushed.as_ref().map_or_else(|| self.slots.last_horizon(), Unflushed::last)
    }

    /// Queues the records that a transaction wrote, and prunes some queued ones.
    pub(super) fn retire(
        &self,
        timestamp: Timestamp,
        status: Option<Arc<TxnStatus>>,
        records: SmallVec<[Arc<Record>; 2]>,
    ) {
        let own = shard(SHARDS);
        let budget = 2 * records.len() + 2;
        let helps = {
            let mut queue = self.collector.queues[own].lock();
            queue.retired.push_back(Retired { timestamp, status, records });
            queue.since_horizon += 1;
            queue.since_horizon == HORIZON_EVERY
        };
        self.collect_some(own, budget, Reach::Known);
        if helps {
            // Another queue is pruned now and then, because threads that have stopped leave records
            // in their queues.
            let other = timestamp.tick() as usize % SHARDS;
            self.collect_some(other, budget, Reach::Now);
        }
    }

    fn collect_some(&self, at: usize, budget: usize, reach: Reach) -> usize {
        let mut looked_at = 0;
        while looked_at < budget {
            let Some((retired, horizon)) = self.collector.next(at, self, reach) else { break };
            looked_at += retired.records.len().max(1);
            let outcome = retired.status.as_ref().map(|status| status.outcome(self.log.as_ref()));
            let mut kept: SmallVec<[Arc<Record>; 2]> = SmallVec::new();
            let mut freed = 0;
            for record in retired.records {
                let pruned = record.chain().prune(horizon, retired.timestamp, outcome.as_ref());
                freed += pruned.cut.iter().map(version_bytes).sum::<usize>();
                if !self.has_looked_through(&record, horizon, &pruned) {
                    kept.push(record);
                }
            }
            if freed > 0 {
                self.limit.release(freed);
            }
            if !kept.is_empty() {
                let mut queue = self.collector.queues[at].lock();
                queue.kept.push_back(Retired {
                    timestamp: retired.timestamp,
                    status: retired.status,
                    records: kept,
                });
            }
        }
        looked_at
    }

    /// Prunes everything below the horizon, for example for a transaction that needs the memory at
    /// once.
    pub(crate) fn collect(&self) {
        self.collect_to(Reach::Below(self.horizon()));
    }

    /// Prunes everything that no transaction reads, even if `OldVersions::UntilDurable` would keep
    /// it until the log is durable.
    pub(super) fn collect_unread(&self) {
        self.collect_to(Reach::Below(self.slots.horizon()));
    }

    fn collect_to(&self, reach: Reach) {
        for at in 0..SHARDS {
            let waiting = self.collector.queues[at].lock().len();
            for _ in 0..waiting {
                if self.collect_some(at, 1, reach) == 0 {
                    break;
                }
            }
        }
    }

    /// Removes the pruned record if it has no value that can be read. Returns false if the
    /// transaction that queued the record must keep the record queued.
    fn has_looked_through(&self, record: &Arc<Record>, horizon: Timestamp, pruned: &Pruned) -> bool {
        let Pruned { can_go, is_deleted, is_its_own, .. } = *pruned;
        if is_deleted && (!can_go || self.collector.keeps_tombstones()) {
            // Only the transaction that deleted the key keeps the record queued.
            return !is_its_own;
        }
        if !can_go {
            return true;
        }
        if let Some(table) = self.find_table(record.table)
            && let Some(had_version) = table.index.remove_if(record, |chain| chain.can_go(horizon))
        {
            self.limit.release(record.key.len() + RECORD_BYTES + if had_version { VERSION_BYTES } else { 0 });
        }
        true
    }
}

/// Bytes that were charged for a version.
pub(super) fn version_bytes(version: &Version) -> usize {
    version.value.as_ref().map_or(0, |value| value.len()) + VERSION_BYTES
}
