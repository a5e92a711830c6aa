//! Result of one run of a case.
//!
//! Pure functions.

use super::case::Case;
use crate::grid::row::{self, Round};
use crate::host::raw::Raw;
use crate::host::usage::Usage;
use hdrhistogram::Histogram;
use katydid_wal::{Counters, Form};
use std::time::Duration;

/// Result of one run of a case.
#[derive(Debug, Clone)]
pub struct Run {
    /// Number of acknowledged commits and finished searches.
    pub commits: u64,
    pub seconds: f64,
    /// Processor time of the clients' threads, if it is known.
    pub clients_cpu: Option<Duration>,
    /// Nanoseconds from the call to the acknowledgement of the timed commits. Searches are not
    /// timed. In a run that only reads, these are the times of the read-only transactions.
    pub times: Histogram<u64>,
    pub usage: Usage,
    /// The log's counters before and after the run.
    pub counters: (Counters, Counters),
    /// Bytes by which the log grew.
    pub log_bytes: u64,
    /// Number of times that a transaction met a conflict and was run again.
    pub conflicts: u64,
    /// Number of times that an append to the log alone found no prepared segment and was tried
    /// again; 0 in a run on a database.
    pub refused: u64,
    /// Form of the log's NVRAM.
    pub nvram: Option<Form>,
    /// Number of checkpoints that ended during the run.
    pub checkpoints: u64,
    /// Number of acknowledged TPC-B transfers or TPC-C transactions, if a check after the run found
    /// the database right. For TPC-C the check counts the orders and tests the consistency
    /// conditions.
    pub checked: Option<u64>,
    /// Rates of the raw device in the same round.
    pub raw: Raw,
}

impl Run {
    /// Commits per second of the clients' processor time; 0 if that time is unknown.
    pub fn per_cpu_second(&self) -> f64 {
        self.clients_cpu.map_or(0.0, |time| self.commits as f64 / time.as_secs_f64().max(1e-9))
    }

    /// Number of processors that other processes kept busy.
    pub fn others(&self) -> f64 {
        self.usage.others().as_secs_f64() / self.seconds.max(1e-9)
    }

    pub fn megabytes_per_second(&self) -> f64 {
        self.log_bytes as f64 / self.seconds.max(1e-9) / 1e6
    }

    /// Growth of a log counter during the run.
    pub fn counted(&self, of: fn(&Counters) -> u64) -> u64 {
        of(&self.counters.1).saturating_sub(of(&self.counters.0))
    }

    pub fn syncs(&self) -> u64 {
        self.counted(|counters| counters.syncs)
    }

    /// Quantile of the commit times, in microseconds.
    pub fn at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// `of` divided by the number of commits.
    pub fn per_commit(&self, of: f64) -> f64 {
        of / self.commits.max(1) as f64
    }

    pub fn per_sync(&self, of: f64) -> f64 {
        match self.syncs() {
            0 => 0.0,
            syncs => of / syncs as f64,
        }
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
