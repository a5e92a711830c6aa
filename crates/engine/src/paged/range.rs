//! Walking a range of keys under interval locks, from either end.
//!
//! Runs on the transaction's thread. Between `low` and `high` lies what has not been fetched; a fetch from one end (1) copies
//! the next entries without locks, and sees how far they reach, (2) locks the interval up to there, which may wait, (3)
//! sees that their leaves have not changed since, or reads them again: now nobody can change them. Entries that came meanwhile
//! are in what was locked, those that went are not missed. Invariants:
//!
//! 1. Everything given out, and every place passed over as empty, is inside a locked interval, and was read, or seen to be as it had been
//!    read, after the lock was granted.
//! 2. `front` holds what is fetched below `low`, ascending; `back` what is fetched above `high`, descending. So no entry
//!    is in both.
//!
//! Fetches grow from one entry to [`BATCH_MAX`]: whoever takes only the first entry locks no more than that. Whoever says how many will
//! be taken gets all of them by the first.

use crate::Lsn;
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, BatchValue, Stretch, read_chain};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Entries fetched at once at most.
const BATCH_MAX: usize = 128;
/// No further entry is fetched behind so many bytes.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Entries of the second fetch; the first one is a single entry.
const BATCH_SECOND: usize = 8;

type Row = (Vec<u8>, Vec<u8>);

/// What is inside a [`crate::Range`].
pub(crate) struct PagedRange<'t> {
    transaction: &'t mut PagedTransaction,
    table: Arc<PagedTable>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: VecDeque<Row>,
    back: VecDeque<Row>,
    /// Nothing is left between `low` and `high`.
    exhausted: bool,
    entered: bool,
    /// Entries of the next fetch.
    wanted: usize,
    batch: Batch,
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
    }
}

impl<'t> PagedRange<'t> {
    pub(crate) fn new(
        transaction: &'t mut PagedTransaction,
        table: Arc<PagedTable>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
    ) -> Self {
        PagedRange {
            transaction,
            table,
            exhausted: is_empty(&low, &high),
            low,
            high,
            front: VecDeque::new(),
            back: VecDeque::new(),
            entered: false,
            wanted: 1,
            batch: Batch::default(),
        }
    }

    /// Copies entries from one end of what is not fetched, up to `reach`, into the batch; whether there may be more behind them.
    fn look(&mut self, end: Direction, reach: Option<&Bound<Vec<u8>>>) -> Result<bool> {
        let (low, high) = match end {
            Direction::Up => (&self.low, reach.unwrap_or(&self.high)),
            Direction::Down => (reach.unwrap_or(&self.low), &self.high),
        };
        let stretch = Stretch {
            low: slice(low),
            high: slice(high),
            direction: end,
            entries: self.wanted,
            bytes: BATCH_BYTES_MAX,
        };
        let onward = self.table.tree.scan(&self.transaction.engine().pool, stretch, &mut self.batch)?;
        Ok(onward.is_some())
    }

    /// Locks what is not fetched from one end up to `reach`.
    fn lock(&mut self, end: Direction, reach: &Bound<Vec<u8>>) -> Result<Lsn> {
        let (low, high) = match end {
            Direction::Up => (slice(&self.low), slice(reach)),
            Direction::Down => (slice(reach), slice(&self.high)),
        };
        let Some((engine, locks, depends)) = self.transaction.parts() else { return Err(Error::Closed) };
        match engine.locks.acquire_range(locks, &self.table.space, low, high) {
            Ok(grant) => {
                *depends = (*depends).max(grant.depends_on);
                Ok(grant.depends_on)
            }
            Err(conflict) => {
                let error = engine.conflict(conflict);
                Err(self.transaction.fail(error))
            }
        }
    }

    /// One fetch from one end.
    fn fetch(&mut self, end: Direction) -> Result<()> {
        if self.entered {
            self.transaction.check()?;
        } else {
            self.transaction.enter(&self.table)?;
            self.entered = true;
        }
        let more = self.look(end, None)?;
        let reach = match self.batch.last_key() {
            Some(last) if more => Bound::Included(last.to_vec()),
            _ if end == Direction::Up => self.high.clone(),
            _ => self.low.clone(),
        };
        let depends_on = self.lock(end, &reach)?;
        let unchanged = self.table.tree.is_unchanged(&self.transaction.engine().pool, &self.batch);
        let more = !unchanged && self.look(end, Some(&reach))?;
        self.transaction.show(depends_on)?;
        self.take(end, reach, more)?;
        self.wanted = (self.wanted * 2).clamp(BATCH_SECOND, BATCH_MAX);
        Ok(())
    }

    /// Takes over the batch; there may be more behind it, up to `reach`.
    fn take(&mut self, end: Direction, reach: Bound<Vec<u8>>, more: bool) -> Result<()> {
        let cursor = match (self.batch.last_key(), reach) {
            (Some(last), _) if more => Bound::Excluded(last.to_vec()),
            (_, Bound::Included(key)) => Bound::Excluded(key),
            (_, Bound::Excluded(key)) => Bound::Included(key),
            (_, Bound::Unbounded) => {
                self.exhausted = true;
                Bound::Unbounded
            }
        };
        let (fetched, bound) = match end {
            Direction::Up => (&mut self.front, &mut self.low),
            Direction::Down => (&mut self.back, &mut self.high),
        };
        let pool = &self.transaction.engine().pool;
        for (key, value) in self.batch.drain() {
            let value = match value {
                BatchValue::Inline(value) => value,
                BatchValue::Chain(chain) => read_chain(pool, self.table.tree.table, chain)?,
            };
            fetched.push_back((key, value));
        }
        *bound = cursor;
        self.exhausted |= is_empty(&self.low, &self.high);
        Ok(())
    }

    /// The next entry from one end; the caller will take at most `limit`.
    pub(crate) fn step(&mut self, end: Direction, limit: Option<usize>) -> Option<Result<Row>> {
        loop {
            let (own, other) = match end {
                Direction::Up => (&mut self.front, &mut self.back),
                Direction::Down => (&mut self.back, &mut self.front),
            };
            let row = own.pop_front().or_else(|| if self.exhausted { other.pop_back() } else { None });
            if let Some(row) = row {
                return Some(Ok(row));
            }
            if self.exhausted {
                return None;
            }
            if let Some(limit) = limit {
                self.wanted = limit.saturating_sub(self.front.len() + self.back.len()).clamp(1, BATCH_MAX);
            }
            if let Err(error) = self.fetch(end) {
                self.exhausted = true;
                self.front.clear();
                self.back.clear();
                return Some(Err(error));
            }
        }
    }
}

impl fmt::Debug for PagedRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("table", &self.table.name)
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
