//! The designs, and the plan and the result of a run.

use super::keys::KeyChoice;
use super::parts::{Begin, Isolation, Latches, MemoryParts, PagedParts, Path, Points, Records, Tables};
use crate::run::{RunError, in_range};

/// The engine whose read path a design models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEngine {
    /// The paged engine.
    Paged,
    /// The memory engine.
    Memory,
}

/// A design by which transactions read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDesign {
    /// Name of the design.
    pub name: &'static str,
    /// Description of the design in words.
    pub about: &'static str,
    pub(super) parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    Paged(PagedParts),
    Memory(MemoryParts),
}

impl ReadDesign {
    /// The engine whose read path this design models.
    pub fn engine(&self) -> ReadEngine {
        match self.parts {
            Parts::Paged(_) => ReadEngine::Paged,
            Parts::Memory(_) => ReadEngine::Memory,
        }
    }
}

const fn paged(
    name: &'static str,
    about: &'static str,
    (isolation, path, tables, latches): (Isolation, Path, Tables, Latches),
) -> ReadDesign {
    ReadDesign { name, about, parts: Parts::Paged(PagedParts { isolation, path, tables, latches }) }
}

const fn memory(
    name: &'static str,
    about: &'static str,
    (begin, points, records): (Begin, Points, Records),
) -> ReadDesign {
    ReadDesign { name, about, parts: Parts::Memory(MemoryParts { begin, points, records }) }
}

/// All designs.
pub const READ_DESIGNS: [ReadDesign; 12] = [
    paged(
        "paged-root",
        "views, and a descent from the root: the paged engine's before decision 84",
        (Isolation::Registry, Path::Root, Tables::Shared, Latches::InFrame),
    ),
    paged(
        "paged-locked",
        "locks of keys, and a shortcut to the leaf: the paged engine's",
        (Isolation::Locks, Path::Route, Tables::Shared, Latches::InFrame),
    ),
    paged(
        "paged-registry",
        "paged, but all views are noted in one registry: the paged engine's before decision 91",
        (Isolation::Registry, Path::Route, Tables::Shared, Latches::InFrame),
    ),
    paged(
        "paged",
        "views, and a shortcut to the leaf: the paged engine's",
        (Isolation::OwnSlot, Path::Route, Tables::Shared, Latches::InFrame),
    ),
    paged(
        "paged-tables",
        "paged, but readers of the page tables write a word of their shard of threads",
        (Isolation::OwnSlot, Path::Route, Tables::Own, Latches::InFrame),
    ),
    paged(
        "paged-latches",
        "paged-tables, but the latches of pages are biased to readers",
        (Isolation::OwnSlot, Path::Route, Tables::Own, Latches::Biased),
    ),
    memory(
        "memory-validated",
        "transactions that may write and validate their reads: the memory engine's",
        (Begin::Write, Points::Shared, Records::Counted),
    ),
    memory("memory", "views: the memory engine's", (Begin::View, Points::Shared, Records::Counted)),
    memory(
        "memory-seen",
        "memory, but a view acknowledges only unacknowledged versions that it has seen",
        (Begin::Seen, Points::Shared, Records::Counted),
    ),
    memory(
        "memory-slots",
        "memory-seen, but a view writes no line of a slot that other threads read",
        (Begin::OwnLine, Points::Shared, Records::Counted),
    ),
    memory(
        "memory-points",
        "memory-slots, but readers of the hash table write a word of their shard of threads",
        (Begin::OwnLine, Points::Own, Records::Counted),
    ),
    memory(
        "memory-epochs",
        "memory-points, but readers announce epochs and write nothing into records",
        (Begin::OwnLine, Points::Own, Records::Epochs),
    ),
];

/// Plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadPlan {
    /// The design that runs.
    pub design: ReadDesign,
    /// Virtual threads, from 1 to 1,024.
    pub threads: usize,
    /// Distribution of the rows that are read.
    pub keys: KeyChoice,
    /// Number of rows of the table, from 1 to 10,000,000.
    pub rows: usize,
    /// Number of rows of a leaf of the paged engine, from 10 to 1,000.
    pub rows_per_leaf: usize,
    /// Bytes of a value, from 0 to 65,536.
    pub value_bytes: usize,
    /// Number of reads in each transaction, from 1 to 100,000.
    pub reads: usize,
    /// Duration of the constant part of a transaction's begin and end, in nanoseconds.
    pub begin_ns: f64,
    /// Duration of the constant part of a read, in nanoseconds.
    pub work_ns: f64,
    /// Duration of the run in simulated milliseconds.
    pub millis: f64,
    /// Seed of the rows that are read, and of two kinds of random times: the start of each thread,
    /// and the moment within a pause at which a waiting thread sees a change.
    pub seed: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadOutcome {
    /// Number of reads of all threads.
    pub reads: u64,
    /// Reads per second.
    pub per_second: f64,
    /// Number of events of the simulation.
    pub events: u64,
}

/// A read path. The functions run on the virtual thread `me`.
pub(super) trait Model {
    type Txn;

    /// Brings memory into the caches. Not measured.
    fn warm(&self, me: usize, threads: usize);
    fn begin(&self, me: usize) -> Self::Txn;
    fn read(&self, txn: &mut Self::Txn, me: usize, row: usize);
    fn end(&self, txn: Self::Txn, me: usize);
}

/// Refuses values that are out of range.
pub(super) fn check(plan: &ReadPlan) -> Result<(), RunError> {
    let ReadPlan { threads, rows, rows_per_leaf, value_bytes, reads, begin_ns, work_ns, millis, .. } = *plan;
    let whole = |field, value: usize, least: usize, most: usize, range| {
        in_range((least..=most).contains(&value), field, value as f64, range)
    };
    whole("threads", threads, 1, 1024, "from 1 to 1024")?;
    whole("rows", rows, 1, 10_000_000, "from 1 to 10000000")?;
    whole("rows of a leaf", rows_per_leaf, 10, 1000, "from 10 to 1000")?;
    whole("value", value_bytes, 0, 65_536, "from 0 to 65536 bytes")?;
    whole("reads", reads, 1, 100_000, "from 1 to 100000")?;
    in_range((0.0..=1e9).contains(&begin_ns), "begin", begin_ns, "from 0 to 1e9 ns")?;
    in_range((0.0..=1e9).contains(&work_ns), "work", work_ns, "from 0 to 1e9 ns")?;
    in_range(millis > 0.0 && millis <= 60_000.0, "millis", millis, "above 0, up to 60000")
}
