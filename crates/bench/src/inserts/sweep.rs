//! Sweeps: the settings that are varied when the inserters are measured, and their descriptions.
//!
//! Pure functions. A sweep has a list of values for each setting that can vary; its cases are all
//! combinations. A list of the command line replaces the sweep's own list.

use katydid_wal::InserterKind;

/// The sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    Threads,
    Size,
    SizeCached,
    Outlier,
    Slots,
    Work,
    Crawl,
    Bitmap,
    Stall,
    Limits,
    Txn,
}

/// Property that may be the x axis of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartAxis {
    Threads,
    Record,
    Outlier,
    Slots,
    HopBytes,
    ChunkBytes,
    WorkMicros,
}

/// Quantity on the y axis of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartMetric {
    /// Megabytes per second.
    Bandwidth,
    /// Records per second.
    Rate,
    /// Percentage of bytes over which the filled frontier crawled.
    Crawled,
    /// The 99th percentile of the frontier's standstills.
    Standing,
}

/// Kinds of threads on which a sweep can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    Anywhere,
    RealOnly,
}

/// Settings and description of a sweep.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    /// Purpose of the sweep.
    pub about: &'static str,
    /// Explanation of the results; may be empty.
    pub note: &'static str,
    /// Limitation of the results of virtual threads, if the model of the machine lacks something
    /// that this sweep depends on; otherwise empty.
    pub note_simulated: &'static str,
    pub runs: Threads,
    pub over: ChartAxis,
    pub metric: ChartMetric,
    pub designs: &'static [InserterKind],
    pub threads: &'static [usize],
    /// Bytes of a record, including its header.
    pub records: &'static [usize],
    /// Bytes of the large record that follows every [`SMALL_FOR_EACH_OUTLIER`] small ones.
    pub outliers: &'static [usize],
    pub slots: &'static [usize],
    pub hop_bytes: &'static [u64],
    pub work_ns: &'static [f64],
    /// Bytes of the ring, if the ring does not grow with threads and records.
    pub ring: Option<usize>,
}

const STALL_NOTE: &str = "a standstill is the time from the first look that finds the filled frontier at a position with reserved bytes \
    beyond it to the first look that finds it elsewhere. Each appender looks after every eighth of its inserts; `look` is the mean time \
    between two looks, and shorter standstills are mostly not seen. A look makes `chunked` seal its open chunks. With `mutex` hardly any \
    bytes are reserved and not filled: a preempted thread holds up the others before they reserve, which this does not show";

const LIMITS_NOTE: &str = "private-rings: each thread makes the same header, checksum and copies into a ring of its own; bare-word: one \
    thread makes the same copies and one fetch_add on a word for each record. In both, no thread computes what is filled or makes room. \
    Ratios are medians of the rounds' ratios: to private-rings, grasshopper and mutex with as many threads, and to bare-word with its one \
    thread";

const TXN_NOTE: &str = "threads append three records of the given size and a commit record of 48 bytes, and continue until --in-flight \
    commits of each thread wait to be durable; `refused` appends found no prepared segment and were tried again. Times are from the \
    commit's append to its callback. Device memory takes next to no time";

/// Number of small records for each outlier, as in Aether's Figure 11.
pub const SMALL_FOR_EACH_OUTLIER: u32 = 60;

/// Settings that most sweeps share.
const PLAIN: Spec = Spec {
    name: "",
    about: "",
    note: "",
    note_simulated: "",
    runs: Threads::Anywhere,
    over: ChartAxis::Threads,
    metric: ChartMetric::Bandwidth,
    designs: &InserterKind::ALL,
    threads: &[64],
    records: &[120],
    outliers: &[],
    slots: &[4],
    hop_bytes: &[4 << 20],
    work_ns: &[0.0],
    ring: None,
};

const POWERS: &[usize] = &[1, 2, 4, 8, 16, 32, 64];
const SIZES: &[usize] = &[48, 120, 264, 480, 1024, 1920, 4096, 12288];
/// The designs that form groups.
const GROUPING: &[InserterKind] =
    &[InserterKind::Consolidated, InserterKind::Hybrid, InserterKind::Delegated];

