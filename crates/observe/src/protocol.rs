//! What can be asked, and the replies: typed, as JSON in frames ([`crate::frame`]). Pure.
//!
//! Every frame carries the number of the protocol. A program that meets another number refuses with [`Refusal::Protocol`], whatever the rest of
//! the frame says; a field or request that it does not know is [`Refusal::Request`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Bound;

/// The protocol of this version.
pub const PROTOCOL: u32 = 1;

/// A key or a value: in JSON its hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl<B: Into<Vec<u8>>> From<B> for Bytes {
    fn from(bytes: B) -> Bytes {
        Bytes(bytes.into())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected pairs of hexadecimal digits");
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        let pairs = text.as_bytes().chunks(2);
        let bytes: Result<Vec<u8>, D::Error> = pairs
            .map(|pair| match *pair {
                [high, low] => Ok((digit(high)? * 16 + digit(low)?) as u8),
                _ => Err(wrong()),
            })
            .collect();
        Ok(Bytes(bytes?))
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// The names of all tables, sorted. [`Reply::Tables`].
    Tables,
    /// The value of a key. [`Reply::Value`].
    Get {
        /// Name of the table.
        table: String,
        /// The key.
        key: Bytes,
    },
    /// Entries in the order of their keys, as many as fit one reply. Each reply is of one moment; a range that takes several is not. [`Reply::Rows`].
    Scan {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
        /// From the last key to the first.
        reverse: bool,
        /// At most so many entries.
        limit: u64,
    },
    /// How many keys there are, a part at a time. [`Reply::Count`].
    Count {
        /// Name of the table.
        table: String,
        /// The range of keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
    },
    /// Positions and counters. [`Reply::Stat`].
    Stat,
    /// The stretch of the log that follows the end of an archive, which is acknowledged. [`Reply::LogStretch`].
    LogStretch {
        /// Name of the archiver, which is made if there is none.
        archiver: String,
        /// Most bytes of log that are kept for it, if it is made.
        keep: u64,
        /// [`katydid::ArchiveMark`] as bytes; none of an empty archive.
        archived: Option<Bytes>,
        /// Whether the moment is to be noted if nothing more is durable.
        note: bool,
    },
}

/// What was asked for, or why it is not to be had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// Names of tables.
    Tables(Vec<String>),
    /// The value of a key that has one.
    Value(Option<Bytes>),
    /// Keys and values.
    Rows {
        /// In the order that was asked for.
        rows: Vec<(Bytes, Bytes)>,
        /// Whether the range may have more entries behind the last one.
        more: bool,
    },
    /// A number of keys.
    Count {
        /// Keys that were counted.
        count: u64,
        /// The last of them, if the range may have more behind it.
        last: Option<Bytes>,
    },
    /// [`katydid::Stat`] as a JSON object; its members are those of `katydid stat --json`.
    Stat(serde_json::Value),
    /// A stretch of the log.
    LogStretch {
        /// [`katydid::LogStretch`] as bytes, if more is durable.
        stretch: Option<Bytes>,
        /// Bytes of durable log behind it.
        left: u64,
    },
    /// It cannot be answered.
    Refused(Refusal),
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The other side speaks another protocol.
    #[error("it speaks protocol {0}, and this program protocol {PROTOCOL}")]
    Protocol(u32),
    /// The request cannot be read, or is not known.
    #[error("the request is not understood: {0}")]
    Request(String),
    /// There is no such table.
    #[error("there is no table {0:?}")]
    NoTable(String),
    /// As many clients as are served at a time are connected already.
    #[error("{0} other clients are connected")]
    Busy(usize),
    /// The database has failed to read; its error.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_read_back() {
        let keys = (Bound::Included(Bytes(b"\xff\x00".to_vec())), Bound::Unbounded);
        let request = Request::Scan { table: "t".into(), keys, reverse: true, limit: 7 };
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(
            json,
            r#"{"scan":{"table":"t","keys":[{"Included":"ff00"},"Unbounded"],"reverse":true,"limit":7}}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request);
        let reply = Reply::Value(Some(Bytes(vec![1, 171])));
        assert_eq!(serde_json::from_str::<Reply>(&serde_json::to_string(&reply).unwrap()).unwrap(), reply);
        for bad in [r#""0""#, r#""zz""#, r#""é""#, "1"] {
            assert!(serde_json::from_str::<Bytes>(bad).is_err(), "{bad}");
        }
    }
}
