//! Options for opening a database and for beginning a transaction.

use crate::Durability;
use crate::cicada_options::{Contention, OldVersions};
use crate::engine_options::EngineOptions;
use crate::error::{Error, Result};
use crate::ids::EngineKind;
use crate::shard::SHARDS;
use katydid_wal as wal;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time at which a committing transaction drops its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LockRelease {
    /// Early lock release (ELR): when the commit record has a place in the log. A transaction that
    /// reads what it wrote is acknowledged only when that is durable.
    #[default]
    Early,
    /// After the commit is durable (or as far as its own `Durability` asks).
    AfterDurable,
}

impl fmt::Display for LockRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockRelease::Early => "early",
            LockRelease::AfterDurable => "after-durable",
        })
    }
}

impl std::str::FromStr for LockRelease {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "early" => Ok(LockRelease::Early),
            "after-durable" => Ok(LockRelease::AfterDurable),
            _ => Err(Error::Option {
                option: "lock_release",
                reason: format!("must be early or after-durable, not {text:?}"),
            }),
        }
    }
}

impl std::str::FromStr for EngineKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "paged" => Ok(EngineKind::Paged),
            "memory" => Ok(EngineKind::Memory),
            _ => Err(Error::Option {
                option: "engine",
                reason: format!("must be paged or memory, not {text:?}"),
            }),
        }
    }
}

/// Access of a transaction, or of an opening of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Access {
    /// Anything.
    #[default]
    ReadWrite,
    /// Read only. A transaction that only reads is a read view: it sees what the transactions left
    /// that had committed when it began, among them all that were acknowledged before, and nothing
    /// of any other. It takes no locks, waits for no transaction, makes none wait and conflicts
    /// with none, in both engines; together with the transactions that write it is serializable.
    /// Writes, and reads for update, are refused with `Error::ReadOnly`.
    ///
    /// The store keeps old values for as long as a view may need them. The paged engine bounds them
    /// (`PagedOptions::view_bytes_max`): a view that would need more fails with
    /// `Error::ViewTooOld`. In the memory engine they count as memory in use.
    /// [`Database::drop_table`] does not wait for views in the paged engine: their next read of
    /// that table fails with `Error::TableDropped`. In the memory engine it does.
    ///
    /// [`Database::drop_table`]: crate::Database::drop_table
    ReadOnly,
}

/// Rows that a transaction's reads may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Read {
    /// Also what a transaction wrote whose commit is not durable yet; the reader's own commit then
    /// waits for it.
    #[default]
    Visible,
    /// Only what is durable: each read waits until what it saw is.
    Durable,
}

/// Options of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionOptions {
    /// Durability that its commit must have reached when it is acknowledged. Default: durable.
    ///
    /// Less is an asynchronous commit, and unsafe: it is reported although a crash may take it
    /// back. A crash of the machine may take back `Written` and `Buffered` commits, the end of the
    /// process only `Buffered` ones. It takes the last ones, each whole, and never one on which a
    /// surviving one depends (with inserter `Chunked` also earlier ones, if none that survives has
    /// seen or replaced what they wrote). A durable commit makes everything durable that it has
    /// seen or replaced; after [`Database::sync`](crate::Database::sync) everything committed
    /// before is.
    ///
    /// In the memory engine a crash takes the last ones of each stream of the log, and what depends
    /// on them: what has *seen* what they wrote. A transaction that replaces a value without having
    /// read it does not depend on that one's writer, and makes it no more durable.
    pub durability: Durability,
    /// Rows that its reads may return. Default: `Visible`.
    pub read: Read,
    /// Permission to write. Default: it may.
    pub access: Access,
}

/// A phase of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Replacing torn pages by their copies in the double-write area; memory engine: reading the
    /// last checkpoint.
    Restore,
    /// Reading the log from the last checkpoint on.
    Analysis,
    /// Repeating what may not have reached its page.
    Redo,
    /// Undoing what uncommitted transactions did.
    Undo,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Restore => "restore",
            Phase::Analysis => "analysis",
            Phase::Redo => "redo",
            Phase::Undo => "undo",
        })
    }
}

/// A receiver of recovery's progress: the phase, how much is done, and how much there is, both in
/// bytes of log for analysis, redo and undo, and in pages for restoring torn pages. The memory
/// engine restores in bytes of its checkpoint, and tells of redo from several threads; how much
/// that is it knows at first only at most, and gives less as it finds where the log's streams end.
pub type RecoveryProgress = Arc<dyn Fn(Phase, u64, u64) + Send + Sync>;

