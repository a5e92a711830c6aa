//! Walking a range of keys under interval locks, from either end.
//!
//! Runs on the transaction's thread. Between `low` and `high` lies what has not been fetched; a fetch from one end (1) looks at
//! the next entries without locks, to learn how far they reach, (2) locks the interval up to there, which may wait, (3)
//! sees that their leaves have not changed since, or reads them again: now nobody can change them. Entries that came meanwhile
//! are in what was locked, those that went are not missed. Invariants:
//!
//! 1. Everything given out, and every place passed over as empty, is inside a locked interval, and was read, or seen to be as it had been
//!    read, after the lock was granted.
//! 2. `front` holds what is fetched below `low`, ascending; `back` what is fetched above `high`, descending. So no entry
//!    is in both.
//!
//! Fetches grow from one entry to [`BATCH_MAX`]: whoever takes only the first entry locks no more than that.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, BatchValue, read_chain};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Entries fetched at once at most.
const BATCH_MAX: usize = 128;
/// No further leaf is fetched behind so many bytes.
const BATCH_BYTES_MAX: usize = 16 << 10;
/// Entries of the second fetch; the first one is a single entry.
const BATCH_SECOND: usize = 8;

type Row = (Vec<u8>, Vec<u8>);

/// From which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

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
    wanted: usize,
    batch: Batch,
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn is_below_high(key: &[u8], high: Bound<&[u8]>) -> bool {
    match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

fn is_above_low(key: &[u8], low: Bound<&[u8]>) -> bool {
    match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    }
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

    /// Reads entries from one end of what is not fetched into the batch; whether there may be more behind.
    fn look(&mut self, end: End) -> Result<bool> {
        let tree = self.table.tree;
        let pool = &self.transaction.engine().pool;
        let batch = &mut self.batch;
        batch.clear();
        let mut from = match end {
            End::Front => tree.scan_up(pool, slice(&self.low), self.wanted, batch)?,
            End::Back => tree.scan_down(pool, slice(&self.high), self.wanted, batch)?,
        };
        while let Some(bound) = &from {
            let (Bound::Included(key) | Bound::Excluded(key)) = bound else { break };
            let inside = match end {
                End::Front => is_below_high(key, slice(&self.high)),
                End::Back => is_above_low(key, slice(&self.low)),
            };
            if !inside || batch.len() >= self.wanted || batch.bytes() >= BATCH_BYTES_MAX {
                break;
            }
            let more = self.wanted - batch.len();
            from = match end {
                End::Front => tree.scan_on_up(pool, slice(bound), more, batch)?,
                End::Back => tree.scan_on_down(pool, slice(bound), more, batch)?,
            };
        }
        Ok(from.is_some())
    }

    /// How far, from one end, what is in the batch reaches: the last key of it, or all the rest.
    fn reach(&self, end: End, goes_on: bool) -> Bound<Vec<u8>> {
        let inside = |key: &[u8]| match end {
            End::Front => is_below_high(key, slice(&self.high)),
            End::Back => is_above_low(key, slice(&self.low)),
        };
        let last = self.batch.len().checked_sub(1).and_then(|last| self.batch.get(last));
        match last {
            Some((key, _)) if goes_on && inside(key) => Bound::Included(key.to_vec()),
            _ if end == End::Front => self.high.clone(),
            _ => self.low.clone(),
        }
    }

    /// Locks what is not fetched from one end up to `reach`.
    fn lock(&mut self, end: End, reach: &Bound<Vec<u8>>) -> Result<Lsn> {
        let (low, high) = match end {
            End::Front => (slice(&self.low), slice(reach)),
            End::Back => (slice(reach), slice(&self.high)),
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
    fn fetch(&mut self, end: End) -> Result<()> {
        if self.entered {
            self.transaction.check()?;
        } else {
            self.transaction.enter(&self.table)?;
            self.entered = true;
        }
        let mut goes_on = self.look(end)?;
        let reach = self.reach(end, goes_on);
        let depends_on = self.lock(end, &reach)?;
        if !self.table.tree.is_unchanged(&self.transaction.engine().pool, &self.batch) {
            goes_on = self.look(end)?;
        }
        self.transaction.show(depends_on)?;
        self.take(end, &reach, goes_on)?;
        self.wanted = (self.wanted * 2).clamp(BATCH_SECOND, BATCH_MAX);
        Ok(())
    }

    /// Takes over what of the batch is locked.
    fn take(&mut self, end: End, reach: &Bound<Vec<u8>>, goes_on: bool) -> Result<()> {
        let shared = &self.table;
        let pool = &self.transaction.engine().pool;
        let mut taken = 0_usize;
        let mut all = true;
        for (key, value) in self.batch.iter() {
            let is_locked = match end {
                End::Front => is_below_high(key, slice(reach)),
                End::Back => is_above_low(key, slice(reach)),
            };
            if !is_locked {
                all = false;
                break;
            }
            let value = match value {
                BatchValue::Inline(value) => value.to_vec(),
                BatchValue::Chain(chain) => read_chain(pool, shared.tree.table, chain)?,
            };
            taken += 1;
            match end {
                End::Front => self.front.push_back((key.to_vec(), value)),
                End::Back => self.back.push_back((key.to_vec(), value)),
            }
        }
        // Either the batch was cut by its size, then the last entry is how far we are; or all that is locked was seen.
        let last = taken.checked_sub(1).and_then(|last| self.batch.get(last));
        let cursor = match last {
            Some((key, _)) if all && goes_on => Bound::Excluded(key.to_vec()),
            _ => match reach {
                Bound::Included(key) => Bound::Excluded(key.clone()),
                Bound::Excluded(key) => Bound::Included(key.clone()),
                Bound::Unbounded => {
                    self.exhausted = true;
                    return Ok(());
                }
            },
        };
        match end {
            End::Front => self.low = cursor,
            End::Back => self.high = cursor,
        }
        self.exhausted = is_empty(&self.low, &self.high);
        Ok(())
    }

    fn step(&mut self, end: End) -> Option<Result<Row>> {
        loop {
            let (own, other) = match end {
                End::Front => (&mut self.front, &mut self.back),
                End::Back => (&mut self.back, &mut self.front),
            };
            if let Some(row) = own.pop_front() {
                return Some(Ok(row));
            }
            if self.exhausted {
                return other.pop_back().map(Ok);
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

impl Iterator for PagedRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for PagedRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
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
