//! One case of a sweep, and what came of it.

use super::{Axis, SMALL_FOR_EACH_OUTLIER, Sweep};
use crate::host::device::Device;
use hdrhistogram::Histogram;
use katydid_wal::testing::sizes;
use katydid_wal::{InserterKind, Options};
use katydid_workload::measure::Summary;
use std::fmt;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An inserter.
    Design(InserterKind),
    /// The copies and sums alone, a ring for each thread.
    PrivateRings,
    /// The copies and sums, and one word that is added to.
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

/// See the head of [`super`].
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub sweep: Sweep,
    pub subject: Subject,
    pub threads: usize,
    /// Bytes of a record, header included.
    pub record: usize,
    pub outlier: Option<usize>,
    pub slots: usize,
    pub hop_bytes: u64,
    pub chunk_bytes: usize,
    pub ring_bytes: usize,
    pub work_ns: f64,
    /// Where the log is, if there is one.
    pub device: Option<Device>,
}

impl Case {
    /// What is on this axis.
    pub fn at(&self, axis: Axis) -> Option<f64> {
        match axis {
            Axis::Threads => Some(self.threads as f64),
            Axis::Record => Some(self.record as f64),
            Axis::Outlier => self.outlier.map(|bytes| bytes as f64),
            Axis::Slots => Some(self.slots as f64),
            Axis::HopBytes => Some(self.hop_bytes as f64),
            Axis::ChunkBytes => Some(self.chunk_bytes as f64),
            Axis::WorkMicros => Some(self.work_ns / 1e3),
        }
    }

    /// Whether it is what designs are compared with, and no design.
    pub fn is_reference(&self) -> bool {
        !matches!(self.subject, Subject::Design(_))
    }

    /// The log's options, for a design.
    pub fn options(&self, inserter: InserterKind) -> Options {
        Options {
            inserter,
            ring_bytes: self.ring_bytes,
            run_ahead_bytes: self.ring_bytes / 4,
            consolidation_slots: self.slots,
            hop_bytes: self.hop_bytes,
            chunk_bytes: self.chunk_bytes,
            ..Options::default()
        }
    }

    /// The sizes of records, for real threads.
    pub fn sizes(&self) -> sizes::Sizes {
        let (small, times) = (self.record, SMALL_FOR_EACH_OUTLIER);
        self.outlier.map_or(sizes::Sizes::Fixed(small), |large| sizes::Sizes::Bimodal { small, times, large })
    }

    /// The sizes of records, for virtual threads.
    pub fn virtual_sizes(&self) -> katydid_manycore::Sizes {
        let (small, times) = (self.record, SMALL_FOR_EACH_OUTLIER);
        self.outlier.map_or(katydid_manycore::Sizes::Fixed(small), |large| katydid_manycore::Sizes::Bimodal {
            small,
            times,
            large,
        })
    }

    /// In a few words, for whoever waits.
    pub fn words(&self) -> String {
        let device = self.device.map_or(String::new(), |device| format!(", {}", device.name()));
        format!("{}, {} threads, {} bytes{device}", self.subject, self.threads, self.record)
    }
}

/// What one run of a case found.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Records, or transactions where those are counted.
    pub records: u64,
    pub records_per_second: f64,
    pub megabytes_per_second: f64,
    /// The fewest and the most of one thread.
    pub of_one_thread: (u64, u64),
    /// Bytes that the filled frontier crawled and hopped.
    pub travelled: (u64, u64),
    /// Nanoseconds: of commits until they were told, or of the frontier's standing still.
    pub times: Option<Histogram<u64>>,
    /// The mean time between two looks at the frontier, in microseconds.
    pub look_us: Option<f64>,
    /// Appends that found no prepared segment and were tried again, where there are segments.
    pub refused: Option<u64>,
    /// What the simulation did.
    pub events: Option<u64>,
}

/// A case and all its rounds.
#[derive(Debug, Clone)]
pub struct Row {
    pub case: Case,
    /// In the order in which they ran.
    pub rounds: Vec<Figures>,
}

impl Row {
    /// The round whose rate is the median; of an even number, the lower of the two in the middle.
    pub fn median(&self) -> Option<&Figures> {
        let mut all: Vec<&Figures> = self.rounds.iter().collect();
        all.sort_by(|a, b| a.records_per_second.total_cmp(&b.records_per_second));
        all.get(all.len().saturating_sub(1) / 2).copied()
    }

    /// The rates of the slowest and of the fastest round.
    pub fn spread(&self) -> (f64, f64) {
        let rates = self.rounds.iter().map(|round| round.records_per_second);
        (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max))
    }

    /// Times of all rounds together.
    pub fn times(&self) -> Option<Summary> {
        let mut all = self.rounds.iter().filter_map(|round| round.times.as_ref());
        let mut sum = all.next()?.clone();
        // All have the same bounds, so that none is refused.
        all.for_each(|times| sum += times);
        Some(Summary::of(&sum))
    }

    /// The share of bytes that was crawled, of those that the filled frontier went.
    pub fn crawled(&self) -> Option<f64> {
        let (crawled, hopped) = self.median()?.travelled;
        (crawled + hopped > 0).then(|| crawled as f64 / (crawled + hopped) as f64)
    }
}

/// Times in nanoseconds, none told apart from a minute if it is longer.
pub fn times() -> katydid_command::failure::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST, 2).map_err(katydid_command::failure::Failure::failed)
}

const LONGEST: u64 = 60_000_000_000;
