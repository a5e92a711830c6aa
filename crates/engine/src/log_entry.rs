//! A record of the log in readable form.

use crate::ids::TxnId;
use crate::{Chain, Lsn};

/// One named value of a log record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogField {
    /// A number, such as a page, a length or a position.
    Number(u64),
    /// A word.
    Text(String),
    /// Bytes, such as a key.
    Bytes(Vec<u8>),
    /// Several numbers.
    Numbers(Vec<u64>),
    /// Several items, each with its named values.
    List(Vec<Vec<(&'static str, LogField)>>),
}

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Position of the record.
    pub lsn: Lsn,
    /// Exclusive end of the record.
    pub end: Lsn,
    /// Name of the kind of record.
    pub kind: &'static str,
    /// The record's transaction, or `TxnId::NONE`.
    pub txn: TxnId,
    /// In a paged database, the transaction's previous record, or zero; in parts of a checkpoint,
    /// the checkpoint's begin record. In a memory database, the transaction's commit stamp.
    pub chain: Chain,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// The decoded payload.
    pub fields: Vec<(&'static str, LogField)>,
}
