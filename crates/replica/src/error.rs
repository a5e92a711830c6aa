//! The errors of calls on a replica.
//!
//! All calls share one error type, because they fail for the same reasons. The type is `Clone`.
//! [`Error::is_unknown`] is true for errors that leave the outcome of a write open. After any other
//! error the failed call has not committed the write and never will; only a new call with the same
//! request id may commit it.

use crate::ids::{ReplicaId, RequestId};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The result of a call on a replica.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The replica is not the leader. Nothing was done; ask the leader.
    #[error("replica {replica} is not the leader{}", LeaderSuffix(leader.as_ref()))]
    NotLeader {
        /// The replica that was asked.
        replica: ReplicaId,
        /// The leader and its address, if known.
        leader: Option<(ReplicaId, String)>,
    },
    /// The replica could not confirm by a majority that it leads, or the status that
    /// [`Replica::wait_until`](crate::Replica::wait_until) waits for did not come in time. No row
    /// was changed, but [`Replica::open_client`](crate::Replica::open_client) may have opened a
    /// session. Ask again, or ask another replica.
    #[error("replica {replica} could not confirm that it leads: {reason}")]
    NoQuorum {
        /// The replica that was asked.
        replica: ReplicaId,
        /// The obstacle.
        reason: String,
    },
    /// At each try of the transaction, other transactions changed keys that it had read. The
    /// transaction has not committed. Run it again later.
    #[error("other transactions changed what the transaction had read, {tries} times in a row")]
    Conflict {
        /// Number of runs of the transaction.
        tries: u32,
    },
    /// `insert` found the key present. The transaction may go on.
    #[error("key \"{}\" exists already in table {table:?}", key.escape_ascii())]
    KeyExists {
        /// The table.
        table: String,
        /// The key.
        key: Vec<u8>,
    },
    /// The write set breaks a rule, so that no replica applies it. The write has not committed.
    #[error("the writes to table {table:?} are refused: {reason}")]
    Inadmissible {
        /// The table that the rule is about.
        table: String,
        /// The rule that the write set breaks.
        reason: Cow<'static, str>,
    },
    /// An earlier call cancelled the request: it has not committed, and never will.
    #[error("request {id} was cancelled")]
    Cancelled {
        /// The request.
        id: RequestId,
    },
    /// The replicas do not know the client: it never opened a session, or newer sessions have
    /// replaced its session. This call has not committed the request. Whether an earlier call has
    /// committed it cannot be found out any more.
    #[error("the client of request {id} has no session")]
    UnknownClient {
        /// The request.
        id: RequestId,
    },
    /// The client has since used a sequence number that is larger by 4,096 or more, so the replicas
    /// have forgotten the outcome of this request. This call has not committed the request. Whether
    /// an earlier call has committed it cannot be found out any more.
    #[error("the sequence number of request {id} is too far behind the client's latest")]
    TooOld {
        /// The request.
        id: RequestId,
    },
    /// The outcome is not known. Call [`Replica::resolve`](crate::Replica::resolve), or write again
    /// with the same id.
    #[error("whether request {id} committed is unknown: {reason}")]
    Unknown {
        /// The request to resolve.
        id: RequestId,
        /// The reason.
        reason: UnknownReason,
    },
    /// The state of the replica is older than the caller accepts.
    #[error("the replica's state {}; at most {} ms were asked for", Age(*age), max.as_millis())]
    TooStale {
        /// Age of the state, if it is known.
        age: Option<Duration>,
        /// Maximum age asked for.
        max: Duration,
    },
    /// The members could not be changed.
    #[error("the members could not be changed: {reason}")]
    Members {
        /// The reason.
        reason: String,
    },
    /// The folder belongs to another replica or another cluster.
    #[error("the folder {folder} belongs to {found}, not to {wanted}")]
    Identity {
        /// The folder.
        folder: String,
        /// Cluster and replica it belongs to.
        found: String,
        /// Cluster and replica that were asked for.
        wanted: String,
    },
    /// An option is out of its range.
    #[error("option {option}: {reason}")]
    Option {
        /// The field of the configuration.
        option: &'static str,
        /// The range of the option.
        reason: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] katydid::Error),
    /// The Raft log failed.
    #[error("Raft log: {0}")]
    Log(#[from] katydid_raft_log::Error),
    /// A row that the replica keeps for its own use cannot be decoded.
    #[error("the replica's own row {row:?} cannot be decoded: {reason}")]
    Row {
        /// The row.
        row: String,
        /// The finding of the decoder.
        reason: String,
    },
    /// A file for TLS cannot be used.
    #[error("TLS file {file}: {reason}")]
    Tls {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The operating system failed.
    #[error("{subject}: {source}")]
    Io {
        /// Subject of the call: a path, an address or a part of the replica.
        subject: String,
        /// The failure.
        source: Arc<io::Error>,
    },
    /// The replica has stopped after a failure. Its folder can be opened again.
    #[error("the replica has stopped: {reason}")]
    Stopped {
        /// The failure.
        reason: String,
    },
    /// The replica was closed.
    #[error("the replica is closed")]
    Closed,
    /// A callback made a call that waits. A callback runs on a thread that has to carry out such
    /// calls, so the call could wait for ever. Nothing was done. Make the call on another thread,
    /// or call [`Client::write_with`](crate::Client::write_with) or
    /// [`Replica::write_with`](crate::Replica::write_with), which do not wait.
    #[error("a callback made a call that waits for the callback's own thread")]
    InCallback,
}

/// A committed write that not every voter confirmed in time.
///
/// A majority of the voters has the write on its devices. The voters that did not confirm the write
/// may have it as well, or get it later. [`Committed::confirmed`](crate::Committed::confirmed)
/// returns this error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the write has committed as entry {index} of the Raft log, but {} did not confirm it in time",
    Replicas(unconfirmed)
)]
#[non_exhaustive]
pub struct NotAll {
    /// Index of the write's entry in the Raft log.
    pub index: u64,
    /// The voters that did not confirm in time that they have the entry.
    pub unconfirmed: BTreeSet<ReplicaId>,
}

/// The reason for an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownReason {
    /// The replica lost leadership with the entry in its log.
    #[error("the leader lost leadership")]
    LeadershipLost,
    /// The entry did not commit within [`WriteOptions::wait`](crate::WriteOptions::wait).
    #[error("it did not commit in time")]
    TimedOut,
    /// The replica stopped or was closed with the entry in its log, or the client that sent the
    /// write was dropped.
    #[error("the replica or the client stopped")]
    Stopped,
}

impl Error {
    /// Returns true if the transaction may have committed or may commit later.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Error::Unknown { .. })
    }

    pub(crate) fn io(subject: impl Into<String>, source: io::Error) -> Self {
        Error::Io { subject: subject.into(), source: Arc::new(source) }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

struct LeaderSuffix<'a>(Option<&'a (ReplicaId, String)>);

impl std::fmt::Display for LeaderSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some((id, address)) => write!(f, "; replica {id} at {address} is"),
            None => f.write_str("; no leader is known"),
        }
    }
}

struct Replicas<'a>(&'a BTreeSet<ReplicaId>);

impl std::fmt::Display for Replicas<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.len() == 1 { "replica" } else { "replicas" })?;
        let mut separator = " ";
        for id in self.0 {
            write!(f, "{separator}{id}")?;
            separator = ", ";
        }
        Ok(())
    }
}

struct Age(Option<Duration>);

impl std::fmt::Display for Age {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(age) => write!(f, "may be {} ms old", age.as_millis()),
            None => f.write_str("is of unknown age"),
        }
    }
}
