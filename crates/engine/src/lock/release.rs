//! Releasing all locks of a transaction.
//!
//! The transaction's thread, or another thread that ends the transaction, runs this code. The
//! thread first releases the points, one shard at a time. Then, table by table, it removes the
//! transaction's ranges, and removes the transaction from the blockers of other ranges. By then the
//! transaction holds no point of the table any more, so a range that is registered later finds no
//! point of the transaction.

use super::held::{HeldPoint, TxnLocks};
use super::mode::PointMode;
use super::point::{Edges, grant_next};
use super::space::LockSpace;
use super::wait::Wakes;
use super::{Locks, Lsn};

impl Locks {
    /// Releases all locks and wakes the waiters that are granted. `commit_end` is the end of the
    /// commit record if that record is not yet durable; later holders of the written keys depend on
    /// it. `None` if the transaction was rolled back, is durable, or has written nothing. A second
    /// call does nothing.
    pub(crate) fn release_all(&self, txn: &mut TxnLocks, commit_end: Option<Lsn>) {
        if let Some(commit_end) = commit_end {
            txn.spaces_removed_from().for_each(|space| space.publish_removal(commit_end));
        }
        for point in txn.points() {
            let space = txn.space(point.space);
            self.release_point(txn, space, point, commit_end);
        }
        let me = txn.id();
        for (space, writes, has_ranges) in txn.spaces() {
            // A range is counted before its thread visits the shards. So if a range has found a
            // point of this transaction, the count is visible here.
            let may_block_ranges = writes && space.has_ranges();
            if !has_ranges && !may_block_ranges {
                continue;
            }
            let mut wakes = Wakes::default();
            let mut ranges = space.ranges.lock();
            let gone = if has_ranges { ranges.remove_all(me) } else { Vec::new() };
            space.uncount_ranges(gone.len());
            self.grant_ranges(space, &mut ranges, Some(me), &mut wakes);
            for range in gone {
                let keys = ranges.points_in(&range.interval);
                self.review_points(space, &mut ranges, &keys, Edges::Kept, &mut wakes);
            }
            drop(ranges);
            wakes.send();
        }
        txn.clear();
    }

    fn release_point(&self, txn: &TxnLocks, space: &LockSpace, point: &HeldPoint, commit_end: Option<Lsn>) {
        let key = txn.key(point);
        {
            let mut shard = space.shard(point.hash);
            if let Some(commit_end) = commit_end
                && point.mode == PointMode::Exclusive
            {
                shard.dependence.publish(point.hash, commit_end);
            }
            let Some(entry) = shard.get_mut(key) else { return };
            entry.drop_holder(txn.id());
            if entry.is_vacant() {
                shard.remove(key);
                return;
            }
            if entry.queue().is_empty() {
                return;
            }
            if !space.has_ranges() {
                let mut wakes = Wakes::default();
                grant_next(entry, key, None, &mut self.graph.lock(), &mut wakes);
                shard.tidy(key);
                drop(shard);
                wakes.send();
                return;
            }
        }
        let mut wakes = Wakes::default();
        let mut ranges = space.ranges.lock();
        self.review_points(space, &mut ranges, &[key.into()], Edges::Kept, &mut wakes);
        drop(ranges);
        wakes.send();
    }
}
