//! Rows that a repair reads out of a damaged database, and its losses.
//!
//! Nothing here does I/O. The paged engine reads the damaged files, and passes the tables and rows
//! to keep to [`crate::Database::repair`], through [`SalvagedRows`].

use crate::CommitStamp;
use crate::contested::KeyExcerpt;
use crate::error::Result;
use std::fmt;
use std::ops::Bound;

/// A loss: something that a repair does not bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Rows of a table whose keys lie between two bounds. The number of lost rows is not known.
    Keys {
        /// The table's name; if the name is lost as well, the name under which the table's other
        /// rows are kept.
        table: String,
        /// The lower bound.
        from: Bound<Vec<u8>>,
        /// The upper bound.
        to: Bound<Vec<u8>>,
    },
    /// Names of tables between two bounds. A table whose name is lost is kept under the name
    /// `recovered-` followed by its number, as far as its pages can be read.
    Tables {
        /// The lower bound.
        from: Bound<Vec<u8>>,
        /// The upper bound.
        to: Bound<Vec<u8>>,
    },
    /// Transactions with stamps above `after`. Each may be missing as a whole, or in part.
    Commits {
        /// The last stamp up to which all commits are complete, except for the other losses.
        after: CommitStamp,
    },
}

impl Loss {
    /// Returns whether the committed row at `key` of `table` may be missing, or have an older
    /// value, because of this loss.
    pub fn concerns(&self, table: &str, key: &[u8]) -> bool {
        let within = |from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>, key: &[u8]| {
            let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            std::ops::RangeBounds::<[u8]>::contains(&(from, to), key)
        };
        match self {
            Loss::Keys { table: name, from, to } => name == table && within(from, to, key),
            Loss::Tables { from, to } => within(from, to, table.as_bytes()),
            Loss::Commits { .. } => true,
        }
    }
}

/// A range of keys in words.
struct Between<'a>(&'a Bound<Vec<u8>>, &'a Bound<Vec<u8>>);

impl fmt::Display for Between<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &[u8]| KeyExcerpt::of(key).to_string();
        match self.0 {
            Bound::Unbounded => f.write_str("from the first")?,
            Bound::Included(low) => write!(f, "from {}", key(low))?,
            Bound::Excluded(low) => write!(f, "after {}", key(low))?,
        }
        match self.1 {
            Bound::Unbounded => f.write_str(" to the last"),
            Bound::Included(high) => write!(f, " up to and with {}", key(high)),
            Bound::Excluded(high) => write!(f, " up to {}, without it", key(high)),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Keys { table, from: Bound::Included(key), to: Bound::Included(last) } if key == last => {
                write!(f, "table {table:?}: the row of key {}", KeyExcerpt::of(key))
            }
            Loss::Keys { table, from, to } => {
                write!(f, "table {table:?}: rows with keys {}", Between(from, to))
            }
            Loss::Tables { from, to } => write!(f, "names of tables {}", Between(from, to)),
            Loss::Commits { after } if *after == CommitStamp::ZERO => {
                f.write_str("any commit may be missing, or be there in part: the log cannot be used")
            }
            Loss::Commits { after } => {
                write!(f, "commits with stamps above {after}: each may be missing, or be there in part")
            }
        }
    }
}

/// Result of a salvage.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    pub(crate) losses: Vec<Loss>,
    /// Remarks for the user that are no losses.
    pub(crate) notes: Vec<String>,
}

/// The receiver of the tables and rows that can be read.
pub(crate) trait SalvagedRows {
    /// Receives a table, whose rows follow.
    fn table(&mut self, name: &str) -> Result<()>;
    /// Receives a row of the last table. No key of a table comes twice.
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}
