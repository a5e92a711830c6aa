//! Blocks of rows. The parts of a checkpoint consist of such blocks. This code does no I/O, and no
//! input causes a panic in decoding.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `KTCB` |
//! | 4 | 4 | kind: 1 rows, 2 the end of the part |
//! | 8 | 4 | number of the part |
//! | 12 | 4 | number of the block in its part, from 0 |
//! | 16 | 4 | bytes of payload |
//! | 20 | 4 | number of rows in the payload |
//! | 24 | 4 | checksum (CRC-32C) of the payload |
//! | 28 | 4 | checksum of the database's id, the checkpoint's number, and the 28 bytes before |
//!
//! The payload of a block of rows has for each row: table u32, timestamp u64, bytes of the key u16,
//! kind u16 (1 a value, 2 deleted), bytes of the value u32, the key, the value. The payload of the
//! end block is the number of rows in the part, u64. Numbers are little-endian. A block begins at a
//! multiple of 4,096 bytes. The bytes between the payload and the next block are written as zeros
//! and not checked.

use super::manifest::Identity;
use crate::ids::TableId;
use crate::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Each block begins at a multiple of this number of bytes.
pub(super) const ALIGN: usize = 4096;
/// Bytes before the payload.
pub(super) const HEAD: usize = 32;
/// Bytes of a block, unless one row needs more.
pub(super) const BLOCK: usize = 256 << 10;
/// Bytes of a row before its key.
pub(super) const ROW_HEAD: usize = 20;
/// The largest payload: one row of the longest key and value, or a full block.
pub(super) const PAYLOAD_MAX: usize = ROW_HEAD + KEY_BYTES_MAX + VALUE_BYTES_MAX;

const MAGIC: [u8; 4] = *b"KTCB";

/// One version of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) table: TableId,
    pub(crate) timestamp: u64,
    pub(crate) key: &'a [u8],
    /// The value; `None` if the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
}

impl Row<'_> {
    /// Bytes of the row in a block.
    pub(super) fn encoded_len(&self) -> usize {
        ROW_HEAD + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Writes the row to the front of `to`, which is long enough, and returns the number of bytes.
    /// Key and value have lengths that the store allows.
    pub(super) fn encode(&self, to: &mut [u8]) -> usize {
        let value = self.value.unwrap_or_default();
        let kind: u16 = if self.value.is_some() { 1 } else { 2 };
        to[..4].copy_from_slice(&self.table.get().to_le_bytes());
        to[4..12].copy_from_slice(&self.timestamp.to_le_bytes());
        to[12..14].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        to[14..16].copy_from_slice(&kind.to_le_bytes());
        to[16..20].copy_from_slice(&(value.len() as u32).to_le_bytes());
        let value_at = ROW_HEAD + self.key.len();
        to[ROW_HEAD..value_at].copy_from_slice(self.key);
        to[value_at..value_at + value.len()].copy_from_slice(value);
        value_at + value.len()
    }
}

/// Reason why bytes are no row or block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Decodes the row at the front of `payload`. Also returns the bytes behind it.
pub(crate) fn decode_row(payload: &[u8]) -> Result<(Row<'_>, &[u8]), Malformed> {
    let (head, rest) = payload.split_at_checked(ROW_HEAD).ok_or(Malformed("a row's head is cut off"))?;
    let key_bytes = usize::from(u16::from_le_bytes(field(head, 12)));
    let value_bytes = u32::from_le_bytes(field(head, 16)) as usize;
    if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
        return Err(Malformed("the key or value of a row is too long"));
    }
    let (key, rest) = rest.split_at_checked(key_bytes).ok_or(Malformed("a row's key is cut off"))?;
    let (value, rest) = rest.split_at_checked(value_bytes).ok_or(Malformed("a row's value is cut off"))?;
    let value = match u16::from_le_bytes(field(head, 14)) {
        1 => Some(value),
        2 if value.is_empty() => None,
        2 => return Err(Malformed("a deleted key has a value")),
        _ => return Err(Malformed("a row is of an unknown kind")),
    };
    let table = TableId::new(u32::from_le_bytes(field(head, 0)));
    let timestamp = u64::from_le_bytes(field(head, 4));
    Ok((Row { table, timestamp, key, value }, rest))
}

/// Kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rows,
    End,
}

/// The head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) part: u32,
    pub(super) number: u32,
    pub(super) payload_bytes: u32,
    pub(super) rows: u32,
    pub(super) payload_sum: u32,
}

impl Head {
    /// Writes the head to the front of `block`.
    pub(super) fn encode(&self, block: &mut [u8], identity: Identity) {
        let kind: u32 = match self.kind {
            Kind::Rows => 1,
            Kind::End => 2,
        };
        block[..4].copy_from_slice(&MAGIC);
        let words = [kind, self.part, self.number, self.payload_bytes, self.rows, self.payload_sum];
        for (at, word) in (4..).step_by(4).zip(words) {
            block[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let sum = identity.checksum_with(&block[..HEAD - 4]);
        block[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes the head at the front of `block`, which must belong to the database and checkpoint
    /// of `identity`.
    pub(super) fn decode(block: &[u8], identity: Identity) -> Result<Head, Malformed> {
        let head = block.get(..HEAD).ok_or(Malformed("the part ends before its end block"))?;
        if head[..4] != MAGIC {
            return Err(Malformed("no block begins there"));
        }
        if identity.checksum_with(&head[..HEAD - 4]) != u32::from_le_bytes(field(head, HEAD - 4)) {
            return Err(Malformed("the head of a block has a wrong checksum"));
        }
        let word = |at| u32::from_le_bytes(field(head, at));
        let kind = match word(4) {
            1 => Kind::Rows,
            2 => Kind::End,
            _ => return Err(Malformed("a block is of an unknown kind")),
        };
        if word(16) as usize > PAYLOAD_MAX {
            return Err(Malformed("a block is too long"));
        }
        let (part, number, payload_bytes) = (word(8), word(12), word(16));
        Ok(Head { kind, part, number, payload_bytes, rows: word(20), payload_sum: word(24) })
    }

    /// Bytes of the block, including the free bytes behind the payload.
    pub(super) fn block_bytes(&self) -> usize {
        (HEAD + self.payload_bytes as usize).next_multiple_of(ALIGN)
    }
}

pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut raw = [0; N];
    raw.copy_from_slice(&bytes[at..at + N]);
    raw
}
