//! The entries of a range that no other transaction has locked, for queues with several consumers.
//!
//! Runs on the transaction's thread. This thread holds no latch while it asks for a lock, and waits
//! for no lock except the table's. Entries are copied out of the leaves in batches. Each entry is
//! locked when the range comes to it, if the lock can be granted without a wait. The range
//! remembers its position, so it looks only once at an entry that another transaction has locked.
//! Invariants:
//!
//! 1. An entry that is returned was locked before its value was read.
//! 2. The transaction depends on every commit that may have deleted a key before the range came to
//!    it ([`LockSpace::dependence_of`]), and on the commits that wrote the returned entries. The
//!    transaction does not depend on transactions whose locked entries were passed over: the range
//!    is not isolated from them.
//! 3. After the transaction has written to the table, the copied entries that were not returned are
//!    dropped and copied again.
//!
//! [`LockSpace::dependence_of`]: crate::lock::LockSpace::dependence_of

use crate::direction::Direction;
use crate::engine::{EngineRange, Entry};
use crate::error::{Error, Result};
use crate::lock::PointMode;
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, ScanRequest};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Number of entries in the first batch. Each further batch has twice as many.
const ENTRIES: usize = 16;
/// Maximum number of entries in a batch.
const ENTRIES_MAX: usize = 256;
/// Bytes of entries after which a batch ends.
const BYTES: usize = 16 << 10;

/// The paged engine's part of a [`crate::UnlockedRange`].
pub(crate) struct UnlockedRange {
    table: Arc<PagedTable>,
    /// Every entry below this bound was looked at, except the rest of `batch`.
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    batch: Batch,
    /// Index of the entry of `batch` that the range comes to next.
    next: usize,
    /// True if there may be entries between `low` and `high`.
    more: bool,
    /// True after a step that found nothing or failed.
    ended: bool,
    /// Number of entries in the next batch.
    wanted: usize,
    /// Count of the transaction's own writes when entries were last copied.
    own_writes: u64,
    given: (Vec<u8>, Vec<u8>),
}

impl UnlockedRange {
    pub(crate) fn new(table: Arc<PagedTable>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        UnlockedRange {
            table,
            low,
            high,
            batch: Batch::EMPTY,
            next: 0,
            more: true,
            ended: false,
            wanted: ENTRIES,
            own_writes: 0,
            given: Default::default(),
        }
    }

    /// Copies the next batch.
    fn copy(&mut self, transaction: &PagedTransaction) -> Result<()> {
        let request = ScanRequest {
            low: self.low.as_ref().map(Vec::as_slice),
            high: self.high.as_ref().map(Vec::as_slice),
            direction: Direction::Up,
            entries: self.wanted,
            bytes: BYTES,
        };
        self.own_writes = transaction.own_writes().now();
        self.next = 0;
        if self.batch.is_empty() {
            self.batch = Batch::spare();
        }
        let onward = self.table.tree.scan(&transaction.engine().pool, request, &mut self.batch)?;
        self.wanted = (self.wanted * 2).min(ENTRIES_MAX);
        self.more = onward.is_some() && !self.batch.is_empty();
        if let Some(last) = self.batch.last_key() {
            self.low = Bound::Excluded(last.to_vec());
        }
        Ok(())
    }

    /// Drops the copied entries after a write of the transaction (invariant 3).
    fn drop_changed(&mut self, transaction: &PagedTransaction) {
        let writes = transaction.own_writes();
        if writes.now() == self.own_writes || !writes.changed(self.table.tree.table, self.own_writes) {
            return;
        }
        if let Some(last) = self.next.checked_sub(1) {
            self.low = Bound::Excluded(self.batch.key(last).to_vec());
        }
        self.next = self.batch.len();
        self.more = true;
    }

    /// Locks the next entry that no other transaction has locked in a conflicting mode. Returns
    /// whether there is one.
    fn search(&mut self, transaction: &mut PagedTransaction) -> Result<bool> {
        self.drop_changed(transaction);
        loop {
            while self.next < self.batch.len() {
                let key = self.batch.key(self.next);
                self.next += 1;
                let Some((engine, locks)) = transaction.parts() else { return Err(Error::Closed) };
                let Some(grant) = engine.locks.try_point(locks, &self.table.space, key, PointMode::Update)
                else {
                    continue;
                };
                // The entry may have been deleted or changed since it was copied.
                let value = self.table.get_copy(&engine.pool, key)?;
                transaction.depend_on(grant.depends_on);
                if let Some(value) = value {
                    self.given = (key.to_vec(), value);
                    return Ok(true);
                }
            }
            if !self.more {
                return Ok(false);
            }
            self.copy(transaction)?;
        }
    }
}

impl Drop for UnlockedRange {
    fn drop(&mut self) {
        std::mem::take(&mut self.batch).keep();
    }
}

impl EngineRange<PagedTransaction> for UnlockedRange {
    fn step<'r>(
        &'r mut self,
        transaction: &mut PagedTransaction,
        _up: Direction,
        _limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>> {
        if self.ended {
            return Ok(None);
        }
        // If one of the following calls fails, the range has ended.
        self.ended = true;
        transaction.enter(&self.table)?;
        let found = self.search(transaction)?;
        // The dependency is read after the tree. A transaction that deletes a key records its
        // commit in the lock space before it releases its locks. So the dependency includes every
        // deletion that the search has seen, if the deleting transaction had released its locks by
        // then.
        transaction.depend_on(self.table.space.dependence_of(std::iter::empty()));
        transaction.await_read_durability()?;
        self.ended = !found;
        let (key, value) = &self.given;
        Ok(found.then_some((key, value)))
    }
}

impl fmt::Debug for UnlockedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnlockedRange")
            .field("table", &self.table.space.name())
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
