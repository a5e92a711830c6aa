//! The names of replicas and requests.
//!
//! Pure; any thread.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a replica, unique in its cluster. A replica that lost its folder comes back under a
/// new number: an old number stands for votes that were given.
pub type ReplicaId = u64;

/// Identifies a request of a client, so that a retry is applied once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId {
    /// Number of the client: what [`Replica::open_client`](crate::Replica::open_client) returned.
    pub client: u64,
    /// Number of the request, chosen by the client: 1, 2, 3 and so on. At most the latest 4,096
    /// numbers are told apart.
    pub sequence: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.sequence)
    }
}
