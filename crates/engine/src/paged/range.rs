//! Walking a range of keys under interval locks, from either end.
//!
//! This code runs on the transaction's thread. The bounds `low` and `high` enclose the part of the
//! range that was not fetched yet. A fetch from one end takes three steps:
//!
//! - (1) copy the next entries without locks, and note how far the copied interval reaches;
//! - (2) lock the copied interval, which may wait;
//! - (3) check that the leaves of these entries have not changed since (1), or else read the
//!   entries again.
//!
//! After (3) no other transaction can change these entries. So the fetch includes entries that were
//! inserted before (2), and lacks entries that were deleted before (2). A range of a read view
//! takes step (1) only, and invariants 1 and 4 do not apply to it.
//!
//! Invariants:
//!
//! 1. Every entry that is returned, and every gap that is passed over as empty, lies inside a
//!    locked interval. After the lock was granted, the entry or gap was read, or was found
//!    unchanged since an earlier read.
//! 2. `front` holds the entries last fetched from the low end, which lie below `low`, ascending.
//!    `back` holds those last fetched from the high end, which lie above `high`, descending. So no
//!    entry is in both.
//! 3. An entry is returned as the transaction's own writes have left it. A step after a write to
//!    the table, or after a rollback to a savepoint, first drops the fetched entries that no step
//!    has taken. The dropped entries then lie between `low` and `high` again.
//! 4. A range that is walked for update locks each entry of step (1) for update before it locks the
//!    interval. So if two transactions take the same entries, the second one waits before it has
//!    locked anything that the first one wants to change. Entries that step (3) reads again are
//!    locked for update after the interval.
//!
//! Fetches grow from one entry to [`BATCH_MAX`]: a caller that takes only the first entry locks no
//! more than that entry. If the caller says how many entries it will take, a fetch gets all of
//! them, up to [`BATCH_MAX`]. After a write of the transaction to the table, fetches begin with one
//! entry again.

use crate::Lsn;
use crate::direction::Direction;
use crate::engine::{EngineRange, Entry, Purpose};
use crate::error::{Error, Result};
use crate::lock::PointMode;
use crate::paged::engine::Engine;
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, BatchValue, ScanRequest, read_chain};
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Maximum number of entries in a fetch.
const BATCH_MAX: usize = 128;
/// Bytes of entries after which a fetch ends.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Number of entries in the second fetch. The first one has a single entry.
const BATCH_SECOND: usize = 8;

/// A fetched entry: the end from which it was fetched, and its number in the batch.
type EntryIndex = (Direction, usize);

/// Entries that were fetched from one end, and which of them are left.
#[derive(Debug)]
struct Fetched {
    batch: Batch,
    /// Indexes of the entries that no step has taken; 0..0 if nothing was fetched or the entries
    /// were dropped. Otherwise the indexes begin above 0 between steps, because the step that
    /// fetches takes the first entry.
    left: Range<usize>,
}

impl Fetched {
    const NOTHING: Fetched = Fetched { batch: Batch::EMPTY, left: 0..0 };

    /// The bound beyond the entries that steps from this end have taken. `None` if they have taken
    /// none.
    fn taken(&self) -> Option<Bound<Vec<u8>>> {
        let last = self.left.start.checked_sub(1)?;
        Some(Bound::Excluded(self.batch.key(last).to_vec()))
    }

    /// The bound before the entries that steps from the other end have taken. `None` if they have
    /// taken none.
    fn taken_from_behind(&self) -> Option<Bound<Vec<u8>>> {
        let is_taken = self.left.start > 0 && self.left.end < self.batch.len();
        is_taken.then(|| Bound::Excluded(self.batch.key(self.left.end).to_vec()))
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        std::mem::take(&mut self.batch).keep();
    }
}

/// The paged engine's part of a [`crate::Range`].
pub(crate) struct PagedRange {
    table: Arc<PagedTable>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: Fetched,
    back: Fetched,
    /// True if nothing is left between `low` and `high`.
    exhausted: bool,
    /// True after a step that found nothing or failed.
    ended: bool,
    entered: bool,
    /// Purpose of the range. A range that is walked for update locks its entries besides the
    /// intervals (invariant 4).
    purpose: Purpose,
    /// Number of entries in the next fetch.
    wanted: usize,
    /// Count of the transaction's own writes when entries were last fetched
    /// ([`OwnWrites::now`](crate::paged::own_writes::OwnWrites::now)).
    own_writes: u64,
    /// The value that was returned last, if it lies in an overflow chain.
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

impl PagedRange {
    pub(crate) fn new(
        table: Arc<PagedTable>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        purpose: Purpose,
    ) -> Self {
        PagedRange {
            table,
            exhausted: is_empty(&low, &high),
            low,
            high,
            front: Fetched::NOTHING,
            back: Fetched::NOTHING,
            ended: false,
            entered: false,
            purpose,
            wanted: 1,
            own_writes: 0,
            long: Vec::new(),
        }
    }

