//! Committed transactions in the form that the socket transfers. Pure functions.

use crate::bytes::Bytes;
use katydid::{Change, ChangePosition, CommittedTransaction, NewValue, OldValue};
use serde::{Deserialize, Serialize};

/// A committed transaction, or a part of a large one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Commit stamp of the transaction.
    pub stamp: u64,
    /// Position after the transaction, at which another feed can begin.
    pub position: String,
    /// Changes in the order in which the transaction made them.
    pub changes: Vec<CommittedChange>,
    /// True if the next reply begins with further changes of this transaction.
    pub more: bool,
}

/// One change of a committed transaction: [`katydid::Change`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommittedChange {
    /// A key of a table got a value, or lost it.
    Row {
        /// Number of the table.
        table: u32,
        /// Name of the table, if the feed knows it.
        name: Option<String>,
        /// The key.
        key: Bytes,
        /// New value of the key.
        new: CommittedValue,
        /// Former value of the key, if the feed has former values and the log contains this value.
        old: Option<Bytes>,
    },
    /// A table was created.
    Created(String),
    /// A table got another name.
    Renamed {
        /// Former name.
        from: String,
        /// New name.
        to: String,
    },
    /// A table was dropped.
    Dropped(String),
    /// An empty table was loaded in bulk.
    Loaded {
        /// Number of the table.
        table: u32,
        /// Name of the table, if the feed knows it.
        name: Option<String>,
    },
    /// A change of a kind that this program does not know.
    Unknown,
}

/// The new value of a key: [`katydid::NewValue`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommittedValue {
    /// The whole value.
    Value(Bytes),
    /// The new value is the former value in which the `replaced` bytes that begin at `offset` are
    /// replaced by `bytes`.
    Patch {
        /// Position of the first changed byte.
        offset: usize,
        /// Number of bytes that were replaced.
        replaced: usize,
        /// The new bytes.
        bytes: Bytes,
    },
    /// The key was deleted.
    Deleted,
    /// A value of a kind that this program does not know.
    Unknown,
}

impl Committed {
    /// Converts a whole transaction with the position after it; with former values if `old` is
    /// true.
    pub fn of(transaction: CommittedTransaction, position: &ChangePosition, old: bool) -> Committed {
        Committed {
            stamp: transaction.stamp.get(),
            position: position.to_string(),
            changes: transaction.changes.into_iter().map(|change| CommittedChange::of(change, old)).collect(),
            more: false,
        }
    }
}

impl CommittedChange {
    fn of(change: Change, with_old: bool) -> CommittedChange {
        match change {
            Change::Row { table, name, key, new, old, .. } => CommittedChange::Row {
                table: table.get(),
                name: name.map(|name| name.to_string()),
                key: Bytes(key),
                new: CommittedValue::of(new),
                old: match old {
                    OldValue::Value(old) if with_old => Some(Bytes(old)),
                    _ => None,
                },
            },
            Change::TableCreated { name, .. } => CommittedChange::Created(name.to_string()),
            Change::TableRenamed { from, to, .. } => {
                CommittedChange::Renamed { from: from.to_string(), to: to.to_string() }
            }
            Change::TableDropped { name, .. } => CommittedChange::Dropped(name.to_string()),
            Change::TableLoaded { table, name } => {
                CommittedChange::Loaded { table: table.get(), name: name.map(|name| name.to_string()) }
            }
            _ => CommittedChange::Unknown,
        }
    }

    /// Returns the bytes of the key and the values, which make up most of a frame.
    pub(crate) fn bytes(&self) -> usize {
        let CommittedChange::Row { key, new, old, .. } = self else { return 0 };
        let new = match new {
            CommittedValue::Value(bytes) | CommittedValue::Patch { bytes, .. } => bytes.0.len(),
            CommittedValue::Deleted | CommittedValue::Unknown => 0,
        };
        key.0.len() + new + old.as_ref().map_or(0, |old| old.0.len())
    }
}

impl CommittedValue {
    fn of(value: NewValue) -> CommittedValue {
        match value {
            NewValue::Value(value) => CommittedValue::Value(Bytes(value)),
            NewValue::Patch { offset, replaced, bytes } => {
                CommittedValue::Patch { offset, replaced, bytes: Bytes(bytes) }
            }
            NewValue::Deleted => CommittedValue::Deleted,
            _ => CommittedValue::Unknown,
        }
    }
}
