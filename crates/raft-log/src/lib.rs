#![doc = include_str!("../README.md")]

mod codec;
mod error;
mod flusher;
mod log;
mod pieces;
mod storage;
mod tail;

pub use error::{Error, Result};
pub use flusher::{PendingSync, Syncer};
/// The write-ahead log's crate, whose options [`RaftLog::open`] takes.
pub use katydid_wal as wal;
pub use log::RaftLog;
