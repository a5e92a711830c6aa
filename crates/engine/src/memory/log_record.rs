//! A transaction's writes as the payload of its log record.
//!
//! This code does no I/O. One record has all writes of a transaction, so after a crash the
//! transaction is there as a whole or not at all. The record has only after-images, because no
//! record is ever undone. For each write, little-endian:
//!
//! ```text
//! 0       4             8            10      12
//! | table | value bytes | key bytes | flags | key ... | value ... |
//! ```
//!
//! Flag 1 says that the key is deleted; no value follows.

use crate::error::Error;
use crate::ids::TableId;
use crate::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use katydid_wal::Kind;

/// The only kind of record: the writes of one transaction.
pub(crate) const WRITES: Kind = Kind::new(16);

const HEAD: usize = 12;
const DELETED: u16 = 1;

/// One write of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedWrite<'a> {
    pub(crate) table: TableId,
    pub(crate) key: &'a [u8],
    /// The new value; `None` if the key is deleted.
    pub(crate) value: Option<&'a [u8]>,
}

/// Appends a write to `payload`. Key and value have lengths that the store allows.
pub(crate) fn encode(write: &LoggedWrite<'_>, payload: &mut Vec<u8>) {
    let value = write.value.unwrap_or(&[]);
    let flags = if write.value.is_none() { DELETED } else { 0 };
    payload.extend_from_slice(&write.table.get().to_le_bytes());
    payload.extend_from_slice(&(value.len() as u32).to_le_bytes());
    payload.extend_from_slice(&(write.key.len() as u16).to_le_bytes());
    payload.extend_from_slice(&flags.to_le_bytes());
    payload.extend_from_slice(write.key);
    payload.extend_from_slice(value);
}

/// Iterator over the writes of a payload, which ends after the first malformed write.
#[derive(Debug, Clone)]
pub(crate) struct LoggedWrites<'a> {
    rest: &'a [u8],
    failed: bool,
}

/// Reason why a payload is malformed, as a text for `Error::Corrupt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl Malformed {
    /// Makes the error for the record at `place`.
    pub(crate) fn at(self, place: String) -> Error {
        Error::Corrupt { place, page: None, finding: self.0.to_owned() }
    }
}

/// Decodes a payload. `payload` may be any bytes: no input causes a panic.
pub(crate) fn decode(payload: &[u8]) -> LoggedWrites<'_> {
    LoggedWrites { rest: payload, failed: false }
}

impl<'a> LoggedWrites<'a> {
    fn take(&mut self) -> Result<LoggedWrite<'a>, Malformed> {
        let Some((head, rest)) = self.rest.split_first_chunk::<HEAD>() else {
            return Err(Malformed("the head of a write is cut off"));
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (table, value_bytes, key_bytes, flags) = (word(0), word(4) as usize, half(8) as usize, half(10));
        if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(Malformed("a write is longer than a key or value may be"));
        }
        if flags > DELETED || (flags == DELETED && value_bytes > 0) {
            return Err(Malformed("a write has unknown flags"));
        }
        if rest.len() < key_bytes + value_bytes {
            return Err(Malformed("a key or value is cut off"));
        }
        let (key, rest) = rest.split_at(key_bytes);
        let (value, rest) = rest.split_at(value_bytes);
        self.rest = rest;
        Ok(LoggedWrite { table: TableId::new(table), key, value: (flags != DELETED).then_some(value) })
    }
}

impl<'a> Iterator for LoggedWrites<'a> {
    type Item = Result<LoggedWrite<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        let write = self.take();
        self.failed = write.is_err();
        Some(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, Vec<LoggedWrite<'static>>) {
        let table = TableId::new(7);
        let writes = vec![
            LoggedWrite { table, key: b"apple", value: Some(b"red") },
            LoggedWrite { table: TableId::CATALOG, key: b"", value: Some(b"") },
            LoggedWrite { table, key: b"pear", value: None },
        ];
        let mut payload = Vec::new();
        writes.iter().for_each(|write| encode(write, &mut payload));
        (payload, writes)
    }

    #[test]
    fn writes_come_back_as_they_were() {
        let (payload, writes) = sample();
        let read: Result<Vec<_>, _> = decode(&payload).collect();
        assert_eq!(read, Ok(writes));
        assert_eq!(decode(&[]).next(), None);
    }

    #[test]
    fn a_payload_cut_off_anywhere_is_refused_or_ends_between_writes() {
        let (payload, writes) = sample();
        for length in 0..payload.len() {
            let read: Vec<_> = decode(&payload[..length]).collect();
            let good = read.iter().take_while(|write| write.is_ok()).count();
            for (read, written) in read.iter().zip(&writes).take(good) {
                assert_eq!(*read, Ok(*written));
            }
            assert!(read.len() <= good + 1);
        }
    }

    #[test]
    fn changed_lengths_and_flags_do_no_harm() {
        let (payload, _) = sample();
        for at in 0..payload.len() {
            for byte in [0, 1, 0x7F, 0xFF] {
                let mut changed = payload.clone();
                changed[at] = byte;
                assert!(decode(&changed).count() <= payload.len() / HEAD + 1);
            }
        }
    }
}
