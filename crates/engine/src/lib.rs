//! An embedded transactional key-value store with fast durable commits.
//!
//! A database is a folder. It has tables, in which keys and values are bytes. All threads of one
//! process can use it. Transactions are serializable. By default a commit that was acknowledged
//! survives a crash of the process and of the machine.
//!
//! Katydid is a library: there is no service to run, and no query language. One process at a time
//! may open a database to change it. `katydid-replica` replicates a database over several machines,
//! and `katydid-observe` lets other processes read a database that is open.
//!
//! ```
//! use katydid::{Database, Result};
//!
//! fn main() -> Result<()> {
//!     # let folder = tempfile::tempdir().expect("a folder");
//!     # let path = folder.path().join("fruit-shop");
//!     let db = Database::open(path)?;
//!     let stock = db.table("stock")?;
//!     db.put(&stock, "apples", "12")?; // durable when the call returns
//!
//!     // A transaction, all or nothing; run again if it conflicts with another one.
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
//! # Concepts
//!
//! - A [`Database`] is an open folder. It is cheap to clone, and any thread may use it.
//! - A [`Table`] holds keys in the order of their bytes. [`typed`] has tables of Rust types, and
//!   indexes.
//! - A [`Transaction`] reads and writes tables, all or nothing. Committed transactions have one
//!   order, that of their [`CommitStamp`]s. A transaction with [`Access::ReadOnly`] is a read view:
//!   it sees one state and takes no locks. See [isolation and locks](guide::isolation).
//! - *Durability* says which crashes an acknowledged commit survives. By default it survives a
//!   crash of the machine. See [durability](guide::durability).
//! - *Visibility*: by default ([`LockRelease::Early`]) other transactions see the writes of a
//!   commit as soon as its record has a position in the log. A transaction that has read such
//!   writes is itself acknowledged only after they are durable, unless it asks for less. With
//!   [`Read::Durable`] each read waits until the rows that it returns are durable.
//! - The *engine* of a database is fixed when the database is created. `paged` has B+trees and
//!   locks, for data larger than memory; `memory` has versions in memory and validates at commit.
//!   See [choosing an engine](guide::engines).
//! - *Recovery* is part of opening: the log is replayed from the last checkpoint on.
//! - *Threads*: transactions run on the program's threads, which also write the log; only the
//!   bodies of [`Database::transact_async`] run on threads of the database. The database has
//!   further threads for checkpoints and for work that no caller waits for.
//!
//! # Ways to commit
//!
//! Threads that wait at the same time share one write of the log. So a program gets a high rate of
//! durable commits by having many commits in flight: from many threads, or from one thread by
//! callbacks or futures.
//!
//! ```
//! # fn main() -> katydid::Result<()> {
//! # let db = katydid::Database::in_memory()?;
//! # let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
//! use katydid::{Durability, TransactionOptions};
//! let clicks = db.table("clicks")?;
//!
//! // Blocking: durable when the call returns.
//! let txn = db.begin()?;
//! txn.put(&clicks, "first", "")?;
//! let stamp = txn.commit()?;
//!
//! // Blocking, and run again after conflicts.
//! db.transact(|txn| txn.put(&clicks, "second", ""))?;
//!
//! // Callbacks: they run on this thread when it polls, waits or drains, in the order of the commits.
//! let session = db.session();
//! for number in 0..1_000_u32 {
//!     let body = |txn: &katydid::Transaction| txn.put(&clicks, number.to_be_bytes(), "");
//!     db.transact_with(&session, body, |outcome| drop(outcome.expect("durable")))?;
//!     session.wait_below(500)?; // at most 500 commits in flight
//! }
//! session.drain()?;
//!
//! // Futures: the body runs on a thread of the database, so that polling never blocks.
//! let table = clicks.clone();
//! let future = db.transact_async(move |txn| txn.put(&table, "third", ""));
//! executor.block_on(future)?;
//!
//! // Asynchronous commit: acknowledged when it is in memory, durable after the next sync.
//! let buffered = TransactionOptions { durability: Durability::Buffered, ..Default::default() };
//! let txn = db.begin_with(buffered)?;
//! txn.put(&clicks, "fourth", "")?;
//! assert!(txn.commit()? > stamp);
//! db.sync()
//! # }
//! ```
//!
//! # Errors and retries
//!
//! All calls have one error type, [`Error`]. [`Error::is_retryable`] is true for conflicts, and for
//! a read view that has become too old: the same transaction may succeed if it is run again from
//! its beginning. [`Database::transact`] runs it again by itself after every conflict except a
//! time-out. [`Error::is_no_space`] is true for a full device: reads go on, and writes succeed
//! again when there is room. After a failed write or sync the database is shut off
//! ([`Error::is_poisoned`]), and no commit is acknowledged any more. Open the database again: it
//! then has every commit that was acknowledged as durable before the failure. See [errors and
//! retries](guide::errors).
//!
//! # Tuning
//!
//! The defaults suit a program that has the machine to itself. The option to think about first is
//! the size of the paged engine's cache ([`PagedOptions::cache_bytes`]), or that of the memory
//! engine's data ([`MemoryOptions::memory_bytes`]); see [sizing](guide::sizing). The log's inserter
//! and sync protocol are options as well ([`AdvancedOptions::log`]), for experiments.
//! [`Database::stat`] and [events](guide::observing) show what a database does.
//!
//! # Files and compatibility
//!
//! Every file has a magic number, a version and checksums. Each release 0.x opens the files of all
//! earlier releases 0.y. It refuses files of newer versions and leaves them unchanged. See
//! [upgrades](guide::upgrades), and `docs/compatibility.md` of the repository. Copy an open
//! database by [`Database::backup`] only ([backups](guide::backups)).
//!
//! # Features
//!
//! - `json`: `typed::Json`, values as JSON.
//! - `tracing`: events for a `tracing` subscriber.
//! - `metrics`: numbers for a `metrics` recorder.
//!
//! No feature is on by default, and none changes behaviour.
#![forbid(unsafe_code)]

mod archive;
mod archive_fault;
mod backup;
mod backup_options;
mod body;
mod body_threads;
mod bulk_load;
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
mod key_hash;
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
/// The crate of directories and devices. [`Database::open_in`] takes a directory of this crate.
pub use katydid_device as device;
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{
    Cause, Directory, Error as DeviceError, FileDirectory, Id, MemoryDirectory, Method, Stall, Stalls,
    StripedDirectory, Verb,
};
/// The crate of the log, with the types of its options, errors and counters.
pub use katydid_wal as wal;
pub use katydid_wal::{
    Chain, CommitStamp, ConsumerStat, Counters as LogCounters, Durability, Error as LogError, FileOptions,
    Group, InserterDesign, InserterKind, InserterSettings, LogKind, Lsn, MediumOptions, MediumSettings,
    NvramOptions, OpenError as LogOpenError, Options as LogOptions, SyncDesign, SyncKind,
};
pub use key_range::{KeyRange, Prefix};
pub use limits::{KEY_BYTES_MAX, STREAMS_MAX, VALUE_BYTES_MAX};
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
