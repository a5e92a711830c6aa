//! The callback of a commit that has not been acknowledged.

use crate::CommitStamp;
use crate::error::Result;

pub(crate) type Callback = Box<dyn FnOnce(Result<CommitStamp>) + Send>;

/// The outcome of waiting for the log to come as far as a commit asked.
pub(crate) type Outcome = std::result::Result<(), katydid_wal::Error>;

/// A callback, and the result it is given if the log comes as far as its commit asked.
pub(crate) struct PendingCallback {
    pub(crate) callback: Callback,
    pub(crate) result: Result<CommitStamp>,
}
