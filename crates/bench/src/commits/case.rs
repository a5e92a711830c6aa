//! Cases of commits, for the log alone and for the store.
//!
//! Pure functions.

use crate::host::device::Device;
use katydid::{Contention, LockRelease, OldVersions};
use katydid_wal::{Durability, Group, HEADER_BYTES, Heuristic, InserterKind, LogKind, SyncKind};
use std::fmt;
use std::time::Duration;

/// Work of a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Records of `payload` bytes in the log alone. Each record is a commit.
    Log { payload: usize },
    /// Inserts of keys of 20 bytes and values of `value` bytes, each a transaction.
    Inserts { value: usize },
    /// Updates of single keys of 20 bytes with values of about 100 bytes.
    Updates,
    /// Half updates and half searches of single keys of 20 bytes with values of `value` bytes.
    UpdateSearch { value: usize },
    /// Several reads and writes of small tuples; `reads_percent` percent of them are reads.
    Tuples { reads_percent: u8 },
    /// Read-only transactions on tuples, beside `writers` threads that write.
    Readers { writers: usize },
    /// TPC-B's transfers. `skew` applies to the choice of tellers and accounts.
    Tpcb { skew: f64 },
    /// NewOrders and Payments of TPC-C, half each.
    Pair,
    /// Two updates, a delete and an insert in each transaction, on sysbench's table with a
    /// secondary index.
    Sysbench,
}

impl Work {
    /// The workload's name in tables.
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

    /// Bytes of a payload or value, if the workload lets the user choose them.
    pub fn payload(self) -> Option<usize> {
        match self {
            Work::Log { payload }
            | Work::Inserts { value: payload }
            | Work::UpdateSearch { value: payload } => Some(payload),
            _ => None,
        }
    }

    /// Percentage of reads among operations on tuples.
    pub fn reads_percent(self) -> Option<u8> {
        match self {
            Work::Tuples { reads_percent } => Some(reads_percent),
            _ => None,
        }
    }

    /// Number of threads that write beside the measured threads.
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
    /// Name of the case's system, in a figure that compares several systems.
    pub system: Option<&'static str>,
    /// Device of the case's log; `None` for the device of the figure or of the command line.
    pub device: Option<Device>,
    /// Kind of the log. A log in NVRAM has no device, no protocol and no I/O unit.
    pub log: LogKind,
    /// Number of entries of a log in NVRAM, if the figure varies it.
    pub entries: Option<u64>,
    pub sync: SyncKind,
    pub inserter: InserterKind,
    /// Number of slots of the consolidation array, for appends and for syncs, if it differs from
    /// the command line's.
    pub slots: Option<u32>,
    pub threads: usize,
    /// Maximum number of a thread's commits that wait to be durable. With 1 the thread blocks in
    /// each commit.
    pub in_flight: usize,
    pub durability: Durability,
    pub release: LockRelease,
    /// The memory engine's rule for conflicts.
    pub contention: Contention,
    /// The memory engine's rule by which it keeps old versions.
    pub old_versions: OldVersions,
    /// Time added to every durable write and sync of the log's device, or to every persist.
    pub delay: Duration,
    /// Bytes of the log's ring, unless the command line gives another number; the run-ahead limit
    /// is half of the ring. `None` for the ring of the command line or the log's default, with a
    /// limit of a quarter of the ring.
    pub ring: Option<usize>,
    /// Maximum bytes of a write of the log, if limited.
    pub io_unit: Option<usize>,
    /// Number of streams of the memory engine's log. `None` for the paged engine, or the log alone.
    pub streams: Option<u16>,
    /// Numbers of commits, bytes and microseconds after which `pipelined` or `inline` begins a
    /// write, if they differ from the command line's.
    pub group: Option<Group>,
    /// Heuristic that is switched off in the protocol.
    pub without: Option<Heuristic>,
}

impl Case {
    /// A case with one blocking client and default settings.
    pub fn new(work: Work) -> Case {
        Case {
            work,
            system: None,
            device: None,
            log: LogKind::Disk,
            entries: None,
            sync: SyncKind::default(),
            inserter: InserterKind::default(),
            slots: None,
            threads: 1,
            in_flight: 1,
            durability: Durability::Durable,
            release: LockRelease::Early,
            contention: Contention::default(),
            old_versions: OldVersions::default(),
            delay: Duration::ZERO,
            ring: None,
            io_unit: None,
            streams: None,
            group: None,
            without: None,
        }
    }

    /// Numbers of threads and of each thread's commits in flight, in words.
    pub fn clients(&self) -> String {
        match self.in_flight {
            1 => self.threads.to_string(),
            many => format!("{}x{many}", self.threads),
        }
    }

    /// Bytes of a record, for a case of the log alone in NVRAM.
    pub fn record_in_nvram(&self) -> Option<u64> {
        match self.work {
            Work::Log { payload } if self.log.in_nvram() => {
                Some((HEADER_BYTES + payload).next_multiple_of(8) as u64)
            }
            _ => None,
        }
    }

    /// The case in a few words, for the progress line.
    pub fn words(&self) -> String {
        let mut words = format!("{}, {}, {} clients", self.work.name(), self.sync, self.clients());
        if let Some(system) = self.system {
            words += &format!(", {system}");
        }
        if let Some(heuristic) = self.without {
            words += &format!(", without {heuristic}");
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

/// A delay in the format of the command line.
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
