//! An embedded transactional key-value store with fast durable commits.
//!
//! Katydid keeps tables of keys and values, both bytes, in a folder, for the threads of one process. Transactions are serializable, and a commit that
//! was reported survives a crash of the process and of the machine. It is not a server, not replicated, and has no query language.
//!
//! - A [`Database`] is a folder that is open. It is cheap to clone, and any thread may use it.
//! - A [`Table`] holds keys in the order of their bytes. [`typed`] has tables of Rust types, and indexes.
//! - A [`Transaction`] reads and writes tables, all or nothing. [`Database::transact`] runs a body again after a conflict.
//! - A commit is waited for by blocking, by a future, or by a callback ([`Transaction::commit`], [`commit_async`](Transaction::commit_async),
//!   [`commit_with`](Transaction::commit_with)).
//!
//! ```
//! use katydid::{Database, Result};
//!
//! fn main() -> Result<()> {
//!     # let folder = tempfile::tempdir().expect("a folder");
//!     # let path = folder.path().join("fruit-shop");
//!     let db = Database::open(path)?;
//!     let stock = db.table("stock")?;
//!     db.put(&stock, "apples", "12")?; // durable when it returns
//!
//!     let sold = db.transact(|txn| {
//!         let Some(count) = txn.get_for_update(&stock, "apples")? else { return Ok(false) };
//!         let count: u32 = String::from_utf8_lossy(&count).parse().unwrap_or(0);
//!         txn.put(&stock, "apples", count.saturating_sub(1).to_string())?;
//!         Ok(count > 0)
//!     })?;
//!     assert!(sold);
//!
//!     for entry in db.begin_read_only()?.range(&stock, "a".."b") {
//!         let (fruit, count) = entry?;
//!         println!("{} {}", fruit.escape_ascii(), count.escape_ascii());
//!     }
//!     db.close()
//! }
//! ```
//!
//! The [`guide`] answers what comes next: [isolation and locks](guide::isolation), [choosing an engine](guide::engines),
//! [async programs](guide::in_async_programs), [errors and retries](guide::errors), [durability](guide::durability), [sizing](guide::sizing),
//! [backups](guide::backups), [observing](guide::observing) and [upgrades](guide::upgrades).
#![forbid(unsafe_code)]

mod archive;
mod archive_fault;
mod backup;
mod backup_options;
mod body;
mod body_threads;
mod changes;
mod checkpoint_schedule;
mod cicada_options;
mod coarse_clock;
mod commit;
mod compact;
mod compound;
mod consumer;
mod contested;
mod control;
mod copy;
mod creation;
mod cursor;
mod database;
mod direction;
mod directory;
mod dump;
mod durability_waiter;
mod either;
mod engine;
mod engine_options;
mod error;
mod events;
mod fullness;
pub mod guide;
mod ids;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod interleaved_tests;
mod key_range;
mod latch;
mod limits;
mod lock;
mod log_entry;
mod memory;
mod open;
mod opening;
mod options;
mod paged;
mod pause;
mod permits;
mod quarantine;
mod range;
mod repair;
mod report;
mod restore_to;
mod salvage;
mod sequence;
mod session;
mod shard;
mod sharded;
mod stat;
mod table;
#[doc(hidden)]
pub mod testing;
mod ticket;
mod transact_async;
mod transact_with;
mod transaction;
pub mod typed;
mod verify;
mod waits;
mod worker;

pub use archive::{ArchiveMark, LogArchive, LogArchiver, LogStretch};
pub use archive_fault::ArchiveFault;
pub use backup_options::{BackupOptions, BackupProgress, BackupReport};
pub use changes::{Change, ChangePosition, Changes, ChangesFrom, CommittedTransaction, NewValue, OldValue};
pub use cicada_options::{Contention, OldVersions};
pub use commit::CommitFuture;
pub use compact::CompactReport;
pub use consumer::ChangeConsumer;
pub use contested::{Contested, ContestedKeys, KeyExcerpt};
pub use cursor::Cursor;
pub use database::Database;
pub use dump::{dump_log, dump_log_in};
pub use engine_options::{CommitDependencies, EngineOptions, MemoryOptions, PagedOptions};
pub use error::{ConflictKind, CopyFault, Error, Foreign, RepairFault, Result};
pub use ids::{EngineKind, TableId, TxnId};
/// The crate of directories and devices: everything that [`Database::open_in`] may be given has its name there.
pub use katydid_device as device;
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{
    Cause, Directory, Error as DeviceError, FileDirectory, Id, MemoryDirectory, Method, Stall, Stalls,
    StripedDirectory, Verb,
};
/// The crate of the log: every type of its errors, options and counters has its name there.
pub use katydid_wal as wal;
pub use katydid_wal::{
    Chain, CommitStamp, ConsumerStat, Counters as LogCounters, Durability, Error as LogError, FileOptions,
    Group, InserterDesign, InserterKind, InserterSettings, LogKind, Lsn, MediumOptions, MediumSettings,
    NvramOptions, OpenError as LogOpenError, Options as LogOptions, SyncDesign, SyncKind,
};
pub use key_range::{KeyRange, Prefix};
pub use limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use log_entry::{LogEntry, LogField};
pub use options::{
    Access, AdvancedOptions, LockRelease, Options, Phase, Read, RecoveryProgress, TransactionOptions,
};
pub use permits::{Permit, PermitFuture, Permits};
pub use range::{Range, UnlockedRange};
pub use repair::{RepairMode, RepairOutcome, RepairReport};
pub use report::{Fault, VerifyProgress, VerifyReport};
pub use restore_to::{RestorePoint, RestoreReport};
pub use salvage::Loss;
pub use sequence::Sequence;
pub use session::Session;
pub use stat::{
    EngineStat, Latencies, LogStat, MemoryStat, OldestView, PagedStat, Pin, Stat, StreamStat,
    WaitingTransaction,
};
pub use table::Table;
pub use transact_async::TransactFuture;
pub use transaction::{Savepoint, Transaction};
