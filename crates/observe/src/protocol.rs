//! Requests and replies: typed, as JSON in frames ([`crate::frame`]). Pure.
//!
//! Every frame carries the number of the protocol. A program that meets another number refuses with
//! [`Refusal::Protocol`], whatever the rest of the frame says; a field or request that it does not
//! know is [`Refusal::Request`].

use crate::bytes::Bytes;
use crate::committed::Committed;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::ops::Bound;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Asks for the names of all tables, sorted. [`Reply::Tables`].
    Tables,
    /// Asks for the value of a key. [`Reply::Value`].
    Get {
        /// Name of the table.
        table: String,
        /// The key.
        key: Bytes,
    },
    /// Asks for entries in the order of their keys, as many as fit into one reply. Each reply is of
    /// one moment; a range that takes several replies is not. [`Reply::Rows`].
    Scan {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
        /// From the last key to the first.
        reverse: bool,
        /// Maximum number of entries.
        limit: u64,
    },
    /// Asks for the number of keys, which the owner counts a part at a time. [`Reply::Count`].
    Count {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
    },
    /// Asks for positions and counters. [`Reply::Stat`].
    Stat,
    /// Asks for the stretch of the log that follows the end of an archive. That end is
    /// acknowledged. [`Reply::LogStretch`].
    LogStretch {
        /// Name of the archiver, which is made if there is none.
        archiver: String,
        /// Most bytes of log that are kept for it, if it is made.
        keep: u64,
        /// [`katydid::ArchiveMark`] as bytes; none of an empty archive.
        archived: Option<Bytes>,
        /// True if the moment is to be noted when nothing more is durable.
        note: bool,
    },
    /// Asks for the next committed transactions of this connection's feed. The owner reads its log
    /// for it, and keeps the position between two requests. [`Reply::Changes`].
    Changes {
        /// Begin of the feed. None goes on behind the reply before; the first request of a
        /// connection needs it.
        begin: Option<ChangesBegin>,
        /// True to acknowledge, for a consumer, all transactions that earlier replies had. Not
        /// between two parts of one transaction.
        acknowledge: bool,
        /// True to wait for the next transaction, at most some seconds, if there is none yet.
        wait: bool,
        /// At most this many transactions.
        limit: u64,
    },
    /// Asks for a copy of the database in a folder, which the owner writes. The client gets
    /// [`Reply::Copying`] frames and at last [`Reply::Copied`]. If the client ends its side of the
    /// connection before that, the copy is cancelled.
    Backup {
        /// The bytes of the folder's absolute path.
        to: Bytes,
        /// The bytes of the absolute path of the backup that this one is an increment to.
        base: Option<Bytes>,
        /// Most bytes copied per second.
        bytes_per_second: Option<NonZeroU64>,
    },
}

/// The beginning of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct ChangesBegin {
    /// `oldest`, `now`, or a [`katydid::ChangePosition`]. An existing consumer goes on after its
    /// last acknowledgement.
    pub from: String,
    /// The named consumer that reads.
    pub consumer: Option<ConsumerName>,
    /// True if former values are wanted.
    pub old: bool,
}

/// A named consumer of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerName {
    /// Its name.
    pub name: String,
    /// Maximum bytes of log that the database keeps for it, if it is made.
    pub keep: u64,
}

/// The answer to a request, or the reason why it was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// Names of tables.
    Tables(Vec<String>),
    /// The value of a key, if it has one.
    Value(Option<Bytes>),
    /// Keys and values.
    Rows {
        /// In the order that was asked for.
        rows: Vec<(Bytes, Bytes)>,
        /// True if the range may have more entries behind the last one.
        more: bool,
    },
    /// A number of keys.
    Count {
        /// Keys that were counted.
        count: u64,
        /// The last of them, if the range may have more behind it.
        last: Option<Bytes>,
    },
    /// [`katydid::Stat`] as a JSON object; its members are those of `katydid stat --json`.
    Stat(serde_json::Value),
    /// A stretch of the log.
    LogStretch {
        /// [`katydid::LogStretch`] as bytes, if more is durable.
        stretch: Option<Bytes>,
        /// Bytes of durable log behind it.
        left: u64,
    },
    /// Committed transactions in the order of their commits; empty if there are no more yet.
    Changes(Vec<Committed>),
    /// Progress of a copy.
    Copying {
        /// Bytes copied.
        done: u64,
        /// Bytes to copy, as far as that is known.
        of: u64,
    },
    /// A copy was made.
    Copied {
        /// Its id.
        id: String,
        /// See [`katydid::BackupReport::stamp`].
        stamp: u64,
        /// Bytes copied.
        bytes: u64,
        /// Microseconds that it took.
        micros: u64,
    },
    /// The request was refused.
    Refused(Refusal),
}

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The other side speaks another protocol.
    #[error("it speaks protocol {0}, and this program protocol {PROTOCOL}")]
    Protocol(u32),
    /// The request cannot be read, or is not known.
    #[error("the request is not understood: {0}")]
    Request(String),
    /// There is no such table.
    #[error("there is no table {0:?}")]
    NoTable(String),
    /// The owner serves its maximum number of clients already.
    #[error("{0} other clients are connected")]
    Busy(usize),
    /// The owner is closing the database.
    #[error("the process that has the database open closes it")]
    Closed,
    /// Reading the database failed, with this error.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_read_back() {
        let keys = (Bound::Included(Bytes(b"\xff\x00".to_vec())), Bound::Unbounded);
        let request = Request::Scan { table: "t".into(), keys, reverse: true, limit: 7 };
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(
            json,
            r#"{"scan":{"table":"t","keys":[{"Included":"ff00"},"Unbounded"],"reverse":true,"limit":7}}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request);
        let reply = Reply::Value(Some(Bytes(vec![1, 171])));
        assert_eq!(serde_json::from_str::<Reply>(&serde_json::to_string(&reply).unwrap()).unwrap(), reply);
        for bad in [r#""0""#, r#""zz""#, r#""é""#, "1"] {
            assert!(serde_json::from_str::<Bytes>(bad).is_err(), "{bad}");
        }
    }
}