/// Options for opening a database: five that a program sets, and [`AdvancedOptions`]. Take the
/// default and change what you need:
///
/// ```
/// use katydid::{AdvancedOptions, EngineKind, Options, PagedOptions};
/// let cache = PagedOptions { cache_bytes: 1 << 30, ..Default::default() };
/// Options { engine: cache.into(), ..Default::default() }.validate()?;
/// Options { engine: EngineKind::Memory.into(), ..Default::default() }.validate()?;
/// let advanced = AdvancedOptions { checkpoint_bytes: 64 << 20, ..Default::default() };
/// Options { advanced, ..Default::default() }.validate()?;
/// # Ok::<(), katydid::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine, with how much memory it may use and its other settings. The kind of engine is
    /// fixed when the database is created. Default: the paged engine with a cache of a quarter of
    /// the memory that this process may use.
    pub engine: EngineOptions,
    /// Durability that a commit must have reached to be acknowledged. Default: durable.
    /// [`TransactionOptions::durability`] says what less means.
    pub durability: Durability,
    /// Maximum time that a call waits for other transactions; then it fails with `Error::Conflict`.
    /// In a transaction it bounds each wait for one lock (memory engine: for another transaction to
    /// be decided); in `Database::transact`, `get`, `put` and `delete`, all waits together.
    /// Default: 10 s.
    pub lock_wait: Duration,
    /// Creates a database if there is none. Default: true.
    pub create: bool,
    /// Permission to change the database. Default: it may be changed. A database opened with
    /// [`Access::ReadOnly`] changes nothing in its directory and is not created, whatever `create`
    /// says; see [`Database::open_read_only`](crate::Database::open_read_only).
    pub access: Access,
    /// Settings that have good values for nearly every program.
    pub advanced: AdvancedOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: EngineOptions::default(),
            durability: Durability::Durable,
            lock_wait: Duration::from_secs(10),
            create: true,
            access: Access::ReadWrite,
            advanced: AdvancedOptions::default(),
        }
    }
}

/// Settings that have good values for nearly every program: when checkpoints are taken, how much
/// log may be kept, and the log itself. Their names and defaults follow the same promise as all
/// public items.
///
/// A new database takes at most 4 MiB on disk with the defaults. The log keeps `spare_segments`
/// segments prepared ahead, for writes to prepared bytes take half the time of writes that make a
/// file longer, and segments double from `first_segment_bytes` up to `segment_bytes` as the log
/// grows. So a database that has written 64 MiB since it was made keeps about 200 MiB of log files.
/// Smaller `segment_bytes` and `reserve_bytes` of the log make that less.
#[derive(Clone)]
pub struct AdvancedOptions {
    /// Time at which locks are dropped at commit. Default: early.
    pub lock_release: LockRelease,
    /// Maximum number of times that `Database::transact` runs a transaction again after a conflict
    /// that is no time-out. Default 100.
    pub retries: u32,
    /// Bytes of log after which a checkpoint is taken. At least 64 KiB, default 256 MiB: about a
    /// second of restart, and few enough checkpoints that they do not get in the way of commits.
    pub checkpoint_bytes: u64,
    /// Bytes of log above which checkpoints follow each other without pause. At least
    /// `checkpoint_bytes`, default 1 GiB.
    pub log_soft_bytes: u64,
    /// Bytes of log above which writes are refused with `Error::LogFull`. At least
    /// `log_soft_bytes`, default 16 GiB.
    pub log_hard_bytes: u64,
    /// Per cent of a log in NVRAM that are taken when a checkpoint begins; in the memory engine, of
    /// any stream. From 10 to 90, default 70 (the report on NV-Logging). Such a log cannot grow.
    /// `checkpoint_bytes` counts too, but not the other two limits above: when 90 % are taken, a
    /// transaction that begins to write waits for a checkpoint, and fails with `Error::LogFull` if
    /// that did not help. The rest is for transactions that are writing already. In the paged
    /// engine the log goes back to the first record of the oldest one of those, so none can be
    /// larger than the log; in the memory engine a transaction is one record, which must fit its
    /// stream.
    pub nvram_checkpoint: u32,
    /// Logs the whole former and new value of each update, for
    /// [`Database::changes`](crate::Database::changes), from the beginning of the opening on. If
    /// false, the paged engine does so from the first call of that on. Costs log: up to both values
    /// instead of the bytes in which they differ. The memory engine always logs whole new values.
    /// Default: false.
    pub record_values: bool,
    /// Times at which a transaction of the memory engine looks for conflicts, and conflicts after
    /// which it pauses. Default: at validation.
    pub contention: Contention,
    /// Time for which the memory engine keeps a version that was replaced. Default: until no
    /// transaction can read it.
    pub old_versions: OldVersions,
    /// The log: its medium, with segments, inserter and sync protocol. Its `method` is also how
    /// other files travel whose bytes must be durable at once (control files, the double-write
    /// area, checkpoints of the memory engine), but not pages
    /// ([`PagedOptions::page_method`](crate::PagedOptions::page_method)); its `log_id` becomes the
    /// id of a new database. Default: the log's own. With inserter `Chunked` commits of different
    /// threads of which none has seen or replaced what the other wrote have no order: after a crash
    /// the later one may be there without the earlier, if that was not durable.
    ///
    /// Its `medium` is what the log is kept in; the rest of the database is in files whatever that
    /// is. A log in NVRAM has at least 64 pages, or 64 KiB in the memory engine, whose streams
    /// share it out (at least 1 MiB each, if it is so large; each a power of two), and
    /// `reserve_bytes` is at most a sixteenth of it. Such a log can be opened again only after
    /// every handle, table and transaction of the database is dropped, also if it was closed. With
    /// fewer sessions (`sessions_max`) than threads that write at once, threads wait for each
    /// other.
    pub log: wal::Options,
    /// Age at which an open transaction counts as slow: with the feature `tracing` or `metrics` it
    /// is told of, with its age and the line of the program that began it, when it ends, and once
    /// before, by the next checkpoint. In steps of some milliseconds; zero: never. Default 1 s.
    pub slow_transaction: Duration,
    /// Receiver of recovery's progress. Default: none.
    pub on_recovery: Option<RecoveryProgress>,
}

