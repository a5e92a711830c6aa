//! Old versions and records without a value are cut off in passing.
//!
//! A committing thread leaves the records it wrote in its queue, and looks through twice as many
//! old ones. So queues get shorter as soon as nothing holds them up, and no thread stops.
//! Invariants:
//!
//! 1. A version is cut off only if a newer one was written below the horizon: a transaction that
//!    reads now or later finds that one.
//! 2. A tombstone goes only when it is durable, below the horizon, alone, and `keep_tombstones` is
//!    not asked for. Its gap then keeps others from writing earlier than it.
//! 3. What is queued at a timestamp is looked through when that is below the horizon. What it
//!    replaced is given up then, durable or not: so however slow the log is, memory is bounded.
//!    (`OldVersions::UntilDurable` lowers the horizon to the oldest record that is not durable,
//!    except for a transaction that finds the memory full.) Tombstones stay queued for as long as 2
//!    says; any other record that cannot go has a newer version, whose writer queues it again.

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
/// Transactions of one queue between two computations of the horizon, at least.
const HORIZON_EVERY: u32 = 32;

/// Records that one transaction wrote.
#[derive(Debug)]
struct Retired {
    timestamp: Timestamp,
    /// None: it gave way, and left records without a version.
    status: Option<Arc<TxnStatus>>,
    records: SmallVec<[Arc<Record>; 2]>,
}

#[derive(Debug, Default)]
struct Queue {
    retired: VecDeque<Retired>,
    /// Tombstones that are not durable yet, or that a checkpoint needs. They are below the horizon.
    kept: VecDeque<Retired>,
    since_horizon: u32,
}

impl Queue {
    fn len(&self) -> usize {
        self.retired.len() + self.kept.len()
    }
}

/// Extent of a look through old versions.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// To the horizon as it was last computed; it is computed again after [`HORIZON_EVERY`]
    /// transactions.
    Known,
    /// To the horizon as it is now.
    Now,
    /// To here.
    Below(Timestamp),
}

#[derive(Debug)]
pub(super) struct Collector {
    /// Rank 5: taken with nothing held, and not held while records are looked through.
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

    /// Transactions whose writes have not been looked through.
    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.lock().len()).sum()
    }

    fn keeps_tombstones(&self) -> bool {
        self.keep_tombstones.load(SeqCst) > 0
    }

    /// The next to be looked through, and the horizon that lets it.
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

/// While it lives, tombstones stay: a checkpoint is being written.
#[derive(Debug)]
pub(crate) struct KeepTombstones(Arc<Store>);

impl Drop for KeepTombstones {
    fn drop(&mut self) {
        self.0.collector.keep_tombstones.fetch_sub(1, SeqCst);
    }
}

impl Store {
    /// Keeps tombstones until the guard is dropped.
    pub(crate) fn keep_tombstones(self: &Arc<Self>) -> KeepTombstones {
        self.collector.keep_tombstones.fetch_add(1, SeqCst);
        KeepTombstones(self.clone())
    }

    /// Replaced versions below it go.
    fn horizon(&self) -> Timestamp {
        let unread = self.slots.horizon();
        self.unflushed.as_ref().map_or(unread, |unflushed| unflushed.lower(unread, self.log.as_ref()))
    }

    /// The horizon as last computed.
    fn last_horizon(&self) -> Timestamp {
        self.unflushed.as_ref().map_or_else(|| self.slots.last_horizon(), Unflushed::last)
    }

    /// Queues what a transaction wrote, and looks through some of what is old.
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
            // Threads that have stopped leave their queues behind.
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

    /// Looks through everything that may be: for a transaction that needs the room at once.
    pub(crate) fn collect(&self) {
        self.collect_to(Reach::Below(self.horizon()));
    }

    /// Looks through everything that no transaction reads, whether or not it waits for the log.
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

    /// Returns whether the transaction that has had the record looked through needs to look no
    /// more.
    fn has_looked_through(&self, record: &Arc<Record>, horizon: Timestamp, pruned: &Pruned) -> bool {
        let Pruned { can_go, is_deleted, is_its_own, .. } = *pruned;
        if is_deleted && (!can_go || self.collector.keeps_tombstones()) {
            // The transaction that deleted it has queued it.
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
