//! Result of one run of a case.
//!
//! Pure.

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
    /// Commits that were acknowledged; searches are too.
    pub commits: u64,
    pub seconds: f64,
    /// Processor time of the clients' threads, where that is known.
    pub clients_cpu: Option<Duration>,
    /// Nanoseconds until a commit was told, of those that were timed. Searches are not.
    pub times: Histogram<u64>,
    pub usage: Usage,
    /// The log's, before and after.
    pub counters: (Counters, Counters),
    /// Bytes that the log grew by.
    pub log_bytes: u64,
    /// Transactions that met another and were run again.
    pub conflicts: u64,
    /// Appends that found no prepared segment and were tried again.
    pub refused: u64,
    /// Kind of memory of a log in NVRAM.
    pub nvram: Option<Form>,
    /// Checkpoints that ended in the run.
    pub checkpoints: u64,
    /// Transfers of TPC-B, or transactions of TPC-C, that were added up afterwards: as many as were
    /// acknowledged.
    pub checked: Option<u64>,
    /// The device by itself, in the same round.
    pub raw: Raw,
}

impl Run {
    /// For each second of processor time of those who made them; 0 if that is not known.
    pub fn per_cpu_second(&self) -> f64 {
        self.clients_cpu.map_or(0.0, |time| self.commits as f64 / time.as_secs_f64().max(1e-9))
    }

    /// Processors that other processes kept busy.
    pub fn others(&self) -> f64 {
        self.usage.others().as_secs_f64() / self.seconds.max(1e-9)
    }

    pub fn megabytes_per_second(&self) -> f64 {
        self.log_bytes as f64 / self.seconds.max(1e-9) / 1e6
    }

    /// A counter of the log, for this run.
    pub fn counted(&self, of: fn(&Counters) -> u64) -> u64 {
        of(&self.counters.1).saturating_sub(of(&self.counters.0))
    }

    pub fn syncs(&self) -> u64 {
        self.counted(|counters| counters.syncs)
    }

    /// Microseconds.
    pub fn at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// A share of each commit.
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

/// A case and its rounds.
pub type Row = row::Row<Case, Run>;
