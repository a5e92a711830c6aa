//! The types of the Raft group: its entries, and the answers of the state machine to them.
//!
//! Any thread may use these types.

use crate::ids::{ReplicaId, RequestId};
use crate::runtime::Runtime;
use crate::write_set::WriteSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The request in an entry of the Raft log. Empty entries and changes of members have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Opens a session. The index of this entry becomes the client's number.
    OpenClient,
    /// Applies the writes, unless the request was answered before.
    Write { id: RequestId, set: WriteSet },
    /// Answers the request with "cancelled", unless it was answered before.
    Cancel { id: RequestId },
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::OpenClient => f.write_str("open a client"),
            Request::Write { id, set } => write!(f, "{} writes of request {id}", set.writes.len()),
            Request::Cancel { id } => write!(f, "cancel request {id}"),
        }
    }
}

/// Answer of the state machine to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Applied {
    /// An entry without a request.
    Nothing,
    /// The number of the new client.
    Client(u64),
    /// The writes are applied, by this entry or an earlier one.
    Written,
    /// The request is cancelled, by this entry or an earlier one.
    Cancelled,
    /// The client has no session.
    UnknownClient,
    /// The sequence number is too far behind the client's latest.
    TooOld,
    /// The write set is inadmissible.
    Inadmissible,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

openraft::declare_raft_types!(
    /// The types of the Raft group.
    pub(crate) Types: D = Request, R = Applied, NodeId = ReplicaId, AsyncRuntime = Runtime
);

pub(crate) type Entry = <Types as openraft::RaftTypeConfig>::Entry;
pub(crate) type LogId = openraft::alias::LogIdOf<Types>;
pub(crate) type Membership = openraft::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
pub(crate) type Vote = openraft::alias::VoteOf<Types>;
/// A leadership: a term and its leader.
pub(crate) type Leadership = openraft::alias::CommittedLeaderIdOf<Types>;
