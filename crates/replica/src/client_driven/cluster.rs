//! The client library's view of all replicas: their addresses, and the state that all sessions
//! share.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `times` | each session | [`Cluster::times`] | relaxed: plain sums |

use super::error::{Error, Result};
use super::message::ClientId;
use super::order::KeyLocks;
use super::session::Session;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Options of the client library.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Addresses of all replicas, at least one, in the same order at every client. Their number is
    /// the replication factor.
    pub replicas: Vec<SocketAddr>,
    /// Maximum time to connect to one replica. Default: 5 s.
    pub connect_timeout: Duration,
    /// Maximum time to send a request to one replica, and to wait for the answer. Default: 30 s.
    /// After a time-out the outcome of the transaction is unknown.
    pub answer_timeout: Duration,
}

impl ClusterOptions {
    /// Makes the default options, with these replicas.
    pub fn new(replicas: Vec<SocketAddr>) -> ClusterOptions {
        ClusterOptions {
            replicas,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(30),
        }
    }
}

/// Number of acknowledged transactions, and sums of their times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientTimes {
    /// Number of acknowledged transactions.
    pub committed: u64,
    /// The client times of all transactions, added up. A transaction's client time begins before
    /// its request is sent to the first replica, and ends when the last replica has answered (the
    /// paper's trx(c)).
    pub client_ns: u64,
    /// The server times of all transactions at their slowest replicas, added up. A transaction's
    /// server time at a replica begins when the replica has decoded the request, and ends when the
    /// replica knows the outcome (the paper's trx(s)).
    pub slowest_ns: u64,
    /// The server times of all transactions, each the mean of all replicas, added up.
    pub server_ns: u64,
}

impl ClientTimes {
    /// Returns the times since `earlier`.
    pub fn since(&self, earlier: &ClientTimes) -> ClientTimes {
        ClientTimes {
            committed: self.committed - earlier.committed,
            client_ns: self.client_ns - earlier.client_ns,
            slowest_ns: self.slowest_ns - earlier.slowest_ns,
            server_ns: self.server_ns - earlier.server_ns,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Times {
    committed: AtomicU64,
    client_ns: AtomicU64,
    slowest_ns: AtomicU64,
    server_ns: AtomicU64,
}

impl Times {
    pub fn add(&self, client_ns: u64, slowest_ns: u64, server_ns: u64) {
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.client_ns.fetch_add(client_ns, Ordering::Relaxed);
        self.slowest_ns.fetch_add(slowest_ns, Ordering::Relaxed);
        self.server_ns.fetch_add(server_ns, Ordering::Relaxed);
    }
}

/// State that all sessions of a cluster share.
#[derive(Debug)]
pub(super) struct SharedCluster {
    pub options: ClusterOptions,
    pub locks: Arc<KeyLocks>,
    pub times: Times,
}

/// All replicas, as one client process uses them. Clones share one state.
///
/// Conflicting writes by sessions of one `Cluster` and its clones are ordered: all replicas apply
/// them in one order. Writes by sessions of two `Cluster`s made separately are not ordered, even if
/// both name the same replicas.
#[derive(Debug, Clone)]
pub struct Cluster {
    shared: Arc<SharedCluster>,
}

impl Cluster {
    /// Makes a cluster of these replicas, without connecting to them.
    ///
    /// # Errors
    /// [`Error::NoReplicas`].
    pub fn new(options: ClusterOptions) -> Result<Cluster> {
        if options.replicas.is_empty() {
            return Err(Error::NoReplicas);
        }
        let (locks, times) = (Arc::default(), Times::default());
        Ok(Cluster { shared: Arc::new(SharedCluster { options, locks, times }) })
    }

    /// Makes a session with a connection to every replica, for one thread.
    ///
    /// # Errors
    /// [`Error::Replica`] for the first replica that cannot be reached.
    pub fn session(&self) -> Result<Session> {
        let random = || u128::from(fastrand::u64(..));
        Session::open(&self.shared, ClientId(random() << 64 | random()))
    }

    /// Returns the addresses of the replicas.
    pub fn replicas(&self) -> &[SocketAddr] {
        &self.shared.options.replicas
    }

    /// Returns the times of all transactions acknowledged so far.
    pub fn times(&self) -> ClientTimes {
        let times = &self.shared.times;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ClientTimes {
            committed: of(&times.committed),
            client_ns: of(&times.client_ns),
            slowest_ns: of(&times.slowest_ns),
            server_ns: of(&times.server_ns),
        }
    }
}
