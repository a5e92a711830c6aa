//! The B+tree of one table: keys to values, on pages of the pool, every change logged before it is made.
//!
//! Threads: any; a tree has no state of its own but the id of its root, which never moves. Parts: `descend` (from the root
//! to a leaf), `hint` (past the root), `read`, `cursor` and `batch` (scanning), `write` (one key), `room` (splitting), `shrink` (merging), `structure` (one record for
//! several pages), `chain` (long values), `lifecycle` (creating and dropping trees), `undo`, `verify`.
//!
//! Invariants:
//!
//! 1. Latches are taken from the root down, among siblings from left to right, and the maps last, in ascending order. Nobody
//!    holds a page's latch and waits for one above it or to its left, so there is no deadlock of latches.
//! 2. Whoever goes from a page to its child holds the page's latch until it has the child's: a child cannot be split away,
//!    merged or freed in between. There are no other links between pages of a tree, hence nothing to move right along.
//! 3. The fences of a child are the separators around it in its parent. A page holds only keys between its fences; so the
//!    continuation of a scan is found again from a fence, whatever happened to the pages meanwhile.
//! 4. All changes follow one order: exclusive latches, `begin_change`, append, edit, `finish_change`. All that can fail
//!    comes before the append; a failed append leaves every page as it was. A failure after it shuts the database off.
//!    A record lies above the LSNs of all pages it changes, so a page's changes are in the log in the order in which they were made.
//! 5. A change of structure is one record ([`structure::Structure`]) and leaves a tree that satisfies 3. Between two changes
//!    of structure, and at every crash, the tree is whole; at worst a page is emptier than it could be.
//! 6. The log is appended to with latches held: its drain never needs a page latch.
//!
//! What a crash leaves: the state after some prefix of the log's records, by redo; keys of unfinished transactions are taken
//! back by `undo`. A page reserved but not logged is free again.

mod batch;
mod chain;
mod cursor;
mod descend;
mod hint;
mod lifecycle;
mod read;
mod room;
mod shrink;
mod structure;
#[cfg(test)]
mod tests;
mod undo;
mod verify;
mod write;

pub(crate) use batch::{Batch, BatchValue};
pub(crate) use chain::{Chain, read_chain};
pub(crate) use cursor::{LeafEntries, Lens, Stretch};
pub(crate) use hint::{LeafHint, LeafHints};
pub(crate) use lifecycle::free_after_commit;
pub(crate) use undo::apply_undo;
pub(crate) use verify::{Reached, verify_maps};
pub(crate) use write::Previous;

use super::change::ChangeKind;
use super::page::{PageId, Value};
use super::pool::Pool;
use super::space::{AllocClass, Space};
use crate::{Error, Lsn, Result, TableId};
use std::sync::Arc;

/// Where an appended record lies: its LSN, and its exclusive end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) lsn: Lsn,
    pub(crate) end: Lsn,
}

/// Puts the tree's records into the log. Who implements it decides whose records they are: a running transaction's, or those
/// of a rollback, where `append` writes compensation records. Every record is put above `after`, the highest LSN of the pages
/// it changes.
pub(crate) trait ChangeWriter {
    /// Appends a record that the transaction owns. Called with page latches held. If it fails nothing is changed.
    fn append(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged>;

    /// Appends a record that is never undone, whatever becomes of the transaction: `Structure` or `ChainFree`.
    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged>;

    /// Keeps the value that `key` has before a change that the transaction may still take back, for those who must not see the change. Called
    /// with the leaf's latch held, before [`ChangeWriter::append`].
    fn keep_before(&mut self, _key: &[u8], _before: Option<Value<'_>>) {}

    /// For whom pages are reserved.
    fn alloc_class(&self) -> AllocClass;

    /// Whether records of updates are to have whole values, which redo and undo do not need.
    fn wants_values(&self) -> bool {
        false
    }

    /// A change that is in the log could not be made, which is a bug: the pages in memory are not what the log says, so
    /// nobody may be told of them or of anything after it. The error to fail with.
    fn half_made(&mut self, what: &'static str) -> Error;
}

/// Where a tree's pages are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) space: &'a Arc<Space>,
    /// Where the caller's thread last changed this table, if that is worth a try.
    pub(crate) hint: Option<&'a LeafHint>,
}

/// A table's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The table.
    pub(crate) table: TableId,
    /// The root, the same for the life of the tree.
    pub(crate) root: PageId,
}

impl Tree {
    /// The tree of `table` with this root.
    pub(crate) const fn new(table: TableId, root: PageId) -> Self {
        Tree { table, root }
    }
}

/// What is wrong if a record did not get above the LSN of a page it changes: redo would leave it out.
const LOGGED_BELOW: &str = "a change was logged below the one before it";

/// A page of a tree that contradicts its neighbours.
fn corrupt(page: PageId, finding: impl Into<String>) -> Error {
    Error::Corrupt { place: format!("page {page}"), page: Some(page.get()), finding: finding.into() }
}
