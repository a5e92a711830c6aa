//! One case of a sweep, and its result.

use super::sweep::{SMALL_FOR_EACH_OUTLIER, Sweep};
use crate::grid::flags;
use crate::grid::row::{self, Round};
use crate::host::device::Device;
use hdrhistogram::Histogram;
use katydid_wal::testing::rate::Tally;
use katydid_wal::testing::sizes;
use katydid_wal::{FileOptions, InserterKind, Options};
use std::fmt;

/// Subject that a case measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An inserter.
    Design(InserterKind),
    /// Header, checksum and copies alone, with a ring for each thread.
    PrivateRings,
    /// Header, checksum and copies, and an addition to one shared word.
    BareWord,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Design(kind) => kind.fmt(f),
            Subject::PrivateRings => f.pad("private-rings"),
            Subject::BareWord => f.pad("bare-word"),
        }
    }
}

/// Settings of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub sweep: Sweep,
    pub subject: Subject,
    pub threads: usize,
    /// Bytes of a record, including the header.
    pub record: usize,
    pub outlier: Option<usize>,
    pub slots: usize,
    pub hop_bytes: u64,
    pub chunk_bytes: usize,
    pub ring_bytes: usize,
    pub work_ns: f64,
    /// Device of the log, if the sweep has a log.
    pub device: Option<Device>,
}

impl Case {
    /// Options of the log, for a design.
    pub fn options(&self, inserter: InserterKind) -> Options {
        Options {
            medium: FileOptions {
                inserter: flags::inserter(inserter, self.slots, self.hop_bytes, self.chunk_bytes),
                ring_bytes: self.ring_bytes,
                ..FileOptions::default()
            }
            .into(),
            run_ahead_bytes: self.ring_bytes / 4,
            ..Options::default()
        }
    }

    /// Sizes of records, for real threads.
    pub fn sizes(&self) -> sizes::Sizes {
        let (small, times) = (self.record, SMALL_FOR_EACH_OUTLIER);
        self.outlier.map_or(sizes::Sizes::Fixed(small), |large| sizes::Sizes::Bimodal { small, times, large })
    }

    /// Sizes of records, for virtual threads.
    pub fn virtual_sizes(&self) -> katydid_manycore::Sizes {
        let (small, times) = (self.record, SMALL_FOR_EACH_OUTLIER);
        self.outlier.map_or(katydid_manycore::Sizes::Fixed(small), |large| katydid_manycore::Sizes::Bimodal {
            small,
            times,
            large,
        })
    }

    /// The case in a few words, for the progress line.
    pub fn words(&self) -> String {
        let device = self.device.map_or(String::new(), |device| format!(", {}", device.name()));
        format!("{}, {} threads, {} bytes{device}", self.subject, self.threads, self.record)
    }
}

/// Result of one run of a case.
#[derive(Debug, Clone)]
pub struct Inserted {
    /// Number of records; in sweep `txn`, of transactions.
    pub records: u64,
    pub records_per_second: f64,
    pub megabytes_per_second: f64,
    /// The fewest and the most records of one thread.
    pub of_one_thread: (u64, u64),
    /// With inserter `grasshopper`: bytes by which the tracker moved the filled frontier record by
    /// record (crawling), and bytes by which it moved the frontier over whole ranges (hopping).
    pub travelled: (u64, u64),
    /// Times in nanoseconds: in sweep `txn` from commit to acknowledgement, in sweep `stall` the
    /// lengths of the frontier's standstills.
    pub times: Option<Histogram<u64>>,
    /// Mean microseconds between two looks at the frontier.
    pub look_us: Option<f64>,
    /// Number of times that an append found no prepared segment and was tried again, if the log has
    /// segments.
    pub refused: Option<u64>,
    /// Number of events of the simulation.
    pub events: Option<u64>,
}

impl Inserted {
    /// Result for a tally of real threads.
    pub fn of_tally(tally: &Tally) -> Inserted {
        Inserted {
            records: tally.records,
            records_per_second: tally.records_per_second(),
            megabytes_per_second: tally.bytes as f64 / tally.seconds / 1e6,
            of_one_thread: tally.of_one_thread,
            travelled: tally.travelled,
            times: None,
            look_us: None,
            refused: None,
            events: None,
        }
    }

    /// Share of bytes that the filled frontier passed by crawling.
    pub fn crawled(&self) -> Option<f64> {
        let (crawled, hopped) = self.travelled;
        (crawled + hopped > 0).then(|| crawled as f64 / (crawled + hopped) as f64)
    }
}

impl Round for Inserted {
    fn per_second(&self) -> f64 {
        self.records_per_second
    }

    fn times(&self) -> Option<&Histogram<u64>> {
        self.times.as_ref()
    }
}

/// A case with its rounds.
pub type Row = row::Row<Case, Inserted>;
