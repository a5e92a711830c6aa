//! Waiting for a point lock, and the changes of a key's queue.
//!
//! Runs on the thread that asks for a lock, and, for the functions on a queue, on those that let go
//! of one. The key's shard is locked throughout; the table's range mutex too, unless
//! `space.has_ranges()` was read to be false under the shard, which rules ranges out as long as the
//! shard stays locked.
//!
//! 1. After a waiter left the queue without a grant, or went in front of others, or a request was
//!    granted past waiters, the edges of all that wait behind are made anew ([`retrace`]). A
//!    release needs no new edges: its transaction is gone, and the next in line for others is now
//!    the holder, under the same name.
//! 2. A transaction that is granted an exclusive lock while ranges are registered notifies the
//!    range locks that wait around the key (rule 2 of `range`).

use super::entry::{Entry, Waiter};
use super::held::TxnLocks;
use super::mode::PointMode;
use super::range::Ranges;
use super::resource::Conflict;
use super::space::LockSpace;
use super::wait::{Graph, Wakes};
use super::{Locks, Lsn};
use crate::error::ConflictKind;
use crate::ids::TxnId;

impl Locks {
    /// Acquires a point that could not be granted at once; returns what it depends on. `upgrade`:
    /// held in a weaker mode.
    pub(super) fn wait_for_point(
        &self,
        txn: &mut TxnLocks,
        space: &LockSpace,
        hash: u64,
        key: &[u8],
        mode: PointMode,
        upgrade: bool,
    ) -> Result<Lsn, Conflict> {
        let parker = txn.parker();
        let me = txn.id();
        let mut wakes = Wakes::default();
        {
            let mut ranges = space.ranges.lock();
            let mut shard = space.shard(hash);
            let depends_on = shard.dependence.of_point(hash);
            let entry = shard.entry(key);
            let ticket = ranges.ticket();
            let mut place = entry.place_for(upgrade);
            // Holders of what this request wants; waiters before it in the queue; ranges that were
            // here first.
            let (mut held, mut queued, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
            entry.holders_against(me, mode, &mut held);
            entry.queued_against(place, mode, &mut queued);
            if mode == PointMode::Exclusive {
                ranges.granted_against(me, key, &mut held);
                ranges.waiting_against(me, key, ticket, &mut waiting);
            }
            if held.is_empty() && queued.is_empty() && waiting.is_empty() && entry.queue().is_empty() {
                entry.hold(me, mode);
                return Ok(depends_on);
            }
            let mut graph = self.graph.lock();
            let mut jumps = upgrade;
            if graph.any_reaches(&queued, me) {
                (place, jumps) = (0, true);
                queued.clear();
            }
            let passes_ranges = graph.any_reaches(&waiting, me);
            if passes_ranges {
                waiting.clear();
            }
            let granted = held.is_empty() && queued.is_empty() && waiting.is_empty();
            if granted {
                entry.hold(me, mode);
                if mode == PointMode::Exclusive {
                    tell_ranges(&mut ranges, me, key, &mut graph);
                }
            } else {
                entry.enqueue(place, Waiter { txn: me, mode, upgrade, ticket, passes_ranges });
                if mode == PointMode::Exclusive {
                    ranges.add_point(me, key, ticket);
                }
                let blockers = [held, queued, waiting].concat();
                graph.begin(me, blockers, space.resource(key), parker.clone(), &mut wakes);
            }
            if granted || jumps {
                retrace(entry, key, &ranges, &mut graph);
                // All new edges lead to this transaction, and so does every cycle that they close;
                // there is none if it does not wait.
                graph.break_cycles(me, &mut wakes);
            }
            if granted {
                drop((graph, shard, ranges));
                wakes.send();
                return Ok(depends_on);
            }
        }
        wakes.send();
        let outcome = self.sleep(txn, &parker);
        match outcome {
            Ok(()) => {
                if mode == PointMode::Exclusive {
                    space.ranges.lock().remove_point(me);
                }
                Ok(space.point_dependence(hash))
            }
            Err(mut conflict) => {
                let holders = self.leave_queue(me, space, hash, key, mode);
                if conflict.kind == ConflictKind::Timeout && !holders.is_empty() {
                    // The wait's edges may still name transactions that have ended meanwhile.
                    conflict.blockers = holders;
                }
                Err(conflict)
            }
        }
    }

    /// Takes a waiter that was not granted out of the queue, and lets go on whom only it held up.
    /// Returns who holds what it wanted.
    fn leave_queue(
        &self,
        me: TxnId,
        space: &LockSpace,
        hash: u64,
        key: &[u8],
        mode: PointMode,
    ) -> Vec<TxnId> {
        let mut wakes = Wakes::default();
        let mut holders = Vec::new();
        {
            let mut ranges = space.ranges.lock();
            ranges.remove_point(me);
            {
                let mut shard = space.shard(hash);
                let mut graph = self.graph.lock();
                if let Some(entry) = shard.get_mut(key) {
                    entry.forget_waiter(me);
                    entry.holders_against(me, mode, &mut holders);
                    grant_next(entry, key, Some(&mut ranges), &mut graph, &mut wakes);
                    retrace(entry, key, &ranges, &mut graph);
                    break_cycles_behind(entry, &mut graph, &mut wakes);
                }
                drop(graph);
                shard.tidy(key);
            }
            if mode == PointMode::Exclusive {
                ranges.granted_against(me, key, &mut holders);
                self.review_ranges(space, &mut ranges, key, &mut wakes);
            }
        }
        wakes.send();
        holders
    }

    /// Grants what can be granted of the queues of `keys` now that a range is gone. Without new
    /// edges if the range's transaction ended, with them if only its wait did.
    pub(super) fn review_points(
        &self,
        space: &LockSpace,
        ranges: &mut Ranges,
        keys: &[Box<[u8]>],
        edges: Edges,
        wakes: &mut Wakes,
    ) {
        for key in keys {
            let mut shard = space.shard(space.hash(key));
            if let Some(entry) = shard.get_mut(key) {
                let mut graph = self.graph.lock();
                grant_next(entry, key, Some(ranges), &mut graph, wakes);
                if edges == Edges::New {
                    retrace(entry, key, ranges, &mut graph);
                    break_cycles_behind(entry, &mut graph, wakes);
                }
            }
            shard.tidy(key);
        }
    }
}

/// Decision whether the edges of waiters have to be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edges {
    Kept,
    New,
}

