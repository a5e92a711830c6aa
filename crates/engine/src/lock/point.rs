//! Waiting for a point lock, and changes of a key's queue.
//!
//! The thread that requests a lock runs this code; a thread that releases a lock runs the functions
//! that change a key's queue. Either thread holds the mutex of the key's shard throughout, and
//! normally the table's range mutex. The range mutex is not needed if `space.has_ranges()` returned
//! false under the shard's mutex, because no range can see the key while the shard stays locked.
//!
//! Rules:
//!
//! 1. The edges of all waiters of the key are recomputed ([`retrace`]) in four cases: a waiter left
//!    the queue without a grant; a waiter was placed ahead of other waiters; a request for the key,
//!    or for a range around it, was granted ahead of waiters; a range around the key was withdrawn.
//!    A release needs no new edges: the releasing transaction has ended, and the waiter that is
//!    granted next already is a blocker of the waiters behind it.
//! 2. A transaction that is granted an exclusive lock while ranges are registered becomes a blocker
//!    of the waiting ranges that contain the key (rule 2 of `range`).

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
    /// Acquires a point that could not be granted at once, and returns its dependency. `upgrade`
    /// says that `txn` holds the point in a weaker mode.
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
            // There are three kinds of blockers: holders of the point or of ranges around it,
            // waiters before this request in the queue, and ranges that began to wait earlier.
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
                    add_range_blocker(&mut ranges, me, key, &mut graph);
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
                // All new edges lead to this transaction, so every cycle that the edges close
                // contains this transaction. If this transaction does not wait, there is no such
                // cycle.
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
                    // The error names the present holders, because blockers of the wait may have
                    // ended meanwhile.
                    conflict.blockers = holders;
                }
                Err(conflict)
            }
        }
    }

    /// Removes from the queue a waiter that was not granted, and grants the requests that waited
    /// only for it. Returns the holders of the lock that the waiter wanted.
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

    /// Called after a range was granted or removed, or a point was released. Grants each request in
    /// the queues of `keys` that can be granted now. `edges` is `Kept` if a transaction has ended,
    /// and `New` otherwise.
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

/// Says whether the edges of waiters stay as they are or are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edges {
    Kept,
    New,
}

/// Grants all requests in the queue that are grantable. `ranges` is `None` if the table has no
/// ranges.
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
                // An exclusive waiter blocks all waiters behind it.
                return;
            }
            place += 1;
            continue;
        }
        entry.dequeue(place);
        // The graph does not grant a victim, so a victim is only removed from the queue.
        if graph.grant(txn, wakes) {
            entry.hold(txn, mode);
            if let Some(ranges) = &mut ranges
                && mode == PointMode::Exclusive
            {
                add_range_blocker(ranges, txn, key, graph);
            }
        }
    }
}

/// Recomputes the edges of all waiters of an entry.
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

/// Adds to `out` the transactions whose ranges block a waiting point.
fn ranges_against(ranges: &Ranges, key: &[u8], waiter: &Waiter, out: &mut Vec<TxnId>) {
    if waiter.mode == PointMode::Exclusive {
        ranges.granted_against(waiter.txn, key, out);
        if !waiter.passes_ranges {
            ranges.waiting_against(waiter.txn, key, waiter.ticket, out);
        }
    }
}

/// Makes the new exclusive holder of `key` a blocker of the waiting ranges that contain `key`.
fn add_range_blocker(ranges: &mut Ranges, writer: TxnId, key: &[u8], graph: &mut Graph) {
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
