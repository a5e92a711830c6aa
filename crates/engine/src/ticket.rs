//! A commit that waits for the log: its ticket, its callback, and the engine that it keeps open.

use crate::error::Result;
use crate::{CommitStamp, Durability};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Completion, Completions, Dependencies, StreamLsn};
use std::time::Instant;

pub(crate) type Callback = Box<dyn FnOnce(Result<CommitStamp>) + Send>;

/// The outcome of waiting until a commit is as durable as it asked.
pub(crate) type Outcome = std::result::Result<(), katydid_wal::Error>;

/// A callback, and the result that it gets if its commit becomes as durable as it asked.
pub(crate) struct PendingCallback {
    pub(crate) callback: Callback,
    pub(crate) result: Result<CommitStamp>,
    /// The time from which the commit's latency is measured; `None` if it is not measured.
    pub(crate) begun: Option<Instant>,
}

/// A transaction that has been submitted, and may not be durable yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// End of the transaction's record; if it wrote nothing, end of a record that it depends on.
    pub(crate) at: StreamLsn,
    pub(crate) dependencies: Dependencies,
    pub(crate) durability: Durability,
    pub(crate) stamp: CommitStamp,
    /// Timestamp up to which the transaction may have seen or written versions, for
    /// [`OpenEngine::acknowledge`].
    pub(crate) seen_to: Timestamp,
}

/// An open engine, as sessions and commit futures use it and keep it open.
pub(crate) trait OpenEngine: Send + Sync {
    /// Fails if the database was closed. The paged engine also fails if a bug has shut it off.
    fn check_open(&self) -> Result<()>;
    /// Returns an empty queue of commits.
    fn completions(&self) -> Completions<(PendingCallback, Timestamp)>;
    /// Returns a future that is ready when the ticket's commit is as durable as it asked.
    fn wait_async(&self, ticket: &Ticket) -> Completion;
    /// Notes that a commit may have seen or written versions up to `seen_to`. Called just before
    /// that commit is acknowledged, or when its session or future is dropped before that.
    fn acknowledge(&self, seen_to: Timestamp);
    /// Counts a commit that began at `begun` and is as durable as it asked at `now`.
    fn committed(&self, begun: Instant, now: Instant);
}
