//! Result of one run of a case.
//!
//! Pure. Counters of servers are means over the replicas.

use crate::grid::row::{self, Round};
use crate::replication::case::Case;
use hdrhistogram::Histogram;
use katydid_replica::client_driven::{ClientTimes, ReplicaStat};

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Run {
    /// Transactions that were acknowledged.
    pub commits: u64,
    pub seconds: f64,
    /// Nanoseconds from the call of commit until it was acknowledged.
    pub times: Histogram<u64>,
    /// Times that the paper's client library counts; none with Raft.
    pub client: Option<ClientTimes>,
    /// Counters of each server during the run; none with Raft.
    pub servers: Vec<ReplicaStat>,
    /// Transactions that met another one and were run again.
    pub conflicts: u64,
    /// Rows that all replicas had afterwards, each the same.
    pub checked: u64,
}

impl Run {
    /// Mean over the servers of a quantity.
    pub fn of_servers(&self, quantity: impl Fn(&ReplicaStat) -> f64) -> Option<f64> {
        let count = self.servers.len();
        (count > 0).then(|| self.servers.iter().map(quantity).sum::<f64>() / count as f64)
    }

    /// Mean microseconds of a transaction at a server: the paper's trx(s).
    pub fn server_us(&self) -> Option<f64> {
        self.of_servers(|stat| stat.us_per_commit(stat.server_ns))
    }

    /// Mean microseconds of a transaction at the server that took longest for it.
    pub fn slowest_us(&self) -> Option<f64> {
        let times = self.client?;
        Some(times.slowest_ns as f64 / 1e3 / times.committed.max(1) as f64)
    }

    /// Mean microseconds of a transaction at the client: the paper's trx(c).
    pub fn client_us(&self) -> f64 {
        match self.client {
            Some(times) => times.client_ns as f64 / 1e3 / times.committed.max(1) as f64,
            None => self.times.mean() / 1e3,
        }
    }

    /// Mean microseconds that the client waited beyond the slowest server's own time: network, and
    /// queues for processors at both sides.
    pub fn outside_us(&self) -> Option<f64> {
        Some(self.client_us() - self.slowest_us()?)
    }
}

impl Round for Run {
    fn per_second(&self) -> f64 {
        self.commits as f64 / self.seconds.max(1e-9)
    }

    fn times(&self) -> Option<&Histogram<u64>> {
        Some(&self.times)
    }
}

/// A case and its rounds.
pub type Row = row::Row<Case, Run>;
