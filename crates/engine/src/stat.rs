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
    /// Recovery would begin at the last checkpoint; the next one moves it.
    Checkpoint(Lsn),
    /// A changed page that is not yet written to its place; the page writer moves it.
    DirtyPage(Lsn),
    /// A transaction that has not ended; its first record.
    Transaction(TxnId, Lsn),
}

impl Pin {
    /// The oldest position that must be kept.
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
    /// Half of them took at most this long.
    pub p50: Duration,
    /// 99 of 100 took at most this long.
    pub p99: Duration,
    /// 999 of 1,000 took at most this long.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// A transaction that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenTransaction {
    /// Its number.
    pub txn: TxnId,
    /// The time since it began.
    pub age: Duration,
    /// The line of the program that began it, directly or by a call such as
    /// [`Database::transact`](crate::Database::transact).
    pub origin: &'static Location<'static>,
}

/// A transaction that waits for others now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingTransaction {
    /// Its number.
    pub txn: TxnId,
    /// The part of a table that it wants to read or write. `holder_open` is the age of the first of
    /// `blockers`.
    pub wanted: Contested,
    /// The transactions it waits for: the holders, and those that wait before it.
    pub blockers: Vec<TxnId>,
}

/// Positions and counters of an open database. Counters count since it was opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stat {
    /// Number of tables.
    pub tables: u64,
    /// Transactions that have begun to write and not ended.
    pub transactions_active: u64,
    /// Transactions committed that had written something.
    pub commits: u64,
    /// Transactions rolled back that had written something.
    pub rollbacks: u64,
    /// Calls that failed with `Error::Conflict`.
    pub conflicts: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Latency of commits of transactions that had written something: from the call until the
    /// commit was acknowledged. Buffered commits, which wait for nothing, are not measured.
    pub commit_latency: Latencies,
    /// The open transactions, the oldest first. One that is committing is open until the call
    /// returns.
    pub transactions_open: Vec<OpenTransaction>,
    /// The open transactions that wait for others now, by their numbers.
    pub waiting: Vec<WaitingTransaction>,
    /// Time that transactions waited for others: for locks in the paged engine, for a commit under
    /// way in the memory engine. Waits that ended in an error are counted; waits that are not over
    /// are not.
    pub wait_time: Latencies,
    /// Device calls that took longer than the log option `stall_after`, and the one that does so at
    /// present.
    pub stalls: Stalls,
    /// Statistics of one engine only.
    pub engine: EngineStat,
    /// The log.
    pub log: LogStat,
}

impl Stat {
    /// Statistics of the paged engine, if it is one.
    pub fn paged(&self) -> Option<&PagedStat> {
        match &self.engine {
            EngineStat::Paged(paged) => Some(paged),
            EngineStat::Memory(_) => None,
        }
    }

    /// Statistics of the memory engine, if it is one.
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
    /// Lock requests that had to wait.
    pub lock_waits: u64,
    /// Lock waits ended to break a deadlock.
    pub deadlocks: u64,
    /// Position at which the last completed checkpoint began.
    pub checkpoint_lsn: Lsn,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Pages in the store, free ones included.
    pub pages: u64,
    /// Pages of the store that are free.
    pub pages_free: u64,
    /// Method by which pages travel:
    /// [`PagedOptions::page_method`](crate::PagedOptions::page_method), or what it fell back to.
    pub page_method: Method,
    /// Pages the cache has room for.
    pub cache_pages: u64,
    /// Bytes of memory that this process might use when it opened the database, of which the cache
    /// is a share. None if [`PagedOptions::cache_bytes`](crate::PagedOptions::cache_bytes) gave the
    /// size, or the system does not say.
    pub cache_share_of: Option<u64>,
    /// Pages in the cache.
    pub cached: u64,
    /// Pages in the cache that differ from the device.
    pub dirty: u64,
    /// Pages read from the device, or from the system's page cache.
    pub cache_misses: u64,
    /// Pages given up for others.
    pub evicted: u64,
    /// Batches of pages that a transaction had to write itself to get room.
    pub forced: u64,
    /// Pages written to their place.
    pub pages_written: u64,
    /// Open read views: transactions with [`Access::ReadOnly`](crate::Access::ReadOnly).
    pub views: u64,
    /// Bytes of old values and their keys kept for views; those of open transactions that no view
    /// needs so far are counted in steps of 64 KiB.
    pub view_bytes: u64,
    /// Maximum of `view_bytes` (`PagedOptions::view_bytes_max`).
    pub view_bytes_max: u64,
    /// Views that were given up because `view_bytes` was above its maximum.
    pub views_given_up: u64,
    /// The oldest open view, if there is one.
    pub oldest_view: Option<OldestView>,
}

