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
    /// Early lock release (ELR): locks are dropped when the commit record is in the log, durable or
    /// not. A transaction that reads the writes of such a commit is acknowledged only after the
    /// commit is durable.
    #[default]
    Early,
    /// Locks are dropped after the commit is durable, or has reached the `Durability` that it asked
    /// for.
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
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads only. A transaction that only reads is a read view. A view sees exactly the writes of
    /// the transactions that had committed when it began; these include all acknowledged
    /// transactions. In both engines the reads of a view take no locks and delay no transaction. In
    /// the paged engine they wait for no transaction either. In the memory engine the beginning and
    /// the reads of a view may wait for a transaction that is committing. They fail with
    /// `Error::Conflict` if one wait takes longer than [`Options::lock_wait`]. Views and
    /// transactions that write are serializable together. Writes, and reads for update, fail in a
    /// view with `Error::ReadOnly`.
    ///
    /// The store keeps old values for as long as a view may need them. The paged engine limits them
    /// (`PagedOptions::view_bytes_max`): a view that would need more fails with
    /// `Error::ViewTooOld`. In the memory engine old values count as memory in use.
    /// [`Database::drop_table`] waits for views in the memory engine. In the paged engine the call
    /// does not wait, and the next read of that table in a view fails with `Error::TableDropped`.
    ///
    /// [`Database::drop_table`]: crate::Database::drop_table
    ReadOnly,
}

/// Rows that a transaction's reads may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Read {
    /// Reads also return the writes of a commit that is not durable yet. The reader's own commit
    /// then waits for that commit.
    #[default]
    Visible,
    /// Reads return durable rows only: each read waits until the row that it found is durable.
    Durable,
}

/// Options of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionOptions {
    /// Durability that the commit must have reached to be acknowledged. Default:
    /// [`Durability::Durable`].
    ///
    /// A commit that asks for less is asynchronous, and unsafe: it is acknowledged although a crash
    /// may lose it. A crash of the machine may lose `Written` and `Buffered` commits, the end of
    /// the process only `Buffered` ones. A crash loses the last commits, each as a whole, and never
    /// a commit that a surviving commit depends on. (With inserter `Chunked` a crash may also lose
    /// earlier commits, if no surviving commit has seen or replaced their writes.) A durable commit
    /// makes all commits durable whose writes it has seen or replaced.
    /// [`Database::sync`](crate::Database::sync) makes all earlier commits durable.
    ///
    /// In the memory engine a crash loses the last commits of each stream of the log, and each
    /// commit that has *seen* a write of a lost commit. A transaction that replaces a value without
    /// having read it does not depend on the writer of that value, and does not make the writer
    /// durable.
    pub durability: Durability,
    /// Rows that the transaction's reads may return. Default: [`Read::Visible`].
    pub read: Read,
    /// Permission to write. Default: [`Access::ReadWrite`].
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
    /// Repeating changes that may not have reached their pages.
    Redo,
    /// Undoing the changes of uncommitted transactions.
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

/// A receiver of recovery's progress, called with the phase, the amount done, and the whole amount.
/// The unit is bytes of log for analysis, redo and undo, and pages for restoring torn pages. For
/// the memory engine the unit of the restore phase is bytes of its checkpoint. The memory engine
/// reports redo from several threads. The whole amount that it reports is an upper bound at first,
/// and gets smaller as the ends of the log's streams are found.
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
    /// The engine and its settings, among them the memory that it may use. The kind of engine is
    /// fixed when the database is created. Default: the paged engine with a cache of a quarter of
    /// the memory that this process may use.
    pub engine: EngineOptions,
    /// Durability that a commit must have reached to be acknowledged. Default:
    /// [`Durability::Durable`]. [`TransactionOptions::durability`] says what a lower level means.
    pub durability: Durability,
    /// Maximum time that a call waits for other transactions; then the call fails with
    /// `Error::Conflict`. In a transaction the limit holds for each wait for one lock (in the
    /// memory engine: each wait for the outcome of another transaction). In `Database::transact`,
    /// `get`, `put` and `delete` the limit holds for all waits together. Default: 10 s.
    pub lock_wait: Duration,
    /// True to create a database if there is none. Default: true.
    pub create: bool,
    /// Permission to change the database. Default: [`Access::ReadWrite`]. A database opened with
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

