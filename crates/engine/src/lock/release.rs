//! Letting go of everything a transaction holds.
//!
//! Runs on the transaction's thread, or the one that ends it. Points go first, one shard at a time;
//! then, table by table, the ranges, and the transaction's name as a blocker of others' ranges: by
//! then it holds no point there any more, and a range registered later does not find one.

use super::held::{HeldPoint, TxnLocks};
use super::mode::PointMode;
use super::point::{Edges, grant_next};
use super::space::LockSpace;
use super::wait::Wakes;
use super::{Locks, Lsn};

impl Locks {
    /// Releases all locks and wakes whom they held up. `commit_end`: the end of the commit record,
    /// if the locks go before that is durable; it becomes what later holders of the written keys
    /// depend on. `None` if there is nothing to depend on: rolled back, durable already, or nothing
    /// written. Does nothing the second time.
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
            // A range that saw one of our points was counted before it did, so the count is visible
            // here.
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
