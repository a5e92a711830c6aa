//! Errors of the client library.

use super::divergence::Divergence;
use super::frame::FrameError;
use super::message::{Refusal, TransactionId};
use super::verdict::ReplicaAnswer;
use std::net::SocketAddr;

/// The reason why a call of the client library failed, and its meaning for the transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No replica has the transaction, and none ever will.
    #[error("transaction {id} was refused: {refusal}")]
    Refused {
        /// The transaction.
        id: TransactionId,
        /// The reason of the first replica.
        refusal: Refusal,
    },
    /// Not all replicas have answered, or some committed and others may yet.
    /// [`Session::resolve`](super::Session::resolve) asks again.
    #[error("the outcome of transaction {id} is unknown: {answers:?}")]
    Unknown {
        /// The transaction, the same in every retry.
        id: TransactionId,
        /// Answer of each replica, in the order of the cluster's addresses.
        answers: Vec<ReplicaAnswer>,
    },
    /// Some replicas committed the transaction and others never will, or its reads found unequal
    /// values. The replicas differ.
    #[error("the replicas diverge in transaction {id}: {answers:?}")]
    Diverged {
        /// The transaction.
        id: TransactionId,
        /// Answer of each replica, in the order of the cluster's addresses.
        answers: Vec<ReplicaAnswer>,
    },
    /// A comparison found a difference.
    #[error(transparent)]
    Different(Box<Divergence>),
    /// The session has a transaction whose outcome is unknown. Nothing was sent.
    #[error("transaction {id} of this session is to be resolved first")]
    Unresolved {
        /// That transaction.
        id: TransactionId,
    },
    /// Another session has a transaction on the same key whose outcome is unknown. Nothing was
    /// sent.
    #[error("a key of this transaction belongs to transaction {id}, whose outcome is unknown")]
    KeyUnknown {
        /// That transaction.
        id: TransactionId,
    },
    /// Another transaction holds a key, and waiting for it could be a deadlock. Nothing was sent;
    /// the same transaction may succeed later.
    #[error("another transaction holds a key of this one")]
    KeyBusy,
    /// A replica could not be reached, or does not speak the protocol. If the call was to begin a
    /// transaction, nothing was sent.
    #[error("replica {replica} at {address}: {source}")]
    Replica {
        /// Number in the order of the cluster's addresses.
        replica: usize,
        /// Address of the replica.
        address: SocketAddr,
        /// The cause.
        source: FrameError,
    },
    /// A replica could not serve a request that was no transaction.
    #[error("replica {replica} at {address} did not serve the request: {why}")]
    Unserved {
        /// Number in the order of the cluster's addresses.
        replica: usize,
        /// Address of the replica.
        address: SocketAddr,
        /// The cause in the replica's words.
        why: String,
    },
    /// A replica does not have a transaction that was acknowledged to this session: it lost its
    /// data, or its table of answers. It must be replaced by a copy of another replica.
    #[error(
        "replica {replica} at {address} has lost transaction {sequence} of this session: it remembers {last:?}"
    )]
    ReplicaBehind {
        /// Number in the order of the cluster's addresses.
        replica: usize,
        /// Address of the replica.
        address: SocketAddr,
        /// Number of the session's last acknowledged transaction.
        sequence: u64,
        /// Number of the last one that the replica remembers.
        last: Option<u64>,
    },
    /// A cluster needs at least one replica.
    #[error("a cluster needs at least one replica")]
    NoReplicas,
    /// The transaction is longer than a frame may be. Nothing was sent.
    #[error("the transaction cannot be sent: {0}")]
    TooLong(FrameError),
}

impl Error {
    /// Returns whether no replica has the transaction and it may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::KeyBusy | Error::KeyUnknown { .. } => true,
            Error::Refused { refusal, .. } => refusal.is_retryable(),
            _ => false,
        }
    }
}

/// Result of a call of the client library.
pub type Result<T, E = Error> = std::result::Result<T, E>;
