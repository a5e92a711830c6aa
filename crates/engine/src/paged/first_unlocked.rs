//! The first entry of a range that no other transaction has locked, for queues with several consumers.
//!
//! Runs on the transaction's thread, holds no latch while it asks for a lock, and waits for no lock but the table's. Invariants:
//!
//! 1. The entry that is returned was locked before its value was read.
//! 2. The transaction depends on every commit whose deletion may be why a key was not met ([`LockSpace::dependence_of`]), and on the one that
//!    wrote the entry. It does not depend on transactions that hold what was passed over: the range is not isolated from them.
//!
//! [`LockSpace::dependence_of`]: crate::lock::LockSpace::dependence_of

use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::lock::PointMode;
use crate::paged::table::PagedTable;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::{Batch, Stretch};
use std::ops::Bound;

/// Maximum number of entries that are looked at together.
const ENTRIES: usize = 16;
/// Bytes of entries that are looked at together: after these the batch ends.
const BYTES: usize = 16 << 10;

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

/// Locks the first entry between the bounds that no other transaction has locked in a way that excludes it, and returns it.
pub(super) fn first_unlocked(
    transaction: &mut PagedTransaction,
    table: &PagedTable,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
) -> Result<Option<Row>> {
    transaction.enter(table)?;
    let mut batch = Batch::spare();
    let found = search(transaction, table, low, high, &mut batch);
    batch.keep();
    let found = found?;
    // Read after the tree: a deletion leaves its commit behind before its locks go.
    transaction.depend_on(table.space.dependence_of(std::iter::empty()));
    transaction.await_read_durability()?;
    Ok(found)
}

fn search(
    transaction: &mut PagedTransaction,
    table: &PagedTable,
    mut low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    batch: &mut Batch,
) -> Result<Option<Row>> {
    loop {
        let stretch = Stretch {
            low: low.as_ref().map(Vec::as_slice),
            high: high.as_ref().map(Vec::as_slice),
            direction: Direction::Up,
            entries: ENTRIES,
            bytes: BYTES,
        };
        let onward = table.tree.scan(&transaction.engine().pool, stretch, batch)?;
        for (key, _) in batch.iter() {
            let Some((engine, locks)) = transaction.parts() else { return Err(Error::Closed) };
            let Some(grant) = engine.locks.try_point(locks, &table.space, key, PointMode::Update) else {
                continue;
            };
            // It may have gone, or have another value, since it was copied.
            let value = table.tree.get_copy(&engine.pool, key)?;
            transaction.depend_on(grant.depends_on);
            if let Some(value) = value {
                return Ok(Some((key.to_vec(), value)));
            }
        }
        match batch.last_key() {
            Some(last) if onward.is_some() => low = Bound::Excluded(last.to_vec()),
            _ => return Ok(None),
        }
    }
}
