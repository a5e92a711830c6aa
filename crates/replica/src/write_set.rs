//! Write sets: the changes of a transaction, as replicas exchange them.
//!
//! Any thread may use these pure functions. Invariant: the content of a write set alone decides
//! whether it is admissible, so all replicas decide alike.

use crate::error::{Error, Result};
use katydid::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Maximum bytes of one write set: 32 MiB. Each change counts with the bytes of its table's name,
/// its key and its value, and with 32 bytes more.
pub const WRITE_SET_BYTES_MAX: usize = 32 << 20;

/// Maximum bytes of the encoding of a change besides its name, key and value. The encoding of a
/// write set must fit a frame: a leader that had a longer entry in its log could not replicate the
/// entry, nor any entry after it.
const CHANGE_BYTES: usize = 32;

/// Longest name of a table in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Prefix of the names of tables that replicas reserve for their own use.
pub(crate) const RESERVED_PREFIX: &str = "katydid.";

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Write {
    /// Sets the value of `key` in `table`, whether or not the key is present.
    Put {
        /// Name of the table. The table is created if it is missing.
        table: String,
        /// The key: at most 1,024 bytes.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        /// The value: at most 16 MiB.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
    },
    /// Removes `key` from `table`. Changes nothing if the key is absent.
    Delete {
        /// Name of the table. The table is created if it is missing.
        table: String,
        /// The key: at most 1,024 bytes.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
    },
    /// Creates `table`. Changes nothing if the table exists.
    CreateTable {
        /// Name of the table: 1 to 255 bytes. Names that begin with `katydid.` are reserved.
        table: String,
    },
}

impl Write {
    /// Returns the name of the changed table.
    pub fn table(&self) -> &str {
        match self {
            Write::Put { table, .. } | Write::Delete { table, .. } | Write::CreateTable { table } => table,
        }
    }

    /// Returns the changed key; `None` for [`Write::CreateTable`].
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Write::Put { key, .. } | Write::Delete { key, .. } => Some(key),
            Write::CreateTable { .. } => None,
        }
    }

    fn bytes(&self) -> usize {
        let value = if let Write::Put { value, .. } = self { value.len() } else { 0 };
        CHANGE_BYTES + self.table().len() + self.key().map_or(0, <[u8]>::len) + value
    }
}

/// All changes of one transaction, in the order in which the transaction made them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSet {
    /// The changes.
    pub writes: Vec<Write>,
}

impl WriteSet {
    /// Adds a [`Write::Put`].
    #[must_use]
    pub fn put(mut self, table: &str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.writes.push(Write::Put { table: table.to_owned(), key, value });
        self
    }

    /// Adds a [`Write::Delete`].
    #[must_use]
    pub fn delete(mut self, table: &str, key: impl AsRef<[u8]>) -> Self {
        self.writes.push(Write::Delete { table: table.to_owned(), key: key.as_ref().to_vec() });
        self
    }

    /// Adds a [`Write::CreateTable`].
    #[must_use]
    pub fn create_table(mut self, table: &str) -> Self {
        self.writes.push(Write::CreateTable { table: table.to_owned() });
        self
    }

    /// Returns the bytes of all changes, as [`WRITE_SET_BYTES_MAX`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.writes.iter().map(Write::bytes).sum()
    }

    /// Checks that replicas would apply the write set.
    ///
    /// # Errors
    /// [`Error::Inadmissible`] if a name, a key, a value or the whole set is too long, or a name is
    /// empty or reserved.
    pub fn check(&self) -> Result<()> {
        let refuse = |table: &str, reason: &'static str| {
            Err(Error::Inadmissible { table: table.to_owned(), reason: reason.into() })
        };
        for write in &self.writes {
            let table = write.table();
            if !(1..=NAME_BYTES_MAX).contains(&table.len()) {
                return refuse(table, "its name must have 1 to 255 bytes");
            }
            if table.starts_with(RESERVED_PREFIX) {
                return refuse(table, "names that begin with \"katydid.\" are reserved");
            }
            if write.key().is_some_and(|key| key.len() > KEY_BYTES_MAX) {
                return refuse(table, "a key has more than 1,024 bytes");
            }
            if matches!(write, Write::Put { value, .. } if value.len() > VALUE_BYTES_MAX) {
                return refuse(table, "a value has more than 16 MiB");
            }
        }
        if self.bytes() > WRITE_SET_BYTES_MAX {
            let table = self.writes.last().map_or("", Write::table);
            return refuse(table, "the transaction writes more than 32 MiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_set_that_no_engine_takes_is_refused() {
        let long = vec![0; KEY_BYTES_MAX + 1];
        let large = vec![0; VALUE_BYTES_MAX];
        let good = WriteSet::default().put("a", &long[1..], &large).delete("b", "").create_table("c");
        assert!(good.check().is_ok());
        for bad in [
            WriteSet::default().put("a", &long, ""),
            WriteSet::default().delete("a", &long),
            WriteSet::default().put("a", "k", vec![0; VALUE_BYTES_MAX + 1]),
            WriteSet::default().create_table(""),
            WriteSet::default().create_table(&"n".repeat(256)),
            WriteSet::default().put("katydid.replica", "applied", ""),
            good.clone().put("a", "k", &large),
        ] {
            assert!(matches!(bad.check(), Err(Error::Inadmissible { .. })));
        }
    }
}
