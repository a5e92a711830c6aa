//! A version that recovery found, before it is a record.
//!
//! Pure; any thread.

use super::limit::{RECORD_BYTES, VERSION_BYTES};
use crate::ids::TableId;
use katydid_kernels::txn::Timestamp;

/// A version that recovery found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveredVersion<'a> {
    pub(crate) table: TableId,
    pub(crate) key: &'a [u8],
    /// None: deleted.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) timestamp: Timestamp,
}

impl RecoveredVersion<'_> {
    pub(super) fn bytes(&self) -> usize {
        loaded_bytes(self.key, self.value)
    }
}

/// Bytes that a loaded version is charged with, its record included. A tombstone is not charged:
/// there may be any number of deleted keys, and until everything is loaded it is not known which of
/// them may be forgotten.
pub(super) fn loaded_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    value.map_or(0, |value| value.len() + VERSION_BYTES + key.len() + RECORD_BYTES)
}

/// Bytes that versions have taken, and that those took which they replaced.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    pub(super) held: usize,
    pub(super) freed: usize,
}
