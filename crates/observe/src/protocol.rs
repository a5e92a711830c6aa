//! Requests and replies, encoded as JSON in frames ([`crate::frame`]). Pure functions.
//!
//! In this file the owner is the process that has the database open, and serves the requests. Every
//! frame has the number of the protocol. If a frame has another number, the owner's answer is
//! [`Refusal::Protocol`], whatever the rest of the frame is. If a frame has an unknown field or
//! request, the answer is [`Refusal::Request`].

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
    /// Asks for the names of all tables, sorted. The reply is [`Reply::Tables`].
    Tables,
    /// Asks for the value of a key. The reply is [`Reply::Value`].
    Get {
        /// Name of the table.
        table: String,
        /// The key.
        key: Bytes,
    },
    /// Asks for entries in the order of their keys, as many as fit into one reply. Each reply is of
    /// one state; several replies for one range may be of different states. The reply is
    /// [`Reply::Rows`].
    Scan {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
        /// True for the order from the last key to the first.
        reverse: bool,
        /// Maximum number of entries.
        limit: u64,
    },
    /// Asks for the number of keys. The owner counts a part of the range per request. The reply is
    /// [`Reply::Count`].
    Count {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
    },
    /// Asks for positions and counters. The reply is [`Reply::Stat`].
    Stat,
    /// Asks for the stretch of the log that follows the end of an archive, and acknowledges the log
    /// up to that end. The reply is [`Reply::LogStretch`].
    LogStretch {
        /// Name of the archiver, which is made if there is none.
        archiver: String,
        /// Maximum bytes of log that the database keeps for a new archiver.
        keep: u64,
        /// End of the archive: a [`katydid::ArchiveMark`] as bytes. `None` for an empty archive.
        archived: Option<Bytes>,
        /// True to get a stretch that only notes the moment, if no more log is durable.
        note: bool,
    },
    /// Asks for the next committed transactions of this connection's feed. The owner reads them
    /// from its log, and keeps the feed's position between two requests. The reply is
    /// [`Reply::Changes`].
    Changes {
        /// Beginning of the feed, which the first request for changes on a connection needs. `None`
        /// continues after the last reply.
        begin: Option<ChangesBegin>,
        /// True to acknowledge, for a consumer, all transactions of earlier replies. The request is
        /// refused if the last reply ended inside a transaction ([`Committed::more`]).
        acknowledge: bool,
        /// True to wait for the next transaction, for at most 20 s, if there is none yet.
        wait: bool,
        /// Maximum number of transactions.
        limit: u64,
    },
    /// Asks for a copy of the database in a folder, which the owner writes. The client gets
    /// [`Reply::Copying`] frames and at last [`Reply::Copied`]. If the client ends its side of the
    /// connection before that, the copy is cancelled.
    Backup {
        /// The bytes of the folder's absolute path.
        to: Bytes,
        /// The bytes of the absolute path of the base, if the copy is to be an increment to that
        /// backup.
        base: Option<Bytes>,
        /// Maximum number of bytes copied per second.
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
    /// The named consumer of the feed; `None` for a feed without a consumer.
    pub consumer: Option<ConsumerName>,
    /// True to get former values.
    pub old: bool,
}

/// A named consumer of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerName {
    /// Name of the consumer.
    pub name: String,
    /// Maximum bytes of log that the database keeps for a new consumer.
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
        /// Entries in the requested order.
        rows: Vec<(Bytes, Bytes)>,
        /// True if the range may have more entries after the last one.
        more: bool,
    },
    /// A number of keys.
    Count {
        /// Number of counted keys.
        count: u64,
        /// The last counted key, if the range may have more keys after it.
        last: Option<Bytes>,
    },
    /// [`katydid::Stat`] as a JSON object; its members are those of `katydid stat --json`.
    Stat(serde_json::Value),
    /// A stretch of the log.
    LogStretch {
        /// [`katydid::LogStretch`] as bytes. `None` if there is nothing to archive yet.
        stretch: Option<Bytes>,
        /// Bytes of durable log after the stretch.
        left: u64,
    },
    /// Committed transactions in the order of their commits; empty if there are no more yet.
    Changes(Vec<Committed>),
    /// Progress of a copy.
    Copying {
        /// Bytes copied.
        done: u64,
        /// Bytes to copy, as far as known.
        of: u64,
    },
    /// The copy is complete.
    Copied {
        /// Id of the copy.
        id: String,
        /// See [`katydid::BackupReport::stamp`].
        stamp: u64,
        /// Bytes copied.
        bytes: u64,
        /// Duration in microseconds.
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
    #[error("it speaks protocol {0}, but this program speaks protocol {PROTOCOL}")]
    Protocol(u32),
    /// The request cannot be read, or is not known.
    #[error("the request is not understood: {0}")]
    Request(String),
    /// There is no such table.
    #[error("there is no table {0:?}")]
    NoTable(String),
    /// The owner already serves its maximum number of clients.
    #[error("{0} other clients are connected")]
    Busy(usize),
    /// The owner is closing the database.
    #[error("the process that has the database open is closing it")]
    Closed,
    /// The database could not serve the request. The text is its error.
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
