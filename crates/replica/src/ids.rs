//! The names of replicas and requests.
//!
//! Any thread may use these types.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a replica, unique in its cluster. A replica that lost its folder must come back under
/// a new number, because it may have voted under the old number and has forgotten that vote.
pub type ReplicaId = u64;

/// Identifier of a client's request. Replicas apply a request and its retries once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId {
    /// Number of the client, which [`Replica::open_client`](crate::Replica::open_client) returned.
    pub client: u64,
    /// Number of the request, chosen by the client: 1, 2, 3 and so on. Replicas remember the
    /// outcomes of the latest 4,096 numbers at most.
    pub sequence: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.sequence)
    }
}
