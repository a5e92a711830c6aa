//! The table and keys of a conflict between two transactions, and keys as errors show them. Nothing
//! here does I/O.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes of a key that an error keeps and shows.
const SHOWN: usize = 48;

/// The beginning of a key, as errors show it: at most 48 bytes of the key, and the key's length.
///
/// `Display` writes the excerpt in quotes and escapes bytes that are not printable ASCII, so that
/// no key can break a line of a log or a terminal.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct KeyExcerpt {
    start: Box<[u8]>,
    length: usize,
}

impl KeyExcerpt {
    /// Makes the excerpt of `key`.
    pub fn of(key: &[u8]) -> Self {
        KeyExcerpt { start: key[..key.len().min(SHOWN)].into(), length: key.len() }
    }

    /// Returns the first bytes of the key, at most 48.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns the length of the whole key in bytes.
    pub fn key_length(&self) -> usize {
        self.length
    }
}

impl fmt::Display for KeyExcerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.start.escape_ascii())?;
        if self.start.len() < self.length {
            write!(f, ".. ({} bytes)", self.length)?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyExcerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The part of a table over which two transactions were in conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContestedKeys {
    /// The whole table, which one of the two transactions drops, checks or loads in bulk.
    All,
    /// One key, present or not.
    Key(KeyExcerpt),
    /// The keys between two bounds.
    Range(Bound<KeyExcerpt>, Bound<KeyExcerpt>),
}

/// The keys that a transaction wanted when it met a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contested {
    /// Name of the table.
    pub table: Arc<str>,
    /// The keys that the transaction wanted.
    pub keys: ContestedKeys,
    /// Age of the transaction that holds the keys, measured when the conflict was found. On Linux
    /// the age is measured in steps of the kernel's tick, 1 to 10 ms. `None` if the holder is not
    /// known or has ended, and in the memory engine for each conflict that is no time-out.
    pub holder_open: Option<Duration>,
}

impl Contested {
    /// A conflict over one key of `table`.
    pub(crate) fn key(table: Arc<str>, key: &[u8]) -> Self {
        Contested { table, keys: ContestedKeys::Key(KeyExcerpt::of(key)), holder_open: None }
    }
}

/// Displays the keys and the table, for example `key "a" of table "t"`.
impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keys {
            ContestedKeys::All => {}
            ContestedKeys::Key(key) => write!(f, "key {key} of ")?,
            ContestedKeys::Range(low, high) => {
                match low {
                    Bound::Included(key) => write!(f, "keys [{key}, "),
                    Bound::Excluded(key) => write!(f, "keys ({key}, "),
                    Bound::Unbounded => write!(f, "keys (.., "),
                }?;
                match high {
                    Bound::Included(key) => write!(f, "{key}] of "),
                    Bound::Excluded(key) => write!(f, "{key}) of "),
                    Bound::Unbounded => write!(f, "..) of "),
                }?;
            }
        }
        write!(f, "table {:?}", self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_escaped_and_cut() {
        assert_eq!(KeyExcerpt::of(b"a\x1b[2J\"").to_string(), r#""a\x1b[2J\"""#);
        assert_eq!(KeyExcerpt::of(&[b'x'; 48]).to_string(), format!("{:?}", "x".repeat(48)));
        let long = KeyExcerpt::of(&[b'x'; 1024]);
        assert_eq!(long.to_string(), format!("{:?}.. (1024 bytes)", "x".repeat(48)));
        assert_eq!((long.start().len(), long.key_length()), (48, 1024));
    }

    #[test]
    fn what_was_contested_names_table_and_keys() {
        let table: Arc<str> = Arc::from("t\n");
        let mut contested = Contested::key(table, b"a");
        assert_eq!(contested.to_string(), r#"key "a" of table "t\n""#);
        let key = KeyExcerpt::of(b"b");
        contested.keys = ContestedKeys::Range(Bound::Excluded(key.clone()), Bound::Included(key));
        assert_eq!(contested.to_string(), r#"keys ("b", "b"] of table "t\n""#);
        contested.keys = ContestedKeys::Range(Bound::Unbounded, Bound::Unbounded);
        assert_eq!(contested.to_string(), r#"keys (.., ..) of table "t\n""#);
        contested.keys = ContestedKeys::All;
        assert_eq!(contested.to_string(), r#"table "t\n""#);
    }
}