/// Settings whose defaults suit nearly every program: when checkpoints are taken, how much log may
/// be kept, and the log itself. The promise of compatibility covers their names and defaults, as it
/// covers all public items.
///
/// A new database takes at most 4 MiB on disk with the defaults. The log keeps `spare_segments`
/// segments prepared ahead, because writes to prepared bytes take half the time of writes that
/// extend a file. As the log grows, the sizes of segments double from `first_segment_bytes` up to
/// `segment_bytes`. So a database that has written 64 MiB since it was made keeps about 200 MiB of
/// log files. A smaller `segment_bytes` and `reserve_bytes` of the log reduce this.
#[derive(Clone)]
pub struct AdvancedOptions {
    /// Time at which a commit drops its locks. Default: [`LockRelease::Early`].
    pub lock_release: LockRelease,
    /// Maximum number of times that `Database::transact` runs a transaction again after a conflict
    /// other than a time-out. Default 100.
    pub retries: u32,
    /// Bytes of log after which a checkpoint is taken. At least 64 KiB, default 256 MiB: that much
    /// log takes about a second to replay, and checkpoints are rare enough not to delay commits.
    /// The paged engine writes a checkpoint's pages in small batches while the first 80 % of this
    /// log are written.
    pub checkpoint_bytes: u64,
    /// Bytes of log above which checkpoints follow each other without pause. At least
    /// `checkpoint_bytes`, default 1 GiB.
    pub log_soft_bytes: u64,
    /// Bytes of log above which writes are refused with `Error::LogFull`. At least
    /// `log_soft_bytes`, default 16 GiB.
    pub log_hard_bytes: u64,
    /// Percentage of a log in NVRAM that is in use when a checkpoint begins. In the memory engine a
    /// checkpoint begins when one of the streams reaches this percentage. From 10 to 90. Default
    /// 70, the percentage in the report on NV-Logging that `docs/papers.md` of the repository
    /// names. A log in NVRAM cannot grow, so `log_soft_bytes` and `log_hard_bytes` do not apply,
    /// but `checkpoint_bytes` does. When 90 % are in use, a transaction that begins to write waits
    /// for a checkpoint, and fails with `Error::LogFull` if the checkpoint makes no room. The
    /// remaining 10 % are for transactions that are writing already. The paged engine keeps the log
    /// from the first record of the oldest such transaction on, so a transaction cannot be larger
    /// than the log. In the memory engine a transaction is one record, which must fit into its
    /// stream.
    pub nvram_checkpoint: u32,
    /// True to log the whole old and new value of each update from the opening on, for
    /// [`Database::changes`](crate::Database::changes). If false, the paged engine begins to do so
    /// at the first call of `changes`, or at the opening if the database has a consumer
    /// ([`Database::consumer`](crate::Database::consumer)). Whole values take more log: an update
    /// logs its old and its new value instead of the bytes in which they differ. The memory engine
    /// always logs whole new values. Default: false.
    pub record_values: bool,
    /// Rule of the memory engine for when a transaction checks for conflicts, and when it pauses.
    /// Default: [`Contention::AtValidation`].
    pub contention: Contention,
    /// Rule of the memory engine for how long it keeps a replaced version. Default:
    /// [`OldVersions::UntilUnread`].
    pub old_versions: OldVersions,
    /// Options of the log: its medium, inserter, sync protocol and more. The log's `method` also
    /// applies to other files whose bytes must be durable at once (control files, the double-write
    /// area, checkpoints of the memory engine), but not to pages
    /// ([`PagedOptions::page_method`](crate::PagedOptions::page_method)). The log's `log_id`
    /// becomes the id of a new database. Default: the default of [`LogOptions`](crate::LogOptions).
    /// With inserter `Chunked`, a crash may lose a commit that was not durable and keep a later
    /// commit of another thread. This can happen only if the later commit has neither seen nor
    /// replaced writes of the lost one.
    ///
    /// The `medium` is that of the log only; the rest of the database is always in files. A log in
    /// NVRAM has at least 64 pages, or 64 KiB in the memory engine. The memory engine divides the
    /// log among its streams: the size of each stream is a power of two, and at least 1 MiB if the
    /// log is large enough. `reserve_bytes` is at most a sixteenth of a log in NVRAM. A log in
    /// NVRAM, closed or not, can be opened again only after every handle, table and transaction of
    /// the database is dropped. If more threads write at once than the log has sessions
    /// (`sessions_max`), threads wait for each other.
    pub log: wal::Options,
    /// Age from which an open transaction counts as slow; zero means never. On Linux the age of a
    /// transaction is measured in steps of the kernel's tick, 1 to 10 ms. With the feature
    /// `tracing` or `metrics` the database reports a slow transaction when it ends. The first
    /// checkpoint that finds the slow transaction open also reports it. The report has the
    /// transaction's age and the line of the program that began it. Default 1 s.
    pub slow_transaction: Duration,
    /// Receiver of recovery's progress. Default: `None`.
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
    /// Returns `Error::Option` if a value is out of its range.
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

    /// Returns the minimum bytes of NVRAM. In the paged engine, fewer bytes have no room for a
    /// change that splits pages, and for the undo of that change, beside the log's own share.
    fn nvram_bytes_min(&self) -> u64 {
        match self.engine {
            EngineOptions::Paged(paged) => 64 * paged.page_bytes as u64,
            EngineOptions::Memory(_) => 64 << 10,
        }
    }

    /// Returns the log's options as the engines use them. In NVRAM the `reserve_bytes` of the paged
    /// engine are only for the records of checkpoints and of the ends of transactions. They have no
    /// room for undo, because each transaction raises the reserve by the room for its own undo. In
    /// NVRAM the memory engine has no `reserve_bytes`, because it logs neither undo nor
    /// checkpoints.
    pub(crate) fn log_options(&self) -> wal::Options {
        let mut log = self.advanced.log.clone();
        if let Some(memory) = log.medium.memory() {
            let share = match self.engine {
                EngineOptions::Paged(_) => {
                    // The engine uses at most this number of sessions, and the log keeps some room
                    // for each session.
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
