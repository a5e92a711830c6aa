//! A commit that waits for the log: its ticket, its callback, and the engine that it keeps open.

use crate::error::Result;
use crate::{CommitStamp, Durability};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Completion, Completions, Dependencies, StreamLsn};
use std::time::Instant;

pub(crate) type Callback = Box<dyn FnOnce(Result<CommitStamp>) + Send>;

/// The outcome of waiting for the log to come as far as a commit asked.
pub(crate) type Outcome = std::result::Result<(), katydid_wal::Error>;

/// A callback, and the result it is given if the log comes as far as its commit asked.
pub(crate) struct PendingCallback {
    pub(crate) callback: Callback,
    pub(crate) result: Result<CommitStamp>,
    /// The time from which the commit is measured; none if it is not.
    pub(crate) begun: Option<Instant>,
}

/// A transaction with its place in the log, that may not be durable yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// End of its record, or of one that it depends on if it wrote nothing.
    pub(crate) at: StreamLsn,
    pub(crate) dependencies: Dependencies,
    pub(crate) durability: Durability,
    pub(crate) stamp: CommitStamp,
    /// Latest timestamp that the transaction may have seen, for [`OpenEngine::acknowledge`].
    pub(crate) seen_to: Timestamp,
}

/// An open engine, as a session or commit future keeps it open.
pub(crate) trait OpenEngine: Send + Sync {
    /// Fails if the database was closed.
    fn check_open(&self) -> Result<()>;
    /// An empty queue of commits.
    fn completions(&self) -> Completions<(PendingCallback, Timestamp)>;
    /// A future of what the ticket waits for.
    fn wait_async(&self, ticket: &Ticket) -> Completion;
    /// Notes that a commit has seen versions up to `seen_to`. Called just before that commit is
    /// acknowledged, or when it never will be.
    fn acknowledge(&self, seen_to: Timestamp);
    /// A commit that began at `begun` has come as far as it asked.
    fn committed(&self, begun: Instant, now: Instant);
}
