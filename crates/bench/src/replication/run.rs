//! Result of one run of a case.
//!
//! Pure functions. Counters of servers are means over the replicas.

use crate::grid::row::{self, Round};
use crate::replication::case::Case;
use hdrhistogram::Histogram;
use katydid_replica::client_driven::{ClientTimes, ReplicaStat};

/// Result of one run of a case.
#[derive(Debug, Clone)]
pub struct Run {
    /// Number of acknowledged transactions.
    pub commits: u64,
    pub seconds: f64,
    /// Nanoseconds from the call of commit to the acknowledgement.
    pub times: Histogram<u64>,
    /// Times that the paper's client library counts; `None` with Raft.
    pub client: Option<ClientTimes>,
    /// Counters of each server during the run; empty with Raft.
    pub servers: Vec<ReplicaStat>,
    /// Number of times that a transaction met a conflict and was run again.
    pub conflicts: u64,
    /// Number of rows that each replica had after the run. With the paper's replication, the rows
    /// were also equal on all replicas.
    pub checked: u64,
}

impl Run {
    /// Mean of a quantity over the servers.
    pub fn of_servers(&self, quantity: impl Fn(&ReplicaStat) -> f64) -> Option<f64> {
        let count = self.servers.len();
        (count > 0).then(|| self.servers.iter().map(quantity).sum::<f64>() / count as f64)
    }

    /// Mean microseconds of a transaction at a server, which is the paper's trx(s).
    pub fn server_us(&self) -> Option<f64> {
        self.of_servers(|stat| stat.us_per_commit(stat.server_ns))
    }

    /// Mean microseconds of a transaction at the slowest server of that transaction.
    pub fn slowest_us(&self) -> Option<f64> {
        let times = self.client?;
        Some(times.slowest_ns as f64 / 1e3 / times.committed.max(1) as f64)
    }

    /// Mean microseconds of a transaction at the client, which is the paper's trx(c).
    pub fn client_us(&self) -> f64 {
        match self.client {
            Some(times) => times.client_ns as f64 / 1e3 / times.committed.max(1) as f64,
            None => self.times.mean() / 1e3,
        }
    }

    /// Mean microseconds that the client waited beyond the slowest server's own time, for the
    /// network and for processors on both sides.
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

/// A case with its rounds.
pub type Row = row::Row<Case, Run>;
