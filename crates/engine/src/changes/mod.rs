//! The feed: the durable transactions after a position, in the order of their commits.
//!
//! A [`Changes`] belongs to one thread at a time. Each engine has its own reader of the log
//! (`paged/feed`, `memory/feed`). Writers know only one thing about feeds: whether to log whole
//! values. Invariants:
//!
//! 1. The feed returns a transaction only when that transaction and all transactions with lower
//!    stamps are durable. The feed returns each transaction once, in an order that is the same each
//!    time the log is read.
//! 2. The feed does not return changes that were rolled back, to a savepoint or with their whole
//!    transaction.
//! 3. A [`ChangePosition`] names the last transaction that the feed returned. For each stream it
//!    has a position at or above which all records of later transactions lie. So a feed can
//!    continue from a position after a crash. If the log was trimmed above the position, the feed
//!    fails with `Error::ChangesGap`.
//!
//! A feed stores nothing on the device. A caller that continues after a crash stores the position,
//! itself or with a consumer.

mod position;

pub use position::ChangePosition;

use crate::CommitStamp;
use crate::error::Result;
use crate::ids::TableId;
use crate::ticket::OpenEngine;
use katydid_wal::Log;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Beginning of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesFrom {
    /// At the oldest transaction that the log still has together with all later transactions.
    Oldest,
    /// At the first transaction that commits after the call.
    Now,
    /// After the transaction that the position names.
    Position(ChangePosition),
}

/// The new value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewValue {
    /// The key has this value.
    Value(Vec<u8>),
    /// The new value is the former value with one change: `bytes` takes the place of the `replaced`
    /// bytes that began at `offset`. Only the feed of the paged engine has patches, and only for a
    /// transaction that began to write while its database did not log whole values: see
    /// [`Database::changes`](crate::Database::changes).
    Patch {
        /// Offset of the first byte that changed.
        offset: usize,
        /// Number of bytes that were removed at `offset`.
        replaced: usize,
        /// The bytes that replace the removed ones.
        bytes: Vec<u8>,
    },
    /// The key was deleted.
    Deleted,
}

/// The former value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldValue {
    /// The key had no value.
    Absent,
    /// The key had this value.
    Value(Vec<u8>),
    /// The log does not have the former value. The memory engine logs no former values. The paged
    /// engine does not log a former value that is long and has pages of its own, or one that a
    /// [`NewValue::Patch`] changed.
    NotLogged,
}

/// One change of a committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A key of a table got a value, or was deleted.
    Row {
        /// The table.
        table: TableId,
        /// The table's name, if the table still exists or the feed has returned its creation.
        name: Option<Arc<str>>,
        /// The key.
        key: Vec<u8>,
        /// The key's new value.
        new: NewValue,
        /// The key's former value.
        old: OldValue,
    },
    /// A table was created.
    TableCreated {
        /// Number of the table, which no other table of the database ever gets.
        table: TableId,
        /// Name of the table.
        name: Arc<str>,
    },
    /// A table got another name, and kept its keys.
    TableRenamed {
        /// Number of the table.
        table: TableId,
        /// Name of the table before.
        from: Arc<str>,
        /// Name of the table from now on.
        to: Arc<str>,
    },
    /// A table was dropped, with all its keys.
    TableDropped {
        /// Number of the table, if the feed knows it.
        table: Option<TableId>,
        /// Name of the table.
        name: Arc<str>,
    },
    /// An empty table was loaded in bulk ([`Database::bulk_load`](crate::Database::bulk_load)).
    /// Only the feed of the paged engine has this change, because the log has the pages of a load
    /// and not its keys. A program that needs the keys reads the table. The feed of the memory
    /// engine has a [`Change::Row`] for each key.
    TableLoaded {
        /// Number of the table.
        table: TableId,
        /// Name of the table, if the feed knows it.
        name: Option<Arc<str>>,
    },
}