/// The oldest open read view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestView {
    /// Time since it was opened.
    pub age: Duration,
}

/// Statistics of the memory engine: records and their versions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryStat {
    /// Bytes of keys, values and what belongs to them, old versions included.
    pub used_bytes: u64,
    /// Bytes it may hold at most.
    pub limit_bytes: u64,
    /// Keys, those included that were deleted and are not yet forgotten.
    pub records: u64,
    /// Versions that newer ones have replaced and that are not yet given up.
    pub versions_old: u64,
    /// Number of pauses of transactions after a conflict ([`Contention`](crate::Contention)).
    pub pauses: u64,
    /// The oldest open transaction, if old versions are kept for it.
    pub held_by: Option<TxnId>,
    /// Number of the last complete checkpoint; zero: none yet.
    pub checkpoint: u64,
}

/// Positions in one stream of the log. The paged engine's log has one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamStat {
    /// The oldest position kept.
    pub start: Lsn,
    /// Everything before this is on the device.
    pub durable: Lsn,
    /// Everything before this is handed to the operating system.
    pub written: Lsn,
    /// Everything before this is in memory without holes.
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
    /// Method by which its bytes travel: the log option `method`, or what it fell back to.
    pub method: Method,
    /// Kind of memory of a log in NVRAM, to be shown with every figure measured on it. None for
    /// logs in files.
    pub nvram: Option<Form>,
    /// Used part of a log in NVRAM, per mille of what writes may take, in the fullest stream. None
    /// for logs in files.
    pub fullness: Option<u32>,
    /// Pin that keeps the oldest part of the log.
    pub pinned_by: Pin,
    /// Bytes between where the database needs the log and its end.
    pub bytes: u64,
    /// Bytes below that which pins keep, such as a backup's.
    pub pinned_bytes: u64,
    /// The named consumers.
    pub consumers: Vec<katydid_wal::ConsumerStat>,
    /// Soft limit in bytes: above it checkpoints run one after the other. Without meaning in NVRAM,
    /// as the next.
    pub soft_bytes: u64,
    /// Hard limit in bytes: above it writes are refused with `Error::LogFull`.
    pub hard_bytes: u64,
    /// Durable writes or syncs issued.
    pub syncs: u64,
    /// Bytes of the log those made durable.
    pub bytes_synced: u64,
    /// Bytes handed to the device, rewritten partial blocks included.
    pub bytes_written: u64,
    /// Blocked committers that another thread's sync released.
    pub released: u64,
    /// Times a background thread of the log woke up.
    pub wakeups: u64,
    /// Bytes of all log files, those kept for reuse included.
    pub bytes_on_disk: u64,
    /// Bytes prepared ahead.
    pub prepared: u64,
    /// Incarnation: how often the log was opened.
    pub incarnation: u32,
    /// All that the log counts.
    pub counters: katydid_wal::Counters,
}

impl LogStat {
    /// Bytes appended so far, since the log was created: where its streams end, added up.
    pub fn appended(&self) -> u64 {
        self.streams.iter().map(|stream| stream.reserved.get()).sum()
    }
}
