//! An open view, and reading through it.
//!
//! Used by the thread of its transaction. A reader looks at a leaf and at the images of its keys
//! under one latching of the leaf. So for each change that the reader finds in the leaf, it also
//! finds the image. After the read the reader checks whether the table was dropped or the view
//! given up. This check suffices, because a table is marked as dropped before its pages are freed,
//! and a view is marked as given up before its images are removed.
//!
//! A long value is read with no latch held, so a commit that has replaced or deleted the value may
//! free the value's pages meanwhile. If a view needs the value, the commit first puts the value's
//! bytes into the before-image of the key. So the reader looks for an image again after it has read
//! the pages.

use super::Views;
use super::images::Forgotten;
use super::slots::Slot;
use super::versions::{Before, Stamp, Versions};
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::paged::page::Value;
use crate::paged::pool::Pool;
use crate::paged::table::PagedTable;
use crate::paged::tree::{Batch, Chain, InMemory, LeafEntries, Lens, ScanRequest, read_chain};
use crate::{Lsn, TableId};
use crossbeam_utils::CachePadded;
use std::ops::Bound;
use std::sync::Arc;

/// A read view. The transaction that has the view gives it back with `Views::close`.
#[derive(Debug)]
pub(crate) struct View {
    pub(super) stamp: Stamp,
    slot: Arc<CachePadded<Slot>>,
    /// True if no transaction has images that were kept before the view had its stamp and that the
    /// view may need.
    pub(super) has_visited: bool,
    /// Greatest end of the commit records of transactions that the view sees and that may still
    /// have held their locks when the view visited them. The view's reads may depend on these
    /// commits. The lock table knows a commit only after the transaction has released its locks.
    pub(super) depends: Lsn,
    /// End of the log after the view was opened. Everything that the view sees has committed below
    /// it.
    pub(super) limit: Lsn,
    /// Tables that transactions had changed without keeping images when the view visited them.
    pub(super) forgotten: Vec<Forgotten>,
}

/// A value as a reader has found it.
enum ViewedValue {
    Absent,
    Bytes(Vec<u8>),
    Chain(Chain),
    Lost,
}

impl ViewedValue {
    fn in_leaf(value: Option<Value<'_>>) -> Self {
        match value {
            None => ViewedValue::Absent,
            Some(Value::Inline(bytes)) => ViewedValue::Bytes(bytes.to_vec()),
            Some(Value::Overflow { head, length }) => ViewedValue::Chain(Chain { head, length }),
        }
    }

    fn in_image(before: &Before) -> Self {
        match before {
            Before::Absent => ViewedValue::Absent,
            Before::Bytes(bytes) => ViewedValue::Bytes(bytes.to_vec()),
            Before::Chain(chain) => ViewedValue::Chain(*chain),
            Before::Lost => ViewedValue::Lost,
        }
    }
}

impl View {
    pub(super) fn new(stamp: Stamp, slot: Arc<CachePadded<Slot>>) -> Self {
        let forgotten = Vec::new();
        View { stamp, slot, has_visited: false, depends: Lsn::ZERO, limit: Lsn::ZERO, forgotten }
    }

    /// Returns whether the view has visited the transactions with images.
    #[inline]
    pub(crate) fn has_visited(&self) -> bool {
        self.has_visited
    }

    /// Ends the view. Returns its slot.
    pub(super) fn into_slot(self) -> Arc<CachePadded<Slot>> {
        self.slot
    }

    /// Returns the position on which reads depend. `newest` is the commit end that
    /// `LockSpace::dependence_of` returned for the keys that were read.
    pub(crate) fn depends_on(&self, newest: Lsn) -> Lsn {
        self.depends.max(newest.min(self.limit))
    }

    /// Position below which everything that the view sees has committed.
    pub(crate) fn limit(&self) -> Lsn {
        self.limit
    }

    /// Returns the value of `key`.
    pub(crate) fn get(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let seen = table.look(pool, key, |value| self.seen(table, key, value));
        let value = seen.and_then(|seen| self.value(views, pool, table, key, seen));
        self.judged(views, table, value)
    }

