//! The report of `Database::stat`: counters and positions, read without stopping anything.

use crate::Lsn;
use crate::contested::Contested;
use crate::ids::TxnId;
use katydid_device::nvram::Form;
use katydid_device::{Method, Stalls};
use katydid_wal::LogKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// Reason why the oldest part of the log is not trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pin {
    /// Recovery would begin at the last checkpoint. The next checkpoint moves this position.
    Checkpoint(Lsn),
    /// A changed page is not yet written in place. Writing the page moves this position.
    DirtyPage(Lsn),
    /// A transaction has not ended. The position is that of its first record.
    Transaction(TxnId, Lsn),
}

impl Pin {
    /// Returns the oldest position that must be kept.
    pub fn lsn(&self) -> Lsn {
        match self {
            Pin::Checkpoint(lsn) | Pin::DirtyPage(lsn) | Pin::Transaction(_, lsn) => *lsn,
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pin::Checkpoint(lsn) => write!(f, "the checkpoint at {lsn}"),
            Pin::DirtyPage(lsn) => write!(f, "a page changed at {lsn} and not yet written"),
            Pin::Transaction(txn, lsn) => write!(f, "transaction {txn}, active since {lsn}"),
        }
    }
}

/// Latencies of one operation since the database was opened. Quantiles are at most an eighth too
/// large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// Number of operations.
    pub count: u64,
    /// Half of the operations took at most this time.
    pub p50: Duration,
    /// 99 of 100 operations took at most this time.
    pub p99: Duration,
    /// 999 of 1,000 operations took at most this time.
    pub p999: Duration,
    /// The longest time of an operation.
    pub max: Duration,
}

/// A transaction that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenTransaction {
    /// The transaction's number.
    pub txn: TxnId,
    /// The time since the transaction began.
    pub age: Duration,
    /// The line of the program that began the transaction, directly or by a call such as
    /// [`Database::transact`](crate::Database::transact).
    pub origin: &'static Location<'static>,
}

/// A transaction that waits for other transactions now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingTransaction {
    /// The transaction's number.
    pub txn: TxnId,
    /// The part of a table that the transaction wants to read or write. Its field `holder_open` is
    /// the age of the first of `blockers`.
    pub wanted: Contested,
    /// The transactions that this transaction waits for: the holders of the keys, and the
    /// transactions that wait ahead of it.
    pub blockers: Vec<TxnId>,
}

/// Positions and counters of an open database. Counters count from its opening on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stat {
    /// Number of tables.
    pub tables: u64,
    /// Number of transactions that have begun to write and not ended.
    pub transactions_active: u64,
    /// Number of committed transactions that had written something.
    pub commits: u64,
    /// Number of rolled-back transactions that had written something.
    pub rollbacks: u64,
    /// Number of calls that failed with `Error::Conflict`.
    pub conflicts: u64,
    /// Number of completed checkpoints.
    pub checkpoints: u64,
    /// Latency of commits of transactions that had written something: from the call until the
    /// commit was acknowledged. Buffered commits, which wait for nothing, are not measured.
    pub commit_latency: Latencies,
    /// The open transactions, the oldest first. A committing transaction is open until the call
    /// that commits it returns.
    pub transactions_open: Vec<OpenTransaction>,
    /// The open transactions that wait for other transactions now, ordered by their numbers.
    pub waiting: Vec<WaitingTransaction>,
    /// Durations of the waits of transactions for other transactions: for locks in the paged
    /// engine, for a commit under way in the memory engine. Waits that ended in an error are
    /// included, waits under way are not.
    pub wait_time: Latencies,
    /// Device calls that took longer than the log option `stall_after`, and the call that does so
    /// at present.
    pub stalls: Stalls,
    /// Statistics that only this engine has.
    pub engine: EngineStat,
    /// Positions and counters of the log.
    pub log: LogStat,
}

impl Stat {
    /// Returns the statistics of the paged engine; `None` for the memory engine.
    pub fn paged(&self) -> Option<&PagedStat> {
        match &self.engine {
            EngineStat::Paged(paged) => Some(paged),
            EngineStat::Memory(_) => None,
        }
    }

    /// Returns the statistics of the memory engine; `None` for the paged engine.
    pub fn memory(&self) -> Option<&MemoryStat> {
        match &self.engine {
            EngineStat::Paged(_) => None,
            EngineStat::Memory(memory) => Some(memory),
        }
    }
}

/// Positions and counters that only one engine has.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EngineStat {
    /// Statistics of the paged engine.
    Paged(PagedStat),
    /// Statistics of the memory engine.
    Memory(MemoryStat),
}

