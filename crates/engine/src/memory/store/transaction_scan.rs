//! A transaction's scan of an interval of keys, in either direction. The transaction's own writes
//! hide the versions of other transactions.
//!
//! The transaction's `passed` has exactly the interval that the scan has passed over, in one piece
//! or several. This interval reaches up to the last key that the scan has returned, or up to the
//! bound if the scan has ended. `reads` has each record whose value was seen, even if an own write
//! hides the value: after a rollback to a savepoint the value may no longer be hidden.

use super::index::Reached;
use super::record::{Key, Record, Value};
use super::table::Table;
use super::transaction::{ActiveTxn, ScannedInterval};
use crate::direction::Direction;
use crate::error::Result;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// A scan of a part of a table by one transaction.
#[derive(Debug)]
pub(crate) struct Scan {
    table: Arc<Table>,
    direction: Direction,
    from: Bound<Key>,
    to: Bound<Key>,
    /// Bound from which the index is read next.
    ahead: Bound<Key>,
    is_index_done: bool,
    batch: VecDeque<Arc<Record>>,
    /// The scan's index in the transaction's `passed`.
    passed: Option<usize>,
}

fn borrowed(bound: &Bound<Key>) -> Bound<&[u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
    }
}

fn owned(bound: Bound<&[u8]>) -> Bound<Key> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(Key::from_slice(key)),
        Bound::Excluded(key) => Bound::Excluded(Key::from_slice(key)),
    }
}

impl ScannedInterval {
    /// The bounds of the interval.
    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (borrowed(&self.from), borrowed(&self.to))
    }
}

impl Scan {
    /// A scan of the keys between the bounds.
    pub(crate) fn new(
        table: &Arc<Table>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Self {
        let (from, to) = (owned(from), owned(to));
        let ahead = match direction {
            Direction::Up => from.clone(),
            Direction::Down => to.clone(),
        };
        let is_index_done = is_empty(&from, &to);
        Scan {
            table: table.clone(),
            direction,
            from,
            to,
            ahead,
            is_index_done,
            batch: VecDeque::new(),
            passed: None,
        }
    }

    /// Moves the far bound of the scan to `far`, which is nearer, because another scan comes from
    /// the other side.
    pub(crate) fn narrow(&mut self, far: Bound<&[u8]>) {
        match self.direction {
            Direction::Up => self.to = owned(far),
            Direction::Down => self.from = owned(far),
        }
        self.is_index_done |= is_empty(&self.from, &self.to);
    }

    fn is_within(&self, key: &[u8]) -> bool {
        match (self.direction, &self.from, &self.to) {
            (Direction::Up, _, Bound::Included(to)) => key <= to.as_slice(),
            (Direction::Up, _, Bound::Excluded(to)) => key < to.as_slice(),
            (Direction::Down, Bound::Included(from), _) => key >= from.as_slice(),
            (Direction::Down, Bound::Excluded(from), _) => key > from.as_slice(),
            _ => true,
        }
    }

    /// Reads the index further until the batch has a record, or up to the end.
    fn fill(&mut self) {
        while self.batch.is_empty() && !self.is_index_done {
            let (from, to) = match self.direction {
                Direction::Up => (borrowed(&self.ahead), borrowed(&self.to)),
                Direction::Down => (borrowed(&self.from), borrowed(&self.ahead)),
            };
            match (self.table.index.walk(from, to, self.direction, &mut self.batch), self.direction) {
                (Reached::End, _) => self.is_index_done = true,
                (Reached::Fence(fence), Direction::Up) => self.ahead = Bound::Included(fence),
                (Reached::Fence(fence), Direction::Down) => self.ahead = Bound::Excluded(fence),
            }
        }
    }

    /// Returns the next key and its value.
    pub(crate) fn next(&mut self, running: &mut ActiveTxn) -> Result<Option<(Key, Value)>> {
        self.enter(running);
        loop {
            self.fill();
            let record = self.batch.front().filter(|record| self.is_within(&record.key));
            let own = {
                let (from, to) = (borrowed(&self.from), borrowed(&self.to));
                running.writes.next(self.table.id, from, to, self.direction)
            };
            let order = match (record, own) {
                (None, None) => {
                    self.has_passed(running, None);
                    return Ok(None);
                }
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(record), Some(own)) => match self.direction {
                    Direction::Up => record.key.cmp(&own.key),
                    Direction::Down => own.key.cmp(&record.key),
                },
            };
            let own = own.filter(|_| order.is_ge()).map(|own| (own.key.clone(), own.value.clone()));
            let mut found = None;
            if order.is_le()
                && let Some(record) = record.cloned()
            {
                found = self.read(running, &record)?.map(|value| (record.key.clone(), value));
                self.batch.pop_front();
                self.step_over(&record.key);
            }
            if let Some((key, value)) = own {
                self.step_over(&key);
                found = value.map(|value| (key, value));
            }
            if let Some((key, value)) = found {
                self.has_passed(running, Some(&key));
                return Ok(Some((key, value)));
            }
        }
    }

    /// Reads the value of a record that was found in the index.
    fn read(&self, running: &mut ActiveTxn, record: &Arc<Record>) -> Result<Option<Value>> {
        let mut record = record.clone();
        loop {
            if let Some((value, wts)) = running.read(&record)? {
                if wts.is_some() {
                    running.saw_record(record, wts, self.passed);
                }
                return Ok(value);
            }
            match self.table.index.get(&record.key) {
                Some(again) => record = again,
                None => return Ok(None),
            }
        }
    }

    fn step_over(&mut self, key: &Key) {
        match self.direction {
            Direction::Up => self.from = Bound::Excluded(key.clone()),
            Direction::Down => self.to = Bound::Excluded(key.clone()),
        }
    }

    /// Adds the rest of the scan's interval to the transaction's `passed`, unless `passed` has it
    /// already. An interval that was validated does not grow, so that the next validation need not
    /// look at it again.
    fn enter(&mut self, running: &mut ActiveTxn) {
        if running.is_read_only() || self.passed.is_some_and(|at| at >= running.validated.passed) {
            return;
        }
        let (table, from, to) = (self.table.clone(), self.from.clone(), self.to.clone());
        self.passed = Some(running.passed.len());
        running.passed.push(ScannedInterval { table, from, to, is_passed: false });
    }

    /// Notes in `passed` that the scan has come to `key`, or to its end.
    fn has_passed(&mut self, running: &mut ActiveTxn, key: Option<&Key>) {
        let Some(at) = self.passed else { return };
        let end = |far: &Bound<Key>| key.map_or_else(|| far.clone(), |key| Bound::Included(key.clone()));
        let passed = &mut running.passed[at];
        passed.is_passed = true;
        match self.direction {
            Direction::Up => passed.to = end(&self.to),
            Direction::Down => passed.from = end(&self.from),
        }
    }
}

fn is_empty(from: &Bound<Key>, to: &Bound<Key>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}