impl Default for AdvancedOptions {
    fn default() -> Self {
        AdvancedOptions {
            lock_release: LockRelease::Early,
            retries: 100,
            checkpoint_bytes: 256 << 20,
            log_soft_bytes: 1 << 30,
            log_hard_bytes: 16 << 30,
            nvram_checkpoint: 70,
            record_values: false,
            contention: Contention::default(),
            old_versions: OldVersions::default(),
            log: wal::Options::default(),
            slow_transaction: Duration::from_secs(1),
            on_recovery: None,
        }
    }
}

impl AdvancedOptions {
    fn validate(&self) -> Result<()> {
        let check = |good: bool, option, reason: &str| {
            if good { Ok(()) } else { Err(Error::Option { option, reason: reason.to_owned() }) }
        };
        check((10..=90).contains(&self.nvram_checkpoint), "nvram_checkpoint", "must be from 10 to 90")?;
        check(self.checkpoint_bytes >= 64 << 10, "checkpoint_bytes", "must be at least 65536")?;
        let soft = self.log_soft_bytes;
        check(soft >= self.checkpoint_bytes, "log_soft_bytes", "must be at least checkpoint_bytes")?;
        check(self.log_hard_bytes >= soft, "log_hard_bytes", "must be at least log_soft_bytes")
    }
}

impl fmt::Debug for AdvancedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdvancedOptions")
            .field("lock_release", &self.lock_release)
            .field("retries", &self.retries)
            .field("checkpoint_bytes", &self.checkpoint_bytes)
            .field("log_soft_bytes", &self.log_soft_bytes)
            .field("log_hard_bytes", &self.log_hard_bytes)
            .field("nvram_checkpoint", &self.nvram_checkpoint)
            .field("record_values", &self.record_values)
            .field("contention", &self.contention)
            .field("old_versions", &self.old_versions)
            .field("slow_transaction", &self.slow_transaction)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Refuses values out of range.
    pub fn validate(&self) -> Result<()> {
        self.engine.validate()?;
        if let Some(memory) = self.advanced.log.medium.memory() {
            let (engine, least) = (self.engine.kind(), self.nvram_bytes_min());
            if memory.bytes < least {
                let reason = format!("must be at least {least} for the {engine} engine");
                return Err(Error::Option { option: "log.nvram.bytes", reason });
            }
        }
        self.advanced.validate()?;
        self.log_options().validate().map_err(|error| Error::Option {
            option: error.option,
            reason: format!("is {}; it must be {}", error.value, error.range),
        })
    }

    /// Fewer bytes of NVRAM hold no change of structure and what undoes it, beside the log's own
    /// share.
    fn nvram_bytes_min(&self) -> u64 {
        match self.engine {
            EngineOptions::Paged(paged) => 64 * paged.page_bytes as u64,
            EngineOptions::Memory(_) => 64 << 10,
        }
    }

    /// The log's options as the engines use them. In NVRAM the reserve is for checkpoints and what
    /// ends transactions: what undoes them is set aside by themselves. The memory engine undoes
    /// nothing and notes no checkpoint in the log.
    pub(crate) fn log_options(&self) -> wal::Options {
        let mut log = self.advanced.log.clone();
        if let Some(memory) = log.medium.memory() {
            let share = match self.engine {
                EngineOptions::Paged(_) => {
                    // There are no more of them, and the log keeps some room for each.
                    log.sessions_max = log.sessions_max.min(SHARDS);
                    memory.bytes / 16
                }
                EngineOptions::Memory(_) => 0,
            };
            log.reserve_bytes = log.reserve_bytes.min(share);
        }
        log
    }
}
