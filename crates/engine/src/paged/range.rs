//! Walking a range of keys under interval locks, from either end.
//!
//! Runs on the transaction's thread. Between `low` and `high` lies what has not been fetched; a fetch from one end (1) copies
//! the next entries without locks, and sees how far they reach, (2) locks the interval up to there, which may wait, (3)
//! sees that their leaves have not changed since, or reads them again: now nobody can change them. Entries that came meanwhile
//! are in what was locked, those that went are not missed. Invariants:
//!
//! 1. Everything given out, and every place passed over as empty, is inside a locked interval, and was read, or seen to be as it had been
//!    read, after the lock was granted.
//! 2. `front` holds what was fetched last below `low`, ascending; `back` what was fetched last above `high`, descending. So no
//!    entry is in both.
//!
//! Fetches grow from one entry to [`BATCH_MAX`]: whoever takes only the first entry locks no more than that. Whoever says how many will
//! be taken gets all of them by the first.

use crate::Lsn;
use crate::direction::Direction;
use crate::engine::{EngineRange, Entry};
use crate::error::{Error, Result};
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, BatchValue, Stretch, read_chain};
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Entries fetched at once at most.
const BATCH_MAX: usize = 128;
/// No further entry is fetched behind so many bytes.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Entries of the second fetch; the first one is a single entry.
const BATCH_SECOND: usize = 8;

/// An entry that was fetched: from which end, and its number.
type Place = (Direction, usize);

/// What was fetched from one end; those entries are left that nobody has taken.
#[derive(Debug, Default)]
struct Fetched {
    batch: Batch,
    left: Range<usize>,
}

impl Drop for Fetched {
    fn drop(&mut self) {
        std::mem::take(&mut self.batch).keep();
    }
}

