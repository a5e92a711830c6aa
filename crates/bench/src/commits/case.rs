//! What is measured of commits, and what came of it: the same for the log alone and for the store.

use super::raw::Raw;
use crate::host::device::Device;
use crate::host::usage::Usage;
use crate::inserts::case;
use hdrhistogram::Histogram;
use katydid::LockRelease;
use katydid_command::failure::Result;
use katydid_wal::{Counters, Durability, Form, Group, HEADER_BYTES, InserterKind, LogKind, SyncKind};
use katydid_workload::measure::Summary;
use std::fmt;
use std::time::Duration;

/// What is committed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Records of so many bytes in the log alone, each a commit.
    Log { payload: usize },
    /// Inserts of keys of 20 bytes and values of so many, each a transaction.
    Inserts { value: usize },
    /// Updates of single keys of 20 bytes with values of about 100.
    Updates,
    /// Half updates, half searches of single keys of 20 bytes with values of so many.
    UpdateSearch { value: usize },
    /// Several reads and writes of small tuples, so many of a hundred reads.
    Tuples { reads_percent: u8 },
    /// Read-only transactions of such reads, beside so many threads that write.
    Readers { writers: usize },
    /// TPC-B's transfers, tellers and accounts chosen with so much skew.
    Tpcb { skew: f64 },
    /// NewOrders and Payments of TPC-C, half each.
    Pair,
    /// sysbench's updates, a delete and an insert in each transaction, on a table with a secondary index.
    Sysbench,
}

impl Work {
    /// Its word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Work::Log { .. } => "log",
            Work::Inserts { .. } => "insert",
            Work::Updates => "update",
            Work::UpdateSearch { .. } => "update-search",
            Work::Tuples { .. } => "tuples",
            Work::Readers { .. } => "readers",
            Work::Tpcb { .. } => "tpcb",
            Work::Pair => "tpcc-pair",
            Work::Sysbench => "sysbench-write",
        }
    }

    /// Bytes of a payload or value, where they are chosen.
    pub fn payload(self) -> Option<usize> {
        match self {
            Work::Log { payload }
            | Work::Inserts { value: payload }
            | Work::UpdateSearch { value: payload } => Some(payload),
            _ => None,
        }
    }

    /// Of a hundred operations on tuples.
    pub fn reads_percent(self) -> Option<u8> {
        match self {
            Work::Tuples { reads_percent } => Some(reads_percent),
            _ => None,
        }
    }

    /// Threads that write beside those that are measured.
    pub fn writers(self) -> Option<usize> {
        match self {
            Work::Readers { writers } => Some(writers),
            _ => None,
        }
    }

    pub fn skew(self) -> Option<f64> {
        match self {
            Work::Tpcb { skew } => Some(skew),
            _ => None,
        }
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub work: Work,
    /// What it stands for in a figure that sets several systems beside each other.
    pub system: Option<&'static str>,
    /// Where its log is, if not where those of all others are.
    pub device: Option<Device>,
    /// What the log is kept in; in NVRAM it has no device, no protocol and no I/O unit.
    pub log: LogKind,
    /// Of a log in NVRAM, if they vary: for so many it has room.
    pub entries: Option<u64>,
    pub sync: SyncKind,
    pub inserter: InserterKind,
    pub threads: usize,
    /// Commits of a thread that may wait to be durable: with 1 it blocks in each.
    pub in_flight: usize,
    pub durability: Durability,
    pub release: LockRelease,
    /// Added to every durable write and sync of the log's device, or to every persist.
    pub delay: Duration,
    /// Most bytes of a write of the log, if that is limited.
    pub io_unit: Option<usize>,
    /// Streams of the memory engine's log; none: the paged engine, or the log alone.
    pub streams: Option<u16>,
    /// When a pipelined round begins, if not as the command line says.
    pub group: Option<Group>,
}

