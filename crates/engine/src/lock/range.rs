//! Intervals of keys and the interval locks of one table. This code does no I/O. [`Ranges`] is
//! inside the table's range mutex.
//!
//! Rules:
//!
//! 1. Interval locks do not conflict with each other, only with exclusive points inside them.
//! 2. The blockers of a waiting range include every other transaction that holds a key inside it
//!    exclusively. The range is granted when it has no blockers. When a range begins to wait, its
//!    thread visits all shards of the table (`LockSpace::survey`). The first blockers are the
//!    transactions that hold a point inside the range exclusively, and those that began earlier to
//!    wait for an exclusive lock on a point inside the range. While the range is registered,
//!    exclusive points are granted only under the range mutex, and each transaction that is granted
//!    an exclusive point inside the range is added to the blockers.
//! 3. A transaction is removed from the blockers of a range only after it has left all shards, or
//!    when the blockers are recomputed.

use crate::ids::TxnId;
use std::cmp::Ordering;
use std::ops::Bound;

/// Position of a wait in the order of all waits of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Identifies an interval lock of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeId(Ticket);

/// Keys between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: Bound<Box<[u8]>>,
    pub(crate) high: Bound<Box<[u8]>>,
}

/// The limit of an interval as a position between keys: before or after a key, or below or above
/// all keys. Ordered by position.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Cut<'a> {
    Least,
    At(&'a [u8], Side),
    Most,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Before,
    After,
}

fn low_cut(low: &Bound<Box<[u8]>>) -> Cut<'_> {
    match low {
        Bound::Included(key) => Cut::At(key, Side::Before),
        Bound::Excluded(key) => Cut::At(key, Side::After),
        Bound::Unbounded => Cut::Least,
    }
}

fn high_cut(high: &Bound<Box<[u8]>>) -> Cut<'_> {
    match high {
        Bound::Included(key) => Cut::At(key, Side::After),
        Bound::Excluded(key) => Cut::At(key, Side::Before),
        Bound::Unbounded => Cut::Most,
    }
}

/// Returns the bound with which an adjacent interval adjoins `bound`: the same key, excluded
/// instead of included, or included instead of excluded. `None` if `bound` is unbounded.
fn opposite(bound: &Bound<Box<[u8]>>) -> Option<Bound<Box<[u8]>>> {
    match bound {
        Bound::Included(key) => Some(Bound::Excluded(key.clone())),
        Bound::Excluded(key) => Some(Bound::Included(key.clone())),
        Bound::Unbounded => None,
    }
}

impl Interval {
    pub(crate) fn new(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Self {
        Interval { low: low.map(Box::from), high: high.map(Box::from) }
    }

    /// Returns whether no key fits between the bounds. (`(k, k\0)` counts as not empty, although no
    /// key fits into it; this is harmless.)
    pub(super) fn is_empty(&self) -> bool {
        low_cut(&self.low) >= high_cut(&self.high)
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.low {
            Bound::Included(low) => key >= &**low,
            Bound::Excluded(low) => key > &**low,
            Bound::Unbounded => true,
        };
        above
            && match &self.high {
                Bound::Included(high) => key <= &**high,
                Bound::Excluded(high) => key < &**high,
                Bound::Unbounded => true,
            }
    }

    /// Returns whether the two intervals overlap, or no key lies between them.
    pub(super) fn touches(&self, other: &Interval) -> bool {
        low_cut(&self.low) <= high_cut(&other.high) && low_cut(&other.low) <= high_cut(&self.high)
    }

    /// The smallest interval that covers both intervals.
    pub(super) fn hull(&self, other: &Interval) -> Interval {
        let low = match low_cut(&self.low).cmp(&low_cut(&other.low)) {
            Ordering::Greater => &other.low,
            _ => &self.low,
        };
        let high = match high_cut(&self.high).cmp(&high_cut(&other.high)) {
            Ordering::Less => &other.high,
            _ => &self.high,
        };
        Interval { low: low.clone(), high: high.clone() }
    }

    /// The keys of `hull`, a superset of `self`, that lie below `self`.
    pub(super) fn missing_below(&self, hull: &Interval) -> Option<Interval> {
        let below = Interval { low: hull.low.clone(), high: opposite(&self.low)? };
        (!below.is_empty()).then_some(below)
    }

    /// The keys of `hull`, a superset of `self`, that lie above `self`.
    pub(super) fn missing_above(&self, hull: &Interval) -> Option<Interval> {
        let above = Interval { low: opposite(&self.high)?, high: hull.high.clone() };
        (!above.is_empty()).then_some(above)
    }

    /// The bounds for a lookup in an ordered map. The map panics on an empty interval, which is
    /// never locked.
    pub(super) fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        debug_assert!(!self.is_empty());
        (self.low.as_ref().map(|key| &**key), self.high.as_ref().map(|key| &**key))
    }
}

/// The blockers of a waiting range.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) blockers: Vec<TxnId>,
    /// True if this range may be granted ahead of transactions that wait for points inside it,
    /// because waiting for these transactions would have closed a cycle.
    pub(super) passes_points: bool,
}

/// An interval lock, granted or waiting.
#[derive(Debug)]
pub(super) struct RangeLock {
    pub(super) id: RangeId,
    pub(super) txn: TxnId,
    pub(super) interval: Interval,
    /// `None` once the range is granted.
    pub(super) wanted: Option<Wanted>,
}

