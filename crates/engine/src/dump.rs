//! The log of a database in readable form, without opening the database. What its records say is its engine's to tell.

use crate::control;
use crate::database::existing;
use crate::error::Result;
use crate::ids::TxnId;
use crate::memory;
use crate::options::EngineKind;
use crate::paged;
use crate::{Chain, Lsn};
use katydid_device::Directory;
use std::ops::ControlFlow;
use std::path::Path;

/// One named value of a log record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogField {
    /// A number: a page, a length, a position.
    Number(u64),
    /// A word.
    Text(String),
    /// Bytes, such as a key.
    Bytes(Vec<u8>),
    /// Several numbers.
    Numbers(Vec<u64>),
    /// Several things, each with its named values.
    List(Vec<Vec<(&'static str, LogField)>>),
}

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Its position.
    pub lsn: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// What kind of record it is.
    pub kind: &'static str,
    /// The transaction, or `TxnId::NONE`.
    pub txn: TxnId,
    /// In a paged database, the transaction's previous record, or zero; in parts of a checkpoint, the checkpoint's begin record. In a memory
    /// database, the transaction's commit stamp.
    pub chain: Chain,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// What it says.
    pub fields: Vec<(&'static str, LogField)>,
}

/// Reads the log of the database in directory `path`, changing nothing, and calls `visit` for each record until the end or until `visit`
/// breaks: in the order of positions in a paged database, and of commit stamps in a memory database, whose log has several streams. Returns
/// how the log ends, in words; or, if `visit` broke, the position or stamp at which more follows.
pub fn dump_log(path: impl AsRef<Path>, visit: impl FnMut(&LogEntry) -> ControlFlow<()>) -> Result<String> {
    dump_log_in(&existing(path.as_ref())?, visit)
}

/// As [`dump_log`], in a directory of any device.
pub fn dump_log_in(
    directory: &dyn Directory,
    visit: impl FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<String> {
    // A log is to be read also where the control file is damaged.
    let engine = control::read(directory).ok().flatten().map_or(EngineKind::Paged, |control| control.engine);
    match engine {
        EngineKind::Paged => paged::dump::dump_log_in(directory, visit),
        EngineKind::Memory => memory::dump::dump_log_in(directory, visit),
    }
}
