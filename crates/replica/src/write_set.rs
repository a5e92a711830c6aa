//! What a transaction changes, as replicas exchange it.
//!
//! Pure; any thread.

use serde::{Deserialize, Serialize};

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Sets the value of `key` in `table`, whether or not the key has one.
    Put {
        /// Name of the table, which is created if it is missing.
        table: String,
        /// The key: at most 1,024 bytes.
        key: Vec<u8>,
        /// The value: at most 16 MiB.
        value: Vec<u8>,
    },
    /// Removes `key` from `table`; no change if it is not there.
    Delete {
        /// Name of the table, which is created if it is missing.
        table: String,
        /// The key: at most 1,024 bytes.
        key: Vec<u8>,
    },
    /// Creates `table`; no change if it is there.
    CreateTable {
        /// Name of the table: 1 to 255 bytes.
        table: String,
    },
}

/// All changes of one transaction, in the order in which it made them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSet {
    /// The changes.
    pub writes: Vec<Write>,
}
