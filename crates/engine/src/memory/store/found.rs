//! A version that recovery has read, before it is in a record.
//!
//! Any thread runs this code, which does no I/O.

use super::limit::{RECORD_BYTES, VERSION_BYTES};
use crate::ids::TableId;
use katydid_kernels::txn::Timestamp;

/// A version that recovery has read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveredVersion<'a> {
    pub(crate) table: TableId,
    pub(crate) key: &'a [u8],
    /// The value; `None` if the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) timestamp: Timestamp,
}

impl RecoveredVersion<'_> {
    pub(super) fn bytes(&self) -> usize {
        loaded_bytes(self.key, self.value)
    }
}

/// Bytes that are charged for a loaded version, including its record. A tombstone is not charged:
/// there may be any number of deleted keys, and recovery knows only at its end which of them can be
/// removed.
pub(super) fn loaded_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    value.map_or(0, |value| value.len() + VERSION_BYTES + key.len() + RECORD_BYTES)
}

/// Bytes of the loaded versions, and of the versions that they have replaced.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    pub(super) held: usize,
    pub(super) freed: usize,
}