/// Statistics of the paged engine: locks, pages and their cache.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PagedStat {
    /// Number of lock requests that had to wait.
    pub lock_waits: u64,
    /// Number of lock waits that were ended to break a deadlock.
    pub deadlocks: u64,
    /// Position at which the last completed checkpoint began.
    pub checkpoint_lsn: Lsn,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of pages of the database file, free pages included.
    pub pages: u64,
    /// Number of free pages of the database file.
    pub pages_free: u64,
    /// Method of reading and writing pages:
    /// [`PagedOptions::page_method`](crate::PagedOptions::page_method), or the method to which it
    /// fell back.
    pub page_method: Method,
    /// Number of pages that the cache has room for.
    pub cache_pages: u64,
    /// Bytes of memory that this process was allowed to use when it opened the database. The cache
    /// is a share of these bytes. `None` if
    /// [`PagedOptions::cache_bytes`](crate::PagedOptions::cache_bytes) gave the size, or if the
    /// system does not report its memory.
    pub cache_share_of: Option<u64>,
    /// Number of pages in the cache.
    pub cached: u64,
    /// Number of pages in the cache that differ from the device.
    pub dirty: u64,
    /// Number of pages read from the device, or from the system's page cache.
    pub cache_misses: u64,
    /// Number of pages evicted from the cache.
    pub evicted: u64,
    /// Number of batches of pages that a transaction had to write itself to make room in the cache.
    pub forced: u64,
    /// Number of pages written in place.
    pub pages_written: u64,
    /// Number of open read views (transactions with [`Access::ReadOnly`](crate::Access::ReadOnly)).
    pub views: u64,
    /// Bytes of old values and their keys kept for views. Old values that open transactions keep,
    /// and that no view needs yet, are counted in steps of 64 KiB.
    pub view_bytes: u64,
    /// Maximum of `view_bytes` (`PagedOptions::view_bytes_max`).
    pub view_bytes_max: u64,
    /// Number of views that were given up because `view_bytes` was above its maximum.
    pub views_given_up: u64,
    /// The oldest open view, if there is one.
    pub oldest_view: Option<OldestView>,
}

/// The oldest open read view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestView {
    /// Time since the view was opened.
    pub age: Duration,
}

/// Statistics of the memory engine: records and their versions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryStat {
    /// Bytes of keys, values and their bookkeeping, old versions included.
    pub used_bytes: u64,
    /// Maximum of `used_bytes` (`MemoryOptions::memory_bytes`).
    pub limit_bytes: u64,
    /// Number of keys, including deleted keys that are not removed yet.
    pub records: u64,
    /// Number of replaced versions that are not removed yet.
    pub versions_old: u64,
    /// Number of pauses of transactions after a conflict ([`Contention`](crate::Contention)).
    pub pauses: u64,
    /// The oldest open transaction, if old versions are kept for it.
    pub held_by: Option<TxnId>,
    /// Number of the last complete checkpoint; zero if there is none yet.
    pub checkpoint: u64,
}

/// Positions in one stream of the log. The paged engine's log has one stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamStat {
    /// The oldest position that is kept.
    pub start: Lsn,
    /// All log below this position is on the device.
    pub durable: Lsn,
    /// All log below this position was handed to the operating system.
    pub written: Lsn,
    /// All log below this position is in memory without holes.
    pub filled: Lsn,
    /// The end of the log.
    pub reserved: Lsn,
}

/// Positions and counters of the log; counters are sums over its streams.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogStat {
    /// Positions in each stream.
    pub streams: Vec<StreamStat>,
    /// Medium of the log.
    pub kind: LogKind,
    /// Method of writing the log: the log option `method`, or the method to which it fell back.
    pub method: Method,
    /// Kind of the memory that a log in NVRAM lies in. A figure that was measured on such a log
    /// must name this kind. `None` for logs in files.
    pub nvram: Option<Form>,
    /// Used part of a log in NVRAM, in per mille of the bytes that writes may use, in the fullest
    /// stream. `None` for logs in files.
    pub fullness: Option<u32>,
    /// Reason why the oldest part of the log is not trimmed.
    pub pinned_by: Pin,
    /// Bytes of log between the first position that the database needs and the end.
    pub bytes: u64,
    /// Bytes of log that only pins keep, for example the pin of a backup. These bytes lie below the
    /// first position that the database needs.
    pub pinned_bytes: u64,
    /// The named consumers.
    pub consumers: Vec<katydid_wal::ConsumerStat>,
    /// Soft limit in bytes: above it checkpoints run one after the other. Without meaning for a log
    /// in NVRAM.
    pub soft_bytes: u64,
    /// Hard limit in bytes: above it writes are refused with `Error::LogFull`. Without meaning for
    /// a log in NVRAM.
    pub hard_bytes: u64,
    /// Number of durable writes and syncs issued.
    pub syncs: u64,
    /// Bytes of the log that these writes and syncs made durable.
    pub bytes_synced: u64,
    /// Bytes handed to the device, rewritten partial blocks included.
    pub bytes_written: u64,
    /// Number of blocked committers that another thread's sync released.
    pub released: u64,
    /// Number of times that a background thread of the log woke up.
    pub wakeups: u64,
    /// Bytes of all log files, including files kept for reuse.
    pub bytes_on_disk: u64,
    /// Bytes of log space prepared for later records.
    pub prepared: u64,
    /// Incarnation of the log: the number of its openings.
    pub incarnation: u32,
    /// All counters of the log.
    pub counters: katydid_wal::Counters,
}

impl LogStat {
    /// Returns the bytes appended since the log was created: the sum of the ends of its streams.
    pub fn appended(&self) -> u64 {
        self.streams.iter().map(|stream| stream.reserved.get()).sum()
    }
}