/// What is inside a [`crate::Range`].
pub(crate) struct PagedRange<'t> {
    transaction: &'t mut PagedTransaction,
    table: Arc<PagedTable>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: Fetched,
    back: Fetched,
    /// Nothing is left between `low` and `high`.
    exhausted: bool,
    entered: bool,
    /// Entries of the next fetch.
    wanted: usize,
    /// The value that was given out last, if it is a long one.
    long: Vec<u8>,
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
            front: Fetched::default(),
            back: Fetched::default(),
            entered: false,
            wanted: 1,
            long: Vec::new(),
        }
    }

    fn fetched(&mut self, end: Direction) -> &mut Fetched {
        match end {
            Direction::Up => &mut self.front,
            Direction::Down => &mut self.back,
        }
    }

    /// Copies entries from one end of what is not fetched, up to `reach`; whether there may be more behind them.
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
        let fetched = match end {
            Direction::Up => &mut self.front,
            Direction::Down => &mut self.back,
        };
        let onward = self.table.tree.scan(&self.transaction.engine().pool, stretch, &mut fetched.batch)?;
        Ok(onward.is_some())
    }

    /// Locks what is not fetched from one end up to `reach`.
    fn lock(&mut self, end: Direction, reach: &Bound<Vec<u8>>) -> Result<Lsn> {
        let (low, high) = match end {
            Direction::Up => (slice(&self.low), slice(reach)),
            Direction::Down => (slice(reach), slice(&self.high)),
        };
        let Some((engine, locks)) = self.transaction.parts() else { return Err(Error::Closed) };
        match engine.granted(|| engine.locks.acquire_range(locks, &self.table.space, low, high)) {
            Ok(grant) => Ok(grant.depends_on),
            Err(error) => Err(self.transaction.fail(error)),
        }
    }

    /// One fetch from one end.
    fn fetch(&mut self, end: Direction) -> Result<()> {
        if self.entered {
            self.transaction.check()?;
        } else {
            self.transaction.enter(&self.table)?;
            self.entered = true;
            self.fetched(end).batch = Batch::spare();
        }
        let more = self.look(end, None)?;
        let reach = match self.fetched(end).batch.last_key() {
            Some(last) if more => Bound::Included(last.to_vec()),
            _ if end == Direction::Up => self.high.clone(),
            _ => self.low.clone(),
        };
        let newest = self.lock(end, &reach)?;
        let more = !self.is_unchanged(end) && self.look(end, Some(&reach))?;
        let depends_on = self.depends_on(end, newest);
        self.transaction.depend_on(depends_on);
        self.transaction.await_read_durability()?;
        self.take_over(end, reach, more);
        self.wanted = (self.wanted * 2).clamp(BATCH_SECOND, BATCH_MAX);
        Ok(())
    }

    /// What the holder of the interval depends on now that it has read it; `newest` is what anybody would.
    fn depends_on(&self, end: Direction, newest: Lsn) -> Lsn {
        if newest <= self.transaction.engine().log.durable() {
            return newest;
        }
        self.table.space.dependence_of(self.batch(end).iter().map(|(key, _)| key))
    }

    fn is_unchanged(&self, end: Direction) -> bool {
        self.table.tree.is_unchanged(&self.transaction.engine().pool, self.batch(end))
    }

    /// Makes what was copied what is fetched; there may be more behind it, up to `reach`.
    fn take_over(&mut self, end: Direction, reach: Bound<Vec<u8>>, more: bool) {
        let fetched = self.fetched(end);
        fetched.left = 0..fetched.batch.len();
        let cursor = match (fetched.batch.last_key(), reach) {
            (Some(last), _) if more => Bound::Excluded(last.to_vec()),
            (_, Bound::Included(key)) => Bound::Excluded(key),
            (_, Bound::Excluded(key)) => Bound::Included(key),
            (_, Bound::Unbounded) => {
                self.exhausted = true;
                return;
            }
        };
        match end {
            Direction::Up => self.low = cursor,
            Direction::Down => self.high = cursor,
        }
        self.exhausted = is_empty(&self.low, &self.high);
    }

    /// Fetches until there is an entry at one end: which of which end's. The caller will take at most `limit` more.
    #[inline]
    fn next_place(&mut self, end: Direction, limit: Option<usize>) -> Result<Option<Place>> {
        loop {
            let (own, other, far) = match end {
                Direction::Up => (&mut self.front, &mut self.back, Direction::Down),
                Direction::Down => (&mut self.back, &mut self.front, Direction::Up),
            };
            if let Some(index) = own.left.next() {
                return Ok(Some((end, index)));
            }
            if self.exhausted {
                return Ok(other.left.next_back().map(|index| (far, index)));
            }
            if let Some(limit) = limit {
                self.wanted = limit.saturating_sub(other.left.len()).clamp(1, BATCH_MAX);
            }
            self.fetch(end)?;
        }
    }

    fn batch(&self, end: Direction) -> &Batch {
        match end {
            Direction::Up => &self.front.batch,
            Direction::Down => &self.back.batch,
        }
    }

    /// Reads the entry's value if it is a long one.
    fn long_value(&mut self, place: Option<Place>) -> Result<Option<Place>> {
        if let Some((end, index)) = place
            && let BatchValue::Chain(chain) = self.batch(end).value(index)
        {
            self.long = read_chain(&self.transaction.engine().pool, self.table.tree.table, chain)?;
        }
        Ok(place)
    }

    fn entry(&self, (end, index): Place) -> Entry<'_> {
        let batch = self.batch(end);
        let value = match batch.value(index) {
            BatchValue::Inline(value) => value,
            BatchValue::Chain(_) => &self.long,
        };
        (batch.key(index), value)
    }
}

impl EngineRange for PagedRange<'_> {
    #[inline]
    fn step(&mut self, end: Direction, limit: Option<usize>) -> Result<Option<Entry<'_>>> {
        let outcome = self.next_place(end, limit).and_then(|place| self.long_value(place));
        match outcome {
            Ok(place) => Ok(place.map(|place| self.entry(place))),
            Err(error) => {
                self.exhausted = true;
                self.front.left = 0..0;
                self.back.left = 0..0;
                Err(error)
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