/// Replaces the two catalog changes of a rename by one [`Change::TableRenamed`]. No operation but
/// [`Database::rename_table`](crate::Database::rename_table) removes a name from the catalog and
/// adds one in the same transaction.
pub(crate) fn with_renames(mut changes: Vec<Change>) -> Vec<Change> {
    let dropped = changes.iter().position(|change| matches!(change, Change::TableDropped { .. }));
    let created = changes.iter().position(|change| matches!(change, Change::TableCreated { .. }));
    if let (Some(dropped), Some(created)) = (dropped, created)
        && let Change::TableDropped { name: from, .. } = &changes[dropped]
        && let Change::TableCreated { table, name: to } = &changes[created]
    {
        changes[created] = Change::TableRenamed { table: *table, from: from.clone(), to: to.clone() };
        changes.remove(dropped);
    }
    changes
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedTransaction {
    /// The commit stamp that the transaction's commit returned: its place in the order of commits.
    pub stamp: CommitStamp,
    /// The transaction's changes in the order in which it made them. The memory engine has one
    /// change for each key.
    pub changes: Vec<Change>,
}

/// Operations of an engine's feed.
pub(crate) trait EngineFeed: Send + fmt::Debug {
    /// Returns the next transaction, if one is available. Otherwise the waker of `context`, if
    /// there is a context, is called when a transaction may be available.
    fn poll_next(&mut self, context: Option<&mut Context<'_>>) -> Poll<Result<CommittedTransaction>>;
    /// The position after the last transaction that the feed returned.
    fn position(&self) -> ChangePosition;
}

/// A feed of the committed transactions of a database, in the order of their commits. Made by
/// [`Database::changes`](crate::Database::changes).
///
/// A feed keeps the database open, as a transaction does.
pub struct Changes {
    feed: Box<dyn EngineFeed>,
    log: Log,
    _open: Arc<dyn OpenEngine>,
}

impl Changes {
    pub(crate) fn new(feed: Box<dyn EngineFeed>, log: Log, open: Arc<dyn OpenEngine>) -> Self {
        Changes { feed, log, _open: open }
    }

    /// Returns the next transaction, if it and all transactions before it are durable. Does not
    /// block.
    ///
    /// # Errors
    /// `Error::ChangesGap` if the log was trimmed past the feed; `Error::ChangesTooLarge` if
    /// transactions that have not ended take more memory than a feed may; failures of the device.
    /// After an error the feed's position is unchanged. After `Error::ChangesTooLarge` every later
    /// call returns this error again.
    pub fn try_next(&mut self) -> Result<Option<CommittedTransaction>> {
        match self.feed.poll_next(None) {
            Poll::Ready(outcome) => outcome.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Returns the next transaction; blocks until there is one.
    ///
    /// # Errors
    /// Those of [`Changes::try_next`]; `Error::Closed` if the database was closed and the feed has
    /// returned every durable transaction; `Error::Poisoned` if the database has failed.
    #[expect(clippy::should_implement_trait, reason = "a feed has no end at which an iterator would stop")]
    pub fn next(&mut self) -> Result<CommittedTransaction> {
        let feed = &mut self.feed;
        self.log.block_on(|context| feed.poll_next(Some(context)))
    }

    /// Returns the next transaction when there is one. Dropping the future loses no transaction. A
    /// thread of the log calls the waker.
    ///
    /// # Errors
    /// Those of [`Changes::next`].
    pub async fn next_async(&mut self) -> Result<CommittedTransaction> {
        poll_fn(|context| self.feed.poll_next(Some(context))).await
    }

    /// Returns the next transaction, or registers the waker of `context`, which is called when
    /// there may be one.
    ///
    /// # Errors
    /// Those of [`Changes::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<CommittedTransaction>> {
        self.feed.poll_next(Some(context))
    }

    /// The position after the last transaction that was returned. Store the position together with
    /// the results of that transaction, and continue from it with [`ChangesFrom::Position`].
    pub fn position(&self) -> ChangePosition {
        self.feed.position()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.position()).finish_non_exhaustive()
    }
}