/// Grants everything in the queue that can be granted. `ranges` is `None` if the table has none.
pub(super) fn grant_next(
    entry: &mut Entry,
    key: &[u8],
    mut ranges: Option<&mut Ranges>,
    graph: &mut Graph,
    wakes: &mut Wakes,
) {
    let mut place = 0;
    let mut blocked = Vec::new();
    while let Some(&waiter) = entry.queue().get(place) {
        let Waiter { txn, mode, .. } = waiter;
        blocked.clear();
        entry.queued_against(place, mode, &mut blocked);
        if let Some(ranges) = &ranges {
            ranges_against(ranges, key, &waiter, &mut blocked);
        }
        if !blocked.is_empty() || entry.is_held_against(txn, mode) {
            if mode == PointMode::Exclusive {
                // All waiters behind it are.
                return;
            }
            place += 1;
            continue;
        }
        entry.dequeue(place);
        // A victim that has not left the queue yet is just taken out of it.
        if graph.grant(txn, wakes) {
            entry.hold(txn, mode);
            if let Some(ranges) = &mut ranges
                && mode == PointMode::Exclusive
            {
                tell_ranges(ranges, txn, key, graph);
            }
        }
    }
}

/// Makes the edges of all waiters of an entry anew.
fn retrace(entry: &Entry, key: &[u8], ranges: &Ranges, graph: &mut Graph) {
    for (place, waiter) in entry.queue().iter().enumerate() {
        let mut blockers = Vec::new();
        entry.holders_against(waiter.txn, waiter.mode, &mut blockers);
        entry.queued_against(place, waiter.mode, &mut blockers);
        ranges_against(ranges, key, waiter, &mut blockers);
        graph.redirect(waiter.txn, blockers);
    }
}

/// Breaks the cycles that new edges of any waiter of an entry may have closed.
fn break_cycles_behind(entry: &Entry, graph: &mut Graph, wakes: &mut Wakes) {
    for waiter in entry.queue() {
        graph.break_cycles(waiter.txn, wakes);
    }
}

/// The ranges that hold up a waiting point.
fn ranges_against(ranges: &Ranges, key: &[u8], waiter: &Waiter, out: &mut Vec<TxnId>) {
    if waiter.mode == PointMode::Exclusive {
        ranges.granted_against(waiter.txn, key, out);
        if !waiter.passes_ranges {
            ranges.waiting_against(waiter.txn, key, waiter.ticket, out);
        }
    }
}

/// Makes the new exclusive holder of `key` a blocker of the ranges that wait around it.
fn tell_ranges(ranges: &mut Ranges, writer: TxnId, key: &[u8], graph: &mut Graph) {
    for range in ranges.waiting() {
        if range.txn != writer
            && range.interval.contains(key)
            && let Some(wanted) = &mut range.wanted
            && !wanted.blockers.contains(&writer)
        {
            wanted.blockers.push(writer);
            graph.redirect(range.txn, wanted.blockers.clone());
        }
    }
}