impl Sweep {
    /// All sweeps, in the order in which they run.
    pub const ALL: [Sweep; 11] = [
        Sweep::Threads,
        Sweep::Size,
        Sweep::SizeCached,
        Sweep::Outlier,
        Sweep::Slots,
        Sweep::Work,
        Sweep::Crawl,
        Sweep::Bitmap,
        Sweep::Stall,
        Sweep::Limits,
        Sweep::Txn,
    ];

    /// Settings and description of the sweep.
    pub fn spec(self) -> Spec {
        match self {
            Sweep::Threads => Spec {
                name: "threads",
                about: "threads that do nothing but insert (Aether, Figure 8, left)",
                threads: POWERS,
                ..PLAIN
            },
            Sweep::Size => Spec {
                name: "size",
                about: "sizes of records, into the ring (Aether, Figure 8, right)",
                over: ChartAxis::Record,
                records: SIZES,
                ..PLAIN
            },
            Sweep::SizeCached => Spec {
                name: "size-cached",
                about: "sizes of records, all copies into a buffer that stays in the cache (Aether, Figure 8, right, CD in L1)",
                note: "the buffer is a ring of 64 KiB, so the log is still correct; Aether's threads overwrote storage of their own. \
                       Reservations run ahead by at most 16 KiB, and records above 8 KiB are split",
                note_simulated: "the sizes of caches are not modelled: here the small ring only bounds how far reservations run ahead",
                over: ChartAxis::Record,
                records: SIZES,
                ring: Some(64 << 10),
                ..PLAIN
            },
            Sweep::Outlier => Spec {
                name: "outlier",
                about: "one large record after every 60 of 48 bytes (Aether, Figure 11)",
                over: ChartAxis::Outlier,
                records: &[48],
                outliers: &[64, 256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10],
                ..PLAIN
            },
            Sweep::Slots => Spec {
                name: "slots",
                about: "slots in which groups form (Aether, Figure 12)",
                over: ChartAxis::Slots,
                designs: GROUPING,
                threads: &[4, 16, 64],
                slots: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
                ..PLAIN
            },
            Sweep::Work => Spec {
                name: "work",
                about: "other work of a thread between two inserts",
                note: "the work is arithmetic on a register",
                over: ChartAxis::WorkMicros,
                threads: &[2, 64],
                work_ns: &[0.0, 200.0, 800.0, 3000.0],
                ..PLAIN
            },
            Sweep::Crawl => Spec {
                name: "crawl",
                about: "the share of bytes over which the filled frontier crawls; it hops over all other bytes (ELEDA, Figure 20)",
                metric: ChartMetric::Crawled,
                designs: &[InserterKind::Grasshopper],
                threads: POWERS,
                records: &[120, 480, 1920],
                hop_bytes: &[16 << 10, 4 << 20],
                ..PLAIN
            },
            Sweep::Bitmap => Spec {
                name: "bitmap",
                about: "a bit for each byte, compared with lists and hops (ELEDA, Figure 21)",
                designs: &[InserterKind::Bitmap, InserterKind::Grasshopper],
                threads: POWERS,
                records: &[120, 1024, 4096],
                ..PLAIN
            },
            Sweep::Stall => Spec {
                name: "stall",
                about: "how long the filled frontier stands still while bytes beyond it are reserved and not filled",
                note: STALL_NOTE,
                runs: Threads::RealOnly,
                metric: ChartMetric::Standing,
                threads: &[2, 8, 32],
                ..PLAIN
            },
            Sweep::Limits => Spec {
                name: "limits",
                about: "the inserters, compared with the same header, checksum and copy without an inserter",
                note: LIMITS_NOTE,
                runs: Threads::RealOnly,
                metric: ChartMetric::Rate,
                threads: &[1, 2],
                ..PLAIN
            },
            Sweep::Txn => Spec {
                name: "txn",
                about: "transactions of three records and a commit with a callback, on a whole log (ELEDA, Figure 16)",
                note: TXN_NOTE,
                runs: Threads::RealOnly,
                over: ChartAxis::Record,
                designs: &[
                    InserterKind::Mutex,
                    InserterKind::Hybrid,
                    InserterKind::Grasshopper,
                    InserterKind::Chunked,
                    InserterKind::Marks,
                ],
                threads: &[2, 16],
                records: &[128, 512, 1024, 2048, 4096],
                ..PLAIN
            },
        }
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}
