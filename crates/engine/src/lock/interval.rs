//! Acquiring interval locks, waiting for them, and extending them while a scan proceeds.
//!
//! The thread that requests an interval runs this code, except for two functions. A thread that
//! releases locks runs `grant_ranges`. A thread whose wait for a key has ended without a grant runs
//! `review_ranges`. Each of these threads holds the table's range mutex while it looks for blockers
//! in the shards or grants requests there, one shard at a time. A thread that was granted its
//! interval after a wait reads the interval's dependency from the shards without the range mutex.
//!
//! Invariants:
//!
//! 1. A range is in the list and counted before its thread visits the first shard (see `space`).
//! 2. A transaction has at most [`RANGES_MAX`] ranges in a table. An interval that overlaps or
//!    touches a range of its transaction extends this range. If the transaction has the maximum
//!    number of ranges, any other interval extends the last range, which then also covers the keys
//!    between range and interval. A writer compares its key with every range, so more ranges would
//!    slow all writers. The price is that a transaction with many scans locks keys that it has not
//!    read.
//! 3. An extension is a separate range until it is granted, and is then merged into the range that
//!    it extends.

use super::held::{HeldRange, TxnLocks};
use super::point::Edges;
use super::range::{Interval, RangeId, Ranges, Wanted};
use super::resource::{Conflict, Resource};
use super::space::LockSpace;
use super::wait::Wakes;
use super::{LockGrant, Locks, Lsn};
use crate::ids::TxnId;
use std::ops::Bound;
use std::sync::Arc;

/// Maximum ranges of one transaction in one table.
const RANGES_MAX: usize = 32;

