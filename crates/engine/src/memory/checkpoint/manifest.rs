//! The heads of a checkpoint's files: the head of each part, and the manifest, which consists of a
//! head only. This code does no I/O, and no input causes a panic in decoding.
//!
//! Both heads begin with magic (8 bytes), version u32, checksum u32 (CRC-32C of the head without
//! these four bytes), database id u128, number of the checkpoint u64. A part's head has 4,096
//! bytes; after the common fields comes the number of the part u32. The manifest has 8,192 bytes;
//! after the common fields come the exclusive limit of the table ids u32, the number of parts u16,
//! the number of streams u16, and an upper bound of the rows' timestamps u64. Then come for each
//! part a u64 for its rows and a u64 for its bytes, and for each stream a u64, the position from
//! which its log is needed. The remaining bytes are zero. Numbers are little-endian.

use super::block::{ALIGN, field};
use crate::Lsn;
use katydid_device::Id;

const MAGIC_PART: [u8; 8] = *b"KTYDCKPT";
const MAGIC_MANIFEST: [u8; 8] = *b"KTYDCKPM";
/// The newest version that is known.
pub(super) const VERSION: u32 = 1;
/// Bytes of the head of a part.
pub(super) const PART_HEAD: usize = ALIGN;
/// Bytes of the manifest.
pub(super) const MANIFEST: usize = 2 * ALIGN;
const PARTS_AT: usize = 56;
/// Maximum number of parts of a checkpoint.
pub(crate) const PARTS_MAX: usize = 256;
const STREAMS_MAX: usize = 256;
const _: () = assert!(PARTS_AT + 16 * PARTS_MAX + 8 * STREAMS_MAX <= MANIFEST);

/// Identifies the checkpoint to which a file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) database: Id,
    pub(super) number: u64,
}

impl Identity {
    /// The checksum of `bytes` in a file of this checkpoint. The checksum includes the identity, so
    /// the same bytes in a file of another checkpoint do not match.
    pub(super) fn checksum_with(self, bytes: &[u8]) -> u32 {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.database.to_le_bytes());
        digest.update(&self.number.to_le_bytes());
        digest.update(bytes);
        digest.finalize() as u32
    }
}

/// Number and sizes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartSummary {
    /// Number of the part.
    pub(crate) part: u32,
    pub(crate) rows: u64,
    /// Bytes of the part's file.
    pub(crate) bytes: u64,
}

/// The values of a checkpoint other than its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Exclusive limit of the table ids in use.
    pub(crate) next_table: u32,
    /// Upper bound of the timestamps of all rows.
    pub(crate) greatest: u64,
    /// For each stream, a position such that the checkpoint covers every record below it.
    pub(crate) from: Vec<Lsn>,
    /// The parts of the checkpoint, in the order of their numbers, which begin at 0.
    pub(crate) parts: Vec<PartSummary>,
}

/// Reason why bytes are not the head of the wanted file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged(&'static str),
    Newer(u32),
    /// A valid head of another database or checkpoint.
    Other,
}

fn seal(head: &mut [u8], magic: [u8; 8], identity: Identity) {
    head[..8].copy_from_slice(&magic);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[16..32].copy_from_slice(&identity.database.to_le_bytes());
    head[32..40].copy_from_slice(&identity.number.to_le_bytes());
    mend(head);
}

/// Writes the checksum of a head into the head.
pub(super) fn mend(head: &mut [u8]) {
    let sum = sum_of(head);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
}

fn sum_of(head: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[..12]);
    digest.update(&head[16..]);
    digest.finalize() as u32
}

fn check(head: &[u8], length: usize, magic: [u8; 8], identity: Identity) -> Result<(), Fault> {
    if head.len() != length {
        return Err(Fault::Damaged("it is cut off"));
    }
    if head[..8] != magic {
        return Err(Fault::Damaged("it does not begin with the magic number of such a file"));
    }
    if sum_of(head) != u32::from_le_bytes(field(head, 12)) {
        return Err(Fault::Damaged("its head has a wrong checksum"));
    }
    match u32::from_le_bytes(field(head, 8)) {
        VERSION => {}
        0 => return Err(Fault::Damaged("it has no version")),
        newer => return Err(Fault::Newer(newer)),
    }
    let found = Identity {
        database: Id::from_le_bytes(field(head, 16)),
        number: u64::from_le_bytes(field(head, 32)),
    };
    if found == identity { Ok(()) } else { Err(Fault::Other) }
}

/// Fills the head of a part.
pub(super) fn encode_part(head: &mut [u8], identity: Identity, part: u32) {
    head.fill(0);
    head[40..44].copy_from_slice(&part.to_le_bytes());
    seal(head, MAGIC_PART, identity);
}

/// Checks that `head` is the head of part `part`.
pub(super) fn check_part(head: &[u8], identity: Identity, part: u32) -> Result<(), Fault> {
    check(head, PART_HEAD, MAGIC_PART, identity)?;
    if u32::from_le_bytes(field(head, 40)) == part { Ok(()) } else { Err(Fault::Other) }
}

impl Manifest {
    /// Returns whether the manifest has room for all parts and streams.
    pub(super) fn fits(&self) -> bool {
        self.parts.len() <= PARTS_MAX && self.from.len() <= STREAMS_MAX
    }

    /// Writes the manifest to `bytes`. The manifest must fit, and `bytes` has the length
    /// [`MANIFEST`].
    pub(super) fn encode(&self, bytes: &mut [u8], identity: Identity) {
        bytes.fill(0);
        bytes[40..44].copy_from_slice(&self.next_table.to_le_bytes());
        bytes[44..46].copy_from_slice(&(self.parts.len() as u16).to_le_bytes());
        bytes[46..48].copy_from_slice(&(self.from.len() as u16).to_le_bytes());
        bytes[48..56].copy_from_slice(&self.greatest.to_le_bytes());
        let parts = self.parts.iter().flat_map(|part| [part.rows, part.bytes]);
        let words = parts.chain(self.from.iter().map(|lsn| lsn.get()));
        for (place, word) in bytes[PARTS_AT..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        seal(bytes, MAGIC_MANIFEST, identity);
    }

    /// Decodes a manifest.
    pub(super) fn decode(bytes: &[u8], identity: Identity) -> Result<Manifest, Fault> {
        check(bytes, MANIFEST, MAGIC_MANIFEST, identity)?;
        let count = |at| usize::from(u16::from_le_bytes(field(bytes, at)));
        let (parts, streams) = (count(44), count(46));
        if parts > PARTS_MAX || streams > STREAMS_MAX {
            return Err(Fault::Damaged("it has too many parts or streams"));
        }
        let word = |nth: usize| u64::from_le_bytes(field(bytes, PARTS_AT + 8 * nth));
        let part = |nth| PartSummary { part: nth as u32, rows: word(2 * nth), bytes: word(2 * nth + 1) };
        Ok(Manifest {
            next_table: u32::from_le_bytes(field(bytes, 40)),
            greatest: u64::from_le_bytes(field(bytes, 48)),
            from: (0..streams).map(|nth| Lsn::new(word(2 * parts + nth))).collect(),
            parts: (0..parts).map(part).collect(),
        })
    }
}