    /// Returns the value of `key`, if its leaf is in memory.
    pub(crate) fn get_in_memory(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        key: &[u8],
    ) -> Result<InMemory<Option<Vec<u8>>>> {
        let seen = table.look_in_memory(pool, key, |value| self.seen(table, key, value));
        let value = seen.and_then(|seen| match seen {
            InMemory::Found(seen) => self.value(views, pool, table, key, seen).map(InMemory::Found),
            InMemory::Missing(leaf) => Ok(InMemory::Missing(leaf)),
        });
        self.judged(views, table, value)
    }

    /// Returns what the view shows for `key`, whose leaf has `value`. Called with the leaf's latch
    /// held.
    fn seen(&self, table: &PagedTable, key: &[u8], value: Option<Value<'_>>) -> ViewedValue {
        table.versions.look(key, self.stamp, |image| {
            image.map_or_else(|| ViewedValue::in_leaf(value), ViewedValue::in_image)
        })
    }

    /// Returns whether `key` has a value.
    pub(crate) fn contains(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        key: &[u8],
    ) -> Result<bool> {
        let found = table.look(pool, key, |value| {
            table.versions.look(key, self.stamp, |image| match image {
                None => value.is_some(),
                Some(before) => *before != Before::Absent,
            })
        });
        self.judged(views, table, found)
    }

    /// Fills `batch` like `Tree::scan`, with the entries that the view shows.
    pub(crate) fn scan(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        request: ScanRequest<'_>,
        batch: &mut Batch,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let lens = ViewLens { versions: &table.versions, view: self.stamp };
        let onward = table.tree.scan_through(pool, request, Some(&lens), batch);
        self.judged(views, table, onward)
    }

    /// Reads a long value that a scan has met.
    pub(crate) fn long_value(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        key: &[u8],
        chain: Chain,
    ) -> Result<Vec<u8>> {
        let value = self.value(views, pool, table, key, ViewedValue::Chain(chain));
        let value = value.and_then(|value| value.ok_or(Error::Internal("a key has left a view")));
        self.judged(views, table, value)
    }

    fn value(
        &self,
        views: &Views,
        pool: &Pool,
        table: &PagedTable,
        key: &[u8],
        mut seen: ViewedValue,
    ) -> Result<Option<Vec<u8>>> {
        loop {
            let chain = match seen {
                ViewedValue::Absent => return Ok(None),
                ViewedValue::Bytes(bytes) => return Ok(Some(bytes)),
                ViewedValue::Chain(chain) => chain,
                ViewedValue::Lost => return Err(self.too_old(views, 0)),
            };
            let read = read_chain(pool, table.tree.table, chain);
            seen = table.versions.look(key, self.stamp, |image| {
                image.map_or(ViewedValue::Chain(chain), ViewedValue::in_image)
            });
            if matches!(seen, ViewedValue::Chain(still) if still == chain) {
                return read.map(Some);
            }
        }
    }

    /// Returns the outcome of a read, or an error if the outcome may be wrong: the table was
    /// dropped, or images that the view needs are gone.
    fn judged<T>(&self, views: &Views, table: &PagedTable, outcome: Result<T>) -> Result<T> {
        table.check()?;
        let bytes = self.slot.given_up();
        if bytes != 0 || self.has_forgotten(table.tree.table) {
            return Err(self.too_old(views, bytes));
        }
        outcome
    }

    #[cfg(test)]
    pub(super) fn is_given_up(&self) -> bool {
        self.slot.given_up() != 0
    }

    pub(super) fn has_forgotten(&self, table: TableId) -> bool {
        let visited = || self.forgotten.iter().any(|tables| tables.lock().contains(&table));
        visited() || self.slot.has_forgotten(table)
    }

    #[cold]
    fn too_old(&self, views: &Views, bytes: u64) -> Error {
        let bytes = if bytes == 0 { views.stat().bytes } else { bytes };
        Error::ViewTooOld { bytes, max: views.bytes_max() }
    }
}

/// A table's leaves as a view reads them.
#[derive(Debug)]
struct ViewLens<'a> {
    versions: &'a Versions,
    view: Stamp,
}

impl Lens for ViewLens<'_> {
    fn is_clear(&self) -> bool {
        self.versions.is_clear(self.view)
    }

    fn is_clear_between(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
        self.versions.is_clear_between(self.view, low, high)
    }

    fn show(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        leaf: LeafEntries<'_, '_>,
        see: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> bool {
        self.versions.merge(self.view, bounds, direction, leaf, see)
    }
}
