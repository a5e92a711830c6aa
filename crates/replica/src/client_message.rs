//! Messages between clients and replicas.
//!
//! Any thread may use these pure functions. A client's connection begins with a [`ClientHello`] and
//! a [`Greeting`](crate::message::Greeting); then the replica answers each [`NumberedCall`] with
//! one [`NumberedReply`]. The client may send further calls before the reply, and replies come in
//! any order. A failed call is answered with a [`Refusal`]. The client turns the refusal into the
//! [`Error`] that the same call of [`Replica`](crate::Replica) would have returned.

use crate::error::{Error, UnknownReason};
use crate::ids::{ReplicaId, RequestId};
use crate::message::messages;
use crate::status::Status;
use crate::store::Row;
use crate::write_set::WriteSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Maximum number of rows that one call of a client gets.
pub(crate) const ROWS_MAX: u32 = 10_000;
/// Bytes of rows after which the answer to a client's range call ends.
pub(crate) const ROWS_BYTES: usize = 4 << 20;

/// The first message of a client's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientHello {
    pub protocol: u16,
    /// Cluster that the client wants; `None` if the client accepts any cluster.
    pub cluster: Option<[u8; 16]>,
}

/// The state that a read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReadAt {
    /// A state with every write that was acknowledged before the read began. The leader answers,
    /// and confirms by a majority that it leads.
    Leader,
    /// A state as for [`ReadAt::Leader`], if no replica's clock runs twice as fast as another's.
    /// All replicas must have the same
    /// [`ReplicaOptions::election`](crate::ReplicaOptions::election). The leader asks no other
    /// replica if a majority has confirmed within the last two fifths of that time that it leads.
    /// Otherwise the leader asks a majority, as for `Leader`.
    Lease,
    /// A state that was current at most this long ago. Any replica that has such a state answers,
    /// without asking another replica.
    Stale(Duration),
    /// The state that the asked replica has applied, of any age.
    Applied,
}

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientCall {
    Status,
    OpenClient,
    Write { id: RequestId, set: WriteSet, all: bool, wait_ms: u64 },
    Resolve { id: RequestId },
    Get { table: String, key: Key, at: ReadAt },
    Range { table: String, low: Bound<Key>, high: Bound<Key>, limit: u32, at: ReadAt },
    Initialize { members: BTreeMap<ReplicaId, String> },
    AddLearner { id: ReplicaId, address: String },
    ChangeVoters { voters: BTreeSet<ReplicaId> },
    TransferLeader { to: ReplicaId },
    Snapshot,
}

/// A call as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberedCall {
    /// Number that the client chooses. No other call of the connection has it.
    pub number: u64,
    pub call: ClientCall,
}

/// A reply as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberedReply {
    /// Number of the call.
    pub number: u64,
    pub reply: ClientReply,
}

/// A key, encoded as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key(#[serde(with = "serde_bytes")] pub(crate) Vec<u8>);

/// The answer to a [`ClientCall`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientReply {
    Status(Status),
    Client(u64),
    Committed {
        index: u64,
        unconfirmed: BTreeSet<ReplicaId>,
    },
    /// True if the request has committed, false if it never will.
    Resolved(bool),
    Value(Option<serde_bytes::ByteBuf>),
    /// Rows in key order, and whether the range has no further rows.
    Rows {
        rows: Vec<Row>,
        is_whole: bool,
    },
    Done,
    Refused(Refusal),
}

messages! { 3 ClientHello 42 NumberedCall 43 NumberedReply }

/// The encoded form of an [`Error`]. Kinds of errors that a client does not distinguish become
/// [`Refusal::Stopped`] with a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    NotLeader { replica: ReplicaId, leader: Option<(ReplicaId, String)> },
    NoQuorum { replica: ReplicaId, reason: String },
    Inadmissible { table: String, reason: String },
    Cancelled { id: RequestId },
    UnknownClient { id: RequestId },
    TooOld { id: RequestId },
    Unknown { id: RequestId, reason: Unknown },
    TooStale { age: Option<Duration>, max: Duration },
    Members { reason: String },
    Stopped { reason: String },
    Closed,
}

/// The encoded form of an [`UnknownReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unknown {
    LeadershipLost,
    TimedOut,
    Stopped,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotLeader { replica, leader } => Refusal::NotLeader { replica, leader },
            Error::NoQuorum { replica, reason } => Refusal::NoQuorum { replica, reason },
            Error::Inadmissible { table, reason } => {
                Refusal::Inadmissible { table, reason: reason.into_owned() }
            }
            Error::Cancelled { id } => Refusal::Cancelled { id },
            Error::UnknownClient { id } => Refusal::UnknownClient { id },
            Error::TooOld { id } => Refusal::TooOld { id },
            Error::Unknown { id, reason } => Refusal::Unknown {
                id,
                reason: match reason {
                    UnknownReason::LeadershipLost => Unknown::LeadershipLost,
                    UnknownReason::TimedOut => Unknown::TimedOut,
                    UnknownReason::Stopped => Unknown::Stopped,
                },
            },
            Error::TooStale { age, max } => Refusal::TooStale { age, max },
            Error::Members { reason } => Refusal::Members { reason },
            // A snapshot has replaced the state, or the replica is closed. The client tries again:
            // it then finds the new state, or asks another replica.
            Error::Closed | Error::Engine(katydid::Error::Closed) => Refusal::Closed,
            error => Refusal::Stopped { reason: error.to_string() },
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotLeader { replica, leader } => Error::NotLeader { replica, leader },
            Refusal::NoQuorum { replica, reason } => Error::NoQuorum { replica, reason },
            Refusal::Inadmissible { table, reason } => Error::Inadmissible { table, reason: reason.into() },
            Refusal::Cancelled { id } => Error::Cancelled { id },
            Refusal::UnknownClient { id } => Error::UnknownClient { id },
            Refusal::TooOld { id } => Error::TooOld { id },
            Refusal::Unknown { id, reason } => Error::Unknown {
                id,
                reason: match reason {
                    Unknown::LeadershipLost => UnknownReason::LeadershipLost,
                    Unknown::TimedOut => UnknownReason::TimedOut,
                    Unknown::Stopped => UnknownReason::Stopped,
                },
            },
            Refusal::TooStale { age, max } => Error::TooStale { age, max },
            Refusal::Members { reason } => Error::Members { reason },
            Refusal::Stopped { reason } => Error::Stopped { reason },
            Refusal::Closed => Error::Closed,
        }
    }
}