impl Case {
    /// One client that blocks, with everything else by default.
    pub fn new(work: Work) -> Case {
        Case {
            work,
            system: None,
            device: None,
            log: LogKind::Disk,
            entries: None,
            sync: SyncKind::default(),
            inserter: InserterKind::default(),
            threads: 1,
            in_flight: 1,
            durability: Durability::Durable,
            release: LockRelease::Early,
            delay: Duration::ZERO,
            io_unit: None,
            streams: None,
            group: None,
        }
    }

    /// Threads, and how many of their commits may wait.
    pub fn clients(&self) -> String {
        match self.in_flight {
            1 => self.threads.to_string(),
            many => format!("{}x{many}", self.threads),
        }
    }

    /// Bytes of a record of the log alone, where that is in NVRAM.
    pub fn record_in_nvram(&self) -> Option<u64> {
        match self.work {
            Work::Log { payload } if self.log.in_nvram() => {
                Some((HEADER_BYTES + payload).next_multiple_of(8) as u64)
            }
            _ => None,
        }
    }

    /// In a few words, for whoever waits.
    pub fn words(&self) -> String {
        let mut words = format!("{}, {}, {} clients", self.work.name(), self.sync, self.clients());
        if let Some(system) = self.system {
            words += &format!(", {system}");
        }
        if self.log.in_nvram() {
            words += &format!(", {}", self.log);
        }
        if let Some(entries) = self.entries {
            words += &format!(", {entries} entries");
        }
        if let Some(skew) = self.work.skew() {
            words += &format!(", skew {skew}, {}", self.release);
        }
        if !self.delay.is_zero() {
            words += &format!(", {}", Delay(self.delay));
        }
        if let Some(streams) = self.streams {
            words += &format!(", {streams} streams, {}, {}", self.release, self.durability);
        }
        words
    }
}

/// A delay as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay(pub Duration);

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            0 => f.pad("0"),
            nanos if nanos.is_multiple_of(1_000_000) => f.pad(&format!("{}ms", nanos / 1_000_000)),
            nanos => f.pad(&format!("{}us", nanos as f64 / 1e3)),
        }
    }
}

/// What one run of a case found.
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
    /// How the memory of a log in NVRAM persists.
    pub nvram: Option<Form>,
    /// Checkpoints that ended in the run.
    pub checkpoints: u64,
    /// Transfers of TPC-B, or transactions of TPC-C, that were added up afterwards: as many as were acknowledged.
    pub checked: Option<u64>,
    /// The device by itself, in the same round.
    pub raw: Raw,
}

impl Run {
    pub fn per_second(&self) -> f64 {
        self.commits as f64 / self.seconds.max(1e-9)
    }

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

    /// What the log counted in this run.
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

/// A case and all its rounds, in the order in which they ran; at least one.
#[derive(Debug, Clone)]
pub struct Row {
    pub case: Case,
    pub rounds: Vec<Run>,
}

impl Row {
    /// The median of something over the rounds; of an even number, the lower of the two in the middle.
    pub fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }

    /// The rates of the slowest and of the fastest round.
    pub fn spread(&self) -> (f64, f64) {
        let rates = self.rounds.iter().map(Run::per_second);
        (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max))
    }

    /// Times of all rounds together.
    pub fn times(&self) -> Result<Histogram<u64>> {
        let mut sum = case::times()?;
        // All have the same bounds, so that none is refused.
        self.rounds.iter().for_each(|round| sum += &round.times);
        Ok(sum)
    }

    pub fn summary(&self) -> Summary {
        self.times().map_or(Summary::default(), |times| Summary::of(&times))
    }

    /// The median, over the rounds, of a quantity divided by another row's in the same round.
    pub fn ratio(&self, other: &Row, of: impl Fn(&Run) -> f64) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(one, other)| of(one) / of(other).max(1e-9)))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// The row that differs from this one's case in what `change` changes, if it was run.
pub fn partner<'r>(rows: &'r [Row], row: &Row, change: impl Fn(&mut Case)) -> Option<&'r Row> {
    let mut case = row.case.clone();
    change(&mut case);
    rows.iter().find(|other| other.case == case)
}
