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
    /// Some replicas have not answered, or have committed while others may commit later.
    /// [`Session::resolve`](super::Session::resolve) sends the transaction again.
    #[error("the outcome of transaction {id} is unknown: {answers:?}")]
    Unknown {
        /// Identity of the transaction, the same in every retry.
        id: TransactionId,
        /// Answer of each replica, in the order of the cluster's addresses.
        answers: Vec<ReplicaAnswer>,
    },
    /// The replicas differ: some committed the transaction and others never will, or the
    /// transaction's reads found unequal values.
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
    #[error("the outcome of transaction {id} of this session is unknown: resolve it first")]
    Unresolved {
        /// The transaction whose outcome is unknown.
        id: TransactionId,
    },
    /// A transaction of another session holds one of the keys, and its outcome is unknown. Nothing
    /// was sent.
    #[error("transaction {id}, whose outcome is unknown, holds the lock of a key of this transaction")]
    KeyUnknown {
        /// The transaction whose outcome is unknown.
        id: TransactionId,
    },
    /// Another transaction holds a key, and waiting for it could be a deadlock. Nothing was sent;
    /// the same transaction may succeed later.
    #[error("another transaction holds the lock of a key of this transaction")]
    KeyBusy,
    /// A replica could not be reached, or does not speak the protocol. A call that would have begun
    /// a transaction has sent nothing.
    #[error("replica {replica} at {address}: {source}")]
    Replica {
        /// Number in the order of the cluster's addresses.
        replica: usize,
        /// Address of the replica.
        address: SocketAddr,
        /// The cause.
        source: FrameError,
    },
    /// A replica could not serve a request other than a transaction.
    #[error("replica {replica} at {address} did not serve the request: {why}")]
    Unserved {
        /// Number in the order of the cluster's addresses.
        replica: usize,
        /// Address of the replica.
        address: SocketAddr,
        /// The cause in the replica's words.
        why: String,
    },
    /// A replica does not know a transaction that was acknowledged to this session. So the replica
    /// has lost its data or its table of answers. Replace the replica by a copy of another one.
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
        /// Number of the session's last transaction that the replica remembers.
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
    /// Returns whether the transaction may be run again: no replica has it, and the obstacle may
    /// pass.
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
