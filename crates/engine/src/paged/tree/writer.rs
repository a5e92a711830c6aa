//! Logging of the tree's changes: a trait that running transactions and rollbacks implement.
//!
//! The trait's functions are called with page latches held.

use crate::paged::change::ChangeKind;
use crate::paged::page::Value;
use crate::paged::space::AllocClass;
use crate::{Error, Lsn, Result};

/// Position of an appended record: its LSN, and its exclusive end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) lsn: Lsn,
    pub(crate) end: Lsn,
}

/// Appends the tree's records to the log. The implementation decides whether the records belong to
/// a running transaction or to a rollback. In a rollback `append` writes compensation records.
/// Every record is put above `after`, the highest LSN of the pages that it changes.
pub(crate) trait ChangeWriter {
    /// Appends a record that the transaction owns. If this fails, nothing is changed.
    fn append(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged>;

    /// Appends a record that is never undone, whatever becomes of the transaction: `Structure` or
    /// `ChainFree`.
    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged>;

    /// Keeps for read views the value that `key` has before the change that follows. Views must not
    /// see the change, because it may still be rolled back. Called with the leaf's latch held,
    /// before [`ChangeWriter::append`].
    fn keep_before(&mut self, _key: &[u8], _before: Option<Value<'_>>) {}

    /// The class in which pages are reserved.
    fn alloc_class(&self) -> AllocClass;

    /// Returns whether records of updates must have whole values, which redo and undo do not need.
    fn wants_values(&self) -> bool {
        false
    }

    /// Handles a change that is in the log and could not be made, which is a bug. The pages in
    /// memory are not what the log says, so no caller may see them or anything after the change.
    /// Returns the error with which the call fails.
    fn half_made(&mut self, what: &'static str) -> Error;
}

/// Fault of a record that is not above the LSN of a page that it changes. Redo would skip such a
/// record.
pub(super) const LOGGED_BELOW: &str = "a change was logged below the one before it";
