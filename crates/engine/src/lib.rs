//! An embedded transactional key-value store with fast durable commits.
#![forbid(unsafe_code)]

mod after_durable;
mod bell;
mod body;
mod commit;
mod control;
mod creation;
mod database;
mod direction;
mod dump;
mod error;
mod fullness;
mod ids;
#[cfg(test)]
mod interleaved_tests;
mod latch;
mod lock;
mod memory;
mod open;
mod opening;
mod options;
mod paged;
mod pause;
mod range;
mod session;
mod shard;
mod stat;
mod table;
#[doc(hidden)]
pub mod testing;
mod transaction;
mod verify;

pub use commit::CommitFuture;
pub use database::Database;
pub use dump::{LogEntry, LogField, dump_log, dump_log_in};
pub use error::{ConflictKind, Error, Foreign, Result};
pub use ids::{TableId, TxnId};
pub use katydid_device::nvram::{Form, Persistence};
pub use katydid_device::{
    Cause, Directory, Error as DeviceError, FileDirectory, MemoryDirectory, Method, Stall, Stalls,
    StripedDirectory, Verb,
};
pub use katydid_wal::{
    Chain, CommitStamp, Durability, Error as LogError, Group, InserterKind, LogKind, Lsn, NvramOptions,
    Options as LogOptions, SyncKind,
};
pub use options::{
    Access, DependenceRule, EngineKind, LockRelease, Options, Read, RecoveryProgress, TransactionOptions,
};
pub use range::Range;
pub use session::Session;
pub use stat::{EngineStat, LogStat, MemoryStat, PagedStat, Pin, Stat, StreamStat};
pub use table::Table;
pub use transaction::{Savepoint, Transaction};
pub use verify::{Fault, VerifyProgress, VerifyReport};

/// The longest key in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// The longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// What recovery is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Replacing torn pages by their copies in the double-write area; memory engine: reading the last checkpoint.
    Restore,
    /// Reading the log from the last checkpoint on.
    Analysis,
    /// Repeating what may not have reached its page.
    Redo,
    /// Undoing what uncommitted transactions did.
    Undo,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Restore => "restore",
            Phase::Analysis => "analysis",
            Phase::Redo => "redo",
            Phase::Undo => "undo",
        })
    }
}
