//! Messages between replicas, and their encoding as frames.
//!
//! Pure; any thread. A connection begins with a [`Hello`] and a [`Greeting`]; its purpose says
//! which messages follow. Contents are MessagePack with field names, as in the Raft log: openraft's
//! types are described by `serde`, and a format that names fields survives that types gain some.

use crate::frame::Frame;
use crate::ids::ReplicaId;
use crate::store::Row;
use crate::types::{SnapshotMeta, Types, Vote};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of what connections say.
pub(crate) const PROTOCOL: u16 = 1;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Calls: one [`Call`], one [`Reply`], and so on.
    Calls,
    /// Appends that do not wait for each other's answers: [`Append`] one way, [`Appended`] the
    /// other, in the same order.
    Appends,
    /// One snapshot: [`SnapshotBegin`], [`SnapshotRows`], [`SnapshotEnd`], and a [`SnapshotReply`].
    Snapshot,
}

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub protocol: u16,
    pub cluster: [u8; 16],
    pub from: ReplicaId,
    pub to: ReplicaId,
    pub purpose: Purpose,
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Greeting {
    Welcome,
    /// The connection is refused, for this reason.
    Refused(String),
}

/// A call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    Append(Append),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    TransferLeader(TransferLeaderRequest<Types>),
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Append(AppendEntriesResponse<Types>),
    Vote(VoteResponse<Types>),
    PreVote(VoteResponse<Types>),
    TransferLeader(TransferLeaderResponse<Types>),
    /// The replica could not answer.
    Failed(String),
}

/// Entries for a follower.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub request: AppendEntriesRequest<Types>,
    /// Milliseconds since a majority last confirmed the leader; none if no majority has.
    pub age_ms: Option<u64>,
}

/// The answer to an [`Append`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Appended(pub StreamAppendResult<Types>);

/// Begins a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    pub vote: Vote,
    pub meta: SnapshotMeta,
}

/// Rows of one table of a snapshot.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotRows {
    pub table: String,
    pub rows: Vec<Row>,
}

/// Ends a snapshot: how many rows it has.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotEnd {
    pub rows: u64,
}

/// The answer to a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SnapshotReply {
    Installed(SnapshotResponse<Types>),
    Failed(String),
}

/// A message, and the kind of its frames.
pub(crate) trait Message: Serialize + DeserializeOwned {
    const KIND: u8;
    const NAME: &'static str;

    fn to_frame(&self) -> Result<Frame, Malformed> {
        match rmp_serde::to_vec_named(self) {
            Ok(bytes) => Ok(Frame { kind: Self::KIND, payload: bytes.into() }),
            Err(error) => Err(Malformed { wanted: Self::NAME, reason: error.to_string() }),
        }
    }

    fn from_frame(frame: &Frame) -> Result<Self, Malformed> {
        let failed = |reason| Malformed { wanted: Self::NAME, reason };
        if frame.kind != Self::KIND {
            return Err(failed(format!("its kind is {}", frame.kind)));
        }
        rmp_serde::from_slice(&frame.payload).map_err(|error| failed(error.to_string()))
    }
}

/// Names the kinds of messages.
macro_rules! messages {
    ($($kind:literal $message:ident)*) => {
        $(impl $crate::message::Message for $message {
            const KIND: u8 = $kind;
            const NAME: &'static str = stringify!($message);
        })*
    };
}

pub(crate) use messages;

messages! {
    1 Hello 2 Greeting
    10 Call 11 Reply
    20 Append 21 Appended
    30 SnapshotBegin 31 SnapshotRows 32 SnapshotEnd 33 SnapshotReply
}

/// A frame is not the message that was due.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the frame is no {wanted}: {reason}")]
pub(crate) struct Malformed {
    wanted: &'static str,
    reason: String,
}
