//! Errors of the log store. openraft gets these as the source of a [`std::io::Error`].
//!
//! Any thread may use these types.

use katydid_wal::{EntryError, LogKind, Lsn, OpenError, ReadError};
use std::io;
use std::sync::Arc;

/// The result of a call on a [`RaftLog`](crate::RaftLog).
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call on a Raft log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A call on the write-ahead log failed, such as an append, a sync, a truncation or a trim.
    #[error(transparent)]
    Log(#[from] katydid_wal::Error),
    /// The entries of the log do not follow each other, one was appended out of order, or the log
    /// could not be read when it was opened.
    #[error(transparent)]
    Entries(#[from] EntryError),
    /// An entry or a vote could not be encoded.
    #[error("{what} could not be encoded: {source}")]
    Encode {
        /// Kind of the value.
        what: &'static str,
        /// Cause of the failure.
        source: Arc<rmp_serde::encode::Error>,
    },
    /// A record is undamaged, but cannot be decoded with the types of this `RaftLog`. The log
    /// belongs to another program, or the types have changed.
    #[error("the {what} at {at} cannot be decoded: {source}")]
    Decode {
        /// Kind of the value.
        what: &'static str,
        /// LSN of the record. Zero if the entry was read from memory.
        at: Lsn,
        /// Cause of the failure.
        source: Arc<rmp_serde::decode::Error>,
    },
    /// The log has a record that no Raft log of this version has. The log belongs to another
    /// program, or to a newer version.
    #[error("the record at {at} does not belong to a Raft log: {reason}")]
    Foreign {
        /// LSN of the record.
        at: Lsn,
        /// The fault.
        reason: &'static str,
    },
    /// An entry was purged or truncated by another call while a range of entries was read.
    #[error("entry {number} was purged or truncated while it was to be read")]
    Gone {
        /// Number of the entry.
        number: u64,
    },
    /// The log is not one stream in files. A Raft log needs one stream in files, because no other
    /// log can be truncated.
    #[error("a Raft log needs a log of one stream in files, not one of kind {kind} with {streams} streams")]
    Unsuited {
        /// The kind of the log.
        kind: LogKind,
        /// Number of streams of the log.
        streams: usize,
    },
    /// The system cannot start a thread for the log.
    #[error("the thread that completes appends could not be started: {source}")]
    Thread {
        /// Cause of the failure.
        source: Arc<io::Error>,
    },
    /// An earlier call failed. No call changes or acknowledges anything any more; opening the log
    /// again recovers it.
    #[error("the Raft log was shut by an earlier failure: {first}")]
    Shut {
        /// The earlier failure.
        #[source]
        first: Arc<Error>,
    },
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Error::Log(error.into())
    }
}

impl From<katydid_wal::AppendError> for Error {
    fn from(error: katydid_wal::AppendError) -> Self {
        Error::Log(error.into())
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}
