//! Iterating over a range of keys from both ends.
//!
//! A range has two scans of the store, one from each end. A key that one scan returns becomes the
//! bound of the other scan. So no key is returned twice, and no interval of passed keys is
//! remembered twice.

use super::store::{Key, Scan, Value};
use super::table::MemoryTable;
use super::transaction::MemoryTransaction;
use crate::direction::Direction;
use crate::engine::{EngineRange, Entry};
use crate::error::Result;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// The memory engine's implementation of a [`crate::Range`].
pub(crate) struct MemoryRange {
    table: Arc<MemoryTable>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    up: Option<Scan>,
    down: Option<Scan>,
    ended: bool,
    /// The entry that was returned last.
    given: Option<(Key, Value)>,
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl MemoryRange {
    pub(super) fn new(table: Arc<MemoryTable>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        MemoryRange { table, low, high, up: None, down: None, ended: false, given: None }
    }

    fn fetch(
        &mut self,
        transaction: &mut MemoryTransaction,
        direction: Direction,
    ) -> Result<Option<(Key, Value)>> {
        let running = transaction.enter(&self.table)?;
        let (own, other) = match direction {
            Direction::Up => (&mut self.up, &mut self.down),
            Direction::Down => (&mut self.down, &mut self.up),
        };
        let scan = own.get_or_insert_with(|| {
            Scan::new(&self.table.rows, slice(&self.low), slice(&self.high), direction)
        });
        let found = scan.next(running);
        let found = transaction.remember_failure(found)?;
        // This wait is also needed at the end of the range, because further keys may be missing due
        // to a deletion that is not durable.
        transaction.await_read_durability()?;
        let Some((key, value)) = found else { return Ok(None) };
        let reached = Bound::Excluded(key.to_vec());
        if let Some(other) = other {
            other.narrow(slice(&reached));
        }
        match direction {
            Direction::Up => self.low = reached,
            Direction::Down => self.high = reached,
        }
        Ok(Some((key, value)))
    }
}

impl EngineRange<MemoryTransaction> for MemoryRange {
    fn step<'r>(
        &'r mut self,
        transaction: &mut MemoryTransaction,
        direction: Direction,
        _limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>> {
        if self.ended {
            return Ok(None);
        }
        // The range stays ended if `fetch` fails.
        self.ended = true;
        self.given = self.fetch(transaction, direction)?;
        self.ended = self.given.is_none();
        Ok(self.given.as_ref().map(|(key, value)| (key.as_slice(), &**value)))
    }
}

impl fmt::Debug for MemoryRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("table", &self.table.rows.name())
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