/// A transaction that waits for an exclusive lock on a key.
#[derive(Debug)]
struct WaitingPoint {
    txn: TxnId,
    key: Box<[u8]>,
    ticket: Ticket,
}

/// The interval locks of one table, and the exclusive points that wait in it.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    locks: Vec<RangeLock>,
    points: Vec<WaitingPoint>,
    tickets: u64,
}

impl Ranges {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Adds a range that waits. The caller adds the range to the table's range count before the
    /// caller visits the shards.
    pub(super) fn register(&mut self, txn: TxnId, interval: Interval) -> RangeId {
        let id = RangeId(self.ticket());
        self.locks.push(RangeLock { id, txn, interval, wanted: Some(Wanted::default()) });
        id
    }

    pub(super) fn get_mut(&mut self, id: RangeId) -> Option<&mut RangeLock> {
        self.locks.iter_mut().rev().find(|lock| lock.id == id)
    }

    /// Removes a range. The caller subtracts it from the table's range count.
    pub(super) fn remove(&mut self, id: RangeId) -> Option<RangeLock> {
        let at = self.locks.iter().rposition(|lock| lock.id == id)?;
        Some(self.locks.swap_remove(at))
    }

    /// Removes all ranges of `txn`.
    pub(super) fn remove_all(&mut self, txn: TxnId) -> Vec<RangeLock> {
        self.locks.extract_if(.., |lock| lock.txn == txn).collect()
    }

    /// The ranges that wait.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut RangeLock> {
        self.locks.iter_mut().filter(|lock| lock.wanted.is_some())
    }

    /// Adds to `out` the transactions other than `txn` whose granted ranges contain `key`.
    pub(super) fn granted_against(&self, txn: TxnId, key: &[u8], out: &mut Vec<TxnId>) {
        out.extend(
            self.locks
                .iter()
                .filter(|lock| lock.wanted.is_none() && lock.txn != txn && lock.interval.contains(key))
                .map(|lock| lock.txn),
        );
    }

    /// Adds to `out` the transactions other than `txn` with a waiting range that contains `key` and
    /// that began to wait before `ticket`.
    pub(super) fn waiting_against(&self, txn: TxnId, key: &[u8], ticket: Ticket, out: &mut Vec<TxnId>) {
        out.extend(
            self.locks
                .iter()
                .filter(|lock| lock.wanted.is_some() && lock.id.0 < ticket)
                .filter(|lock| lock.txn != txn && lock.interval.contains(key))
                .map(|lock| lock.txn),
        );
    }

    /// Adds to `out` the transactions other than `txn` that began to wait before `id` for an
    /// exclusive lock on a key of `interval`.
    pub(super) fn points_against(&self, txn: TxnId, interval: &Interval, id: RangeId, out: &mut Vec<TxnId>) {
        out.extend(
            self.points
                .iter()
                .filter(|point| point.ticket < id.0 && point.txn != txn && interval.contains(&point.key))
                .map(|point| point.txn),
        );
    }

    pub(super) fn add_point(&mut self, txn: TxnId, key: &[u8], ticket: Ticket) {
        self.points.push(WaitingPoint { txn, key: key.into(), ticket });
    }

    pub(super) fn remove_point(&mut self, txn: TxnId) {
        self.points.retain(|point| point.txn != txn);
    }

    /// Returns the keys in `interval` for which transactions wait for an exclusive lock, in the
    /// order of the waits.
    pub(super) fn points_in(&self, interval: &Interval) -> Vec<Box<[u8]>> {
        let inside = self.points.iter().filter(|point| interval.contains(&point.key));
        inside.map(|point| point.key.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn is_vacant(&self) -> bool {
        self.locks.is_empty() && self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Bound::{Excluded, Included, Unbounded};

    fn bounds() -> Vec<Bound<&'static [u8]>> {
        let mut bounds: Vec<Bound<&[u8]>> = vec![Unbounded];
        for key in [&b"b"[..], b"d", b"f"] {
            bounds.extend([Included(key), Excluded(key)]);
        }
        bounds
    }

    const KEYS: [&[u8]; 8] = [b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g"];

    fn keys(interval: &Interval) -> Vec<&'static [u8]> {
        KEYS.into_iter().filter(|key| interval.contains(key)).collect()
    }

    #[test]
    fn intervals_agree_with_the_keys_in_them() {
        let intervals: Vec<_> = bounds()
            .iter()
            .flat_map(|low| bounds().into_iter().map(|high| Interval::new(*low, high)))
            .collect();
        for a in &intervals {
            assert_eq!(a.is_empty(), keys(a).is_empty(), "{a:?}");
            for b in &intervals {
                if a.is_empty() || b.is_empty() {
                    continue;
                }
                let both: Vec<_> = KEYS.into_iter().filter(|k| a.contains(k) || b.contains(k)).collect();
                let hull = a.hull(b);
                assert_eq!(a.touches(b), keys(&hull) == both, "{a:?} {b:?}");
                let mut parts = a.missing_below(&hull).map_or(vec![], |below| keys(&below));
                parts.extend(keys(a));
                parts.extend(a.missing_above(&hull).map_or(vec![], |above| keys(&above)));
                assert_eq!(parts, keys(&hull), "{a:?} {b:?}");
            }
        }
    }
}
