//! Messages between replicas, and their encoding as frames.
//!
//! Any thread may use these pure functions. A connection begins with a [`Hello`] and a
//! [`Greeting`]; the connection's purpose decides which messages follow. Contents are MessagePack,
//! as in the Raft log, because openraft's types have an encoding that `serde` derives. Fields are
//! written with their names, so that old messages stay readable when a type gains fields.

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

/// Version of the protocol. In version 1, a client's connection had one call at a time.
pub(crate) const PROTOCOL: u16 = 2;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Calls, each with its reply before the next call: [`Call`], [`Reply`].
    Calls,
    /// Pipelined appends: each [`Append`] is answered by an [`Appended`], in the order of the
    /// appends.
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
    /// Milliseconds since a majority last confirmed the leader. `None` if no majority has done so,
    /// or if the state at the committed index may lack an acknowledged write (`peer::age_ms`).
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

/// Ends a snapshot, and states its number of rows.
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

/// Gives each type of message its number.
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

/// A frame cannot be decoded as the message that was due.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the frame is no {wanted}: {reason}")]
pub(crate) struct Malformed {
    wanted: &'static str,
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::PAYLOAD_BYTES_MAX;
    use crate::ids::RequestId;
    use crate::types::{Entry, Leadership, LogId, Request};
    use crate::write_set::{WRITE_SET_BYTES_MAX, Write, WriteSet};
    use openraft::EntryPayload;

    /// Bytes of smaller entries that a leader may send before a large one in the same append.
    const BEFORE: usize = 1 << 20;

    /// A longer frame could not be sent, so the group would be stuck at the entry.
    #[test]
    fn the_append_of_each_admissible_write_set_fits_a_frame() {
        let (table, key) = ("table".to_owned(), vec![1; 4]);
        let changes = [
            Write::Put { table: table.clone(), key: key.clone(), value: vec![] },
            Write::Delete { table: table.clone(), key },
            Write::CreateTable { table },
            Write::Put { table: "n".repeat(255), key: vec![1; 300], value: vec![2; 1 << 16] },
        ];
        for change in changes {
            let set = |changes| WriteSet { writes: vec![change.clone(); changes] };
            let most = WRITE_SET_BYTES_MAX / set(1).bytes();
            assert!(set(most).check().is_ok() && set(most + 1).check().is_err());
            let id = RequestId { client: u64::MAX, sequence: u64::MAX };
            let log_id = LogId::new(Leadership { term: u64::MAX, node_id: u64::MAX }, u64::MAX);
            let payload = EntryPayload::Normal(Request::Write { id, set: set(most) });
            let request = AppendEntriesRequest::<Types> {
                vote: Vote::new_committed(u64::MAX, u64::MAX),
                prev_log_id: Some(log_id),
                leader_commit: Some(log_id),
                entries: vec![Entry { log_id, payload }],
            };
            let bytes = Append { request, age_ms: Some(u64::MAX) }.to_frame().expect("encode").payload.len();
            let room = PAYLOAD_BYTES_MAX - BEFORE;
            assert!(bytes <= room, "{most} changes of table {:?} take {bytes} bytes", change.table());
        }
    }
}