    fn fetched(&mut self, end: Direction) -> &mut Fetched {
        match end {
            Direction::Up => &mut self.front,
            Direction::Down => &mut self.back,
        }
    }

    /// Copies entries from one end of the part that was not fetched, up to `reach`. Returns whether
    /// there may be more entries beyond the copied ones.
    fn look(
        &mut self,
        transaction: &PagedTransaction,
        end: Direction,
        reach: Option<&Bound<Vec<u8>>>,
    ) -> Result<bool> {
        let (low, high) = match end {
            Direction::Up => (&self.low, reach.unwrap_or(&self.high)),
            Direction::Down => (reach.unwrap_or(&self.low), &self.high),
        };
        let request = ScanRequest {
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
        let Engine { pool, views, .. } = transaction.engine();
        let onward = match transaction.view() {
            Some(view) => view.scan(views, pool, &self.table, request, &mut fetched.batch)?,
            None => self.table.tree.scan(pool, request, &mut fetched.batch)?,
        };
        Ok(onward.is_some())
    }

    /// Locks the part that was not fetched, from one end up to `reach`.
    fn lock(
        &self,
        transaction: &mut PagedTransaction,
        end: Direction,
        reach: &Bound<Vec<u8>>,
    ) -> Result<Lsn> {
        let (low, high) = match end {
            Direction::Up => (slice(&self.low), slice(reach)),
            Direction::Down => (slice(reach), slice(&self.high)),
        };
        let Some((engine, locks)) = transaction.parts() else { return Err(Error::Closed) };
        match engine.granted(|| engine.locks.acquire_range(locks, &self.table.space, low, high)) {
            Ok(grant) => Ok(grant.depends_on),
            Err(error) => Err(transaction.fail(error)),
        }
    }

    /// If the range is walked for update, locks for update the entries that were copied from one
    /// end.
    fn lock_entries(&self, transaction: &mut PagedTransaction, end: Direction) -> Result<()> {
        if self.purpose == Purpose::Read {
            return Ok(());
        }
        let keys = self.batch(end).iter().map(|(key, _)| key);
        keys.into_iter().try_for_each(|key| transaction.lock_key(&self.table, key, PointMode::Update))
    }

    /// Fetches once from one end.
    fn fetch(&mut self, transaction: &mut PagedTransaction, end: Direction) -> Result<()> {
        self.own_writes = transaction.own_writes().now();
        if self.entered || transaction.view().is_some() {
            transaction.check()?;
        } else {
            transaction.enter(&self.table)?;
        }
        if !self.entered {
            self.entered = true;
            self.fetched(end).batch = Batch::spare();
            transaction.visit();
        }
        let more = self.look(transaction, end, None)?;
        let reach = match self.fetched(end).batch.last_key() {
            Some(last) if more => Bound::Included(last.to_vec()),
            _ if end == Direction::Up => self.high.clone(),
            _ => self.low.clone(),
        };
        let more = if transaction.view().is_some() {
            // A view needs no lock, because no later commit changes what the view reads.
            transaction.saw(&self.table, self.batch(end).iter().map(|(key, _)| key));
            more
        } else {
            self.lock_entries(transaction, end)?;
            let newest = self.lock(transaction, end, &reach)?;
            let is_changed = !self.is_unchanged(transaction, end);
            let more = is_changed && self.look(transaction, end, Some(&reach))?;
            if is_changed {
                self.lock_entries(transaction, end)?;
            }
            let depends_on = self.depends_on(transaction, end, newest);
            transaction.depend_on(depends_on);
            more
        };
        transaction.await_read_durability()?;
        self.take_over(end, reach, more);
        self.wanted = (self.wanted * 2).clamp(BATCH_SECOND, BATCH_MAX);
        Ok(())
    }

    /// Returns the position that the transaction depends on after it has read the locked interval.
    /// `newest` is the position that the grant of the lock returned.
    fn depends_on(&self, transaction: &PagedTransaction, end: Direction, newest: Lsn) -> Lsn {
        if newest <= transaction.engine().log.durable() {
            return newest;
        }
        self.table.space.dependence_of(self.batch(end).iter().map(|(key, _)| key))
    }

    fn is_unchanged(&self, transaction: &PagedTransaction, end: Direction) -> bool {
        self.table.tree.is_unchanged(&transaction.engine().pool, self.batch(end))
    }

    /// Turns the copied entries into the fetched ones. With `more`, further entries may lie beyond
    /// the copied ones, up to `reach`.
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

    /// Drops the entries that no step has taken, if a write of the transaction may have changed
    /// them (invariant 3).
    #[cold]
    fn drop_changed(&mut self, transaction: &PagedTransaction) {
        let writes = transaction.own_writes();
        let changed = writes.changed(self.table.tree.table, self.own_writes);
        self.own_writes = writes.now();
        if !changed {
            return;
        }
        self.wanted = 1;
        // A step takes entries that were fetched from the other end only when all entries from its
        // own end are taken. So if steps from one end have taken entries of both batches, the last
        // entry that they have taken is in the batch of the other end.
        if let Some(bound) = self.back.taken_from_behind().or_else(|| self.front.taken()) {
            self.low = bound;
        }
        if let Some(bound) = self.front.taken_from_behind().or_else(|| self.back.taken()) {
            self.high = bound;
        }
        self.front.left = 0..0;
        self.back.left = 0..0;
        self.exhausted = is_empty(&self.low, &self.high);
    }

    /// Fetches until there is an entry at one end, and returns the entry's index. The caller will
    /// take at most `limit` more entries.
    #[inline]
    fn next_place(
        &mut self,
        transaction: &mut PagedTransaction,
        end: Direction,
        limit: Option<usize>,
    ) -> Result<Option<EntryIndex>> {
        if self.ended {
            return Ok(None);
        }
        if transaction.own_writes().now() != self.own_writes {
            self.drop_changed(transaction);
        }
        loop {
            let (own, other, far) = match end {
                Direction::Up => (&mut self.front, &mut self.back, Direction::Down),
                Direction::Down => (&mut self.back, &mut self.front, Direction::Up),
            };
            if let Some(index) = own.left.next() {
                return Ok(Some((end, index)));
            }
            if self.exhausted {
                let last = other.left.next_back().map(|index| (far, index));
                self.ended = last.is_none();
                return Ok(last);
            }
            if let Some(limit) = limit {
                self.wanted = limit.saturating_sub(other.left.len()).clamp(1, BATCH_MAX);
            }
            self.fetch(transaction, end)?;
        }
    }

    fn batch(&self, end: Direction) -> &Batch {
        match end {
            Direction::Up => &self.front.batch,
            Direction::Down => &self.back.batch,
        }
    }

    /// Reads the entry's value into `long`, if the value lies in an overflow chain.
    fn long_value(
        &mut self,
        transaction: &PagedTransaction,
        place: Option<EntryIndex>,
    ) -> Result<Option<EntryIndex>> {
        if let Some((end, index)) = place
            && let BatchValue::Chain(chain) = self.batch(end).value(index)
        {
            let Engine { pool, views, .. } = transaction.engine();
            self.long = match transaction.view() {
                Some(view) => view.long_value(views, pool, &self.table, self.batch(end).key(index), chain)?,
                None => read_chain(pool, self.table.tree.table, chain)?,
            };
        }
        Ok(place)
    }

    fn entry(&self, (end, index): EntryIndex) -> Entry<'_> {
        let batch = self.batch(end);
        let value = match batch.value(index) {
            BatchValue::Inline(value) => value,
            BatchValue::Chain(_) => &self.long,
        };
        (batch.key(index), value)
    }
}

impl EngineRange<PagedTransaction> for PagedRange {
    #[inline]
    fn step<'r>(
        &'r mut self,
        transaction: &mut PagedTransaction,
        end: Direction,
        limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>> {
        let place = self.next_place(transaction, end, limit);
        let outcome = place.and_then(|place| self.long_value(transaction, place));
        match outcome {
            Ok(place) => Ok(place.map(|place| self.entry(place))),
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }
}

impl fmt::Debug for PagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("table", &self.table.space.name())
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