impl Locks {
    /// Locks for reading all keys between two bounds, present or not. An interval that touches a
    /// range of `txn` extends that range. May wait; the caller holds no latch. After a conflict
    /// `txn` may hold a part of the interval. The next request inside this part then returns the
    /// part's dependency.
    pub(crate) fn acquire_range(
        &self,
        txn: &mut TxnLocks,
        space: &Arc<LockSpace>,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<LockGrant, Conflict> {
        let interval = Interval::new(low, high);
        if interval.is_empty() {
            return Ok(LockGrant::HELD);
        }
        let at = txn.enter(space);
        let own = txn.ranges(at);
        let grown = match own.iter().rposition(|range| range.interval.touches(&interval)) {
            Some(touching) => Some(touching),
            None if own.len() >= RANGES_MAX => Some(own.len() - 1),
            None => None,
        };
        if let Some(grown) = grown {
            return self.grow_range(txn, at, grown, &interval);
        }
        let (id, depends_on) = self.wait_for_range(txn, space, interval.clone(), None)?;
        txn.ranges_mut(at).push(HeldRange { id, interval, depends_on });
        Ok(LockGrant { depends_on })
    }

    /// Extends the held range at `place` until it covers `interval`.
    fn grow_range(
        &self,
        txn: &mut TxnLocks,
        at: u32,
        place: usize,
        interval: &Interval,
    ) -> Result<LockGrant, Conflict> {
        let space = txn.space(at).clone();
        let HeldRange { id, interval: now, .. } = &txn.ranges(at)[place];
        let id = *id;
        let hull = now.hull(interval);
        let missing = [now.missing_below(&hull), now.missing_above(&hull)];
        for part in missing.into_iter().flatten() {
            let (_, depends_on) = self.wait_for_range(txn, &space, part.clone(), Some(id))?;
            let held = &mut txn.ranges_mut(at)[place];
            held.interval = held.interval.hull(&part);
            held.depends_on = held.depends_on.max(depends_on);
        }
        Ok(LockGrant { depends_on: txn.ranges(at)[place].depends_on })
    }

    /// Acquires an interval, as a new range or as part of range `into`.
    fn wait_for_range(
        &self,
        txn: &mut TxnLocks,
        space: &LockSpace,
        interval: Interval,
        into: Option<RangeId>,
    ) -> Result<(RangeId, Lsn), Conflict> {
        let me = txn.id();
        let mut wakes = Wakes::default();
        let (id, parker) = {
            let mut ranges = space.ranges.lock();
            let id = ranges.register(me, interval.clone());
            space.count_range();
            let survey = space.survey(me, &interval);
            let mut waiting = Vec::new();
            ranges.points_against(me, &interval, id, &mut waiting);
            if survey.writers.is_empty() && waiting.is_empty() {
                return Ok((settle(space, &mut ranges, id, into), survey.depends_on));
            }
            let mut graph = self.graph.lock();
            let passes_points = graph.any_reaches(&waiting, me);
            if passes_points {
                waiting.clear();
            }
            if survey.writers.is_empty() && waiting.is_empty() {
                drop(graph);
                let id = settle(space, &mut ranges, id, into);
                // Other transactions wait for exclusive locks on keys in the range. They now wait
                // for this transaction, so their edges in the graph are recomputed (rule 1 of
                // `point`).
                let keys = ranges.points_in(&interval);
                self.review_points(space, &mut ranges, &keys, Edges::New, &mut wakes);
                drop(ranges);
                wakes.send();
                return Ok((id, survey.depends_on));
            }
            let parker = txn.parker();
            let blockers = [survey.writers, waiting].concat();
            if let Some(range) = ranges.get_mut(id) {
                range.wanted = Some(Wanted { blockers: blockers.clone(), passes_points });
            }
            let wanted = Resource::Range(space.table(), interval);
            graph.begin(me, blockers, wanted, parker.clone(), &mut wakes);
            (id, parker)
        };
        wakes.send();
        match self.sleep(txn, &parker) {
            Ok(()) => {
                let depends_on = space.interval_dependence();
                let id = settle(space, &mut space.ranges.lock(), id, into);
                Ok((id, depends_on))
            }
            Err(conflict) => {
                self.withdraw_range(space, id);
                Err(conflict)
            }
        }
    }

    /// Removes a range that was not granted, and grants the requests that waited only for it.
    fn withdraw_range(&self, space: &LockSpace, id: RangeId) {
        let mut wakes = Wakes::default();
        {
            let mut ranges = space.ranges.lock();
            if let Some(range) = ranges.remove(id) {
                space.uncount_ranges(1);
                let keys = ranges.points_in(&range.interval);
                self.review_points(space, &mut ranges, &keys, Edges::New, &mut wakes);
            }
        }
        wakes.send();
    }

    /// Recomputes the blockers of the waiting ranges that contain `key`, after a wait for `key`
    /// ended without a grant.
    pub(super) fn review_ranges(
        &self,
        space: &LockSpace,
        ranges: &mut Ranges,
        key: &[u8],
        wakes: &mut Wakes,
    ) {
        let around: Vec<_> = ranges
            .waiting()
            .filter(|range| range.interval.contains(key))
            .map(|range| (range.id, range.txn, range.interval.clone()))
            .collect();
        for (id, txn, interval) in around {
            let mut blockers = space.survey(txn, &interval).writers;
            let mut waiting = Vec::new();
            ranges.points_against(txn, &interval, id, &mut waiting);
            let Some(wanted) = ranges.get_mut(id).and_then(|range| range.wanted.as_mut()) else { continue };
            if !wanted.passes_points {
                blockers.append(&mut waiting);
            }
            wanted.blockers = blockers.clone();
            let mut graph = self.graph.lock();
            graph.redirect(txn, blockers);
            graph.break_cycles(txn, wakes);
        }
        self.grant_ranges(space, ranges, None, wakes);
    }

    /// Removes `ended` from the blockers of all waiting ranges, and grants the ranges without
    /// blockers.
    pub(super) fn grant_ranges(
        &self,
        space: &LockSpace,
        ranges: &mut Ranges,
        ended: Option<TxnId>,
        wakes: &mut Wakes,
    ) {
        let mut granted = Vec::new();
        for range in ranges.waiting() {
            let Some(wanted) = &mut range.wanted else { continue };
            wanted.blockers.retain(|blocker| Some(*blocker) != ended);
            // The graph does not grant a victim; the victim's own thread removes the victim's range
            // from the list.
            if wanted.blockers.is_empty() && self.graph.lock().grant(range.txn, wakes) {
                range.wanted = None;
                granted.push(range.interval.clone());
            }
        }
        for interval in granted {
            // Other transactions may wait for exclusive locks on keys in the range. They now wait
            // for the transaction that was granted the range, so their edges in the graph are
            // recomputed (rule 1 of `point`).
            let keys = ranges.points_in(&interval);
            self.review_points(space, ranges, &keys, Edges::New, wakes);
        }
    }
}

/// Marks a range as granted, or merges it into range `into`. Returns the id of the resulting range.
fn settle(space: &LockSpace, ranges: &mut Ranges, id: RangeId, into: Option<RangeId>) -> RangeId {
    match into {
        Some(into) => {
            if let Some(part) = ranges.remove(id) {
                let whole = ranges.get_mut(into).expect("a range lasts until its transaction ends");
                whole.interval = whole.interval.hull(&part.interval);
                space.uncount_ranges(1);
            }
            into
        }
        None => {
            if let Some(range) = ranges.get_mut(id) {
                range.wanted = None;
            }
            id
        }
    }
}
