//! The manifest, a file that names the source of a copy. Encoding and decoding do no I/O.
//!
//! `katydid.backup`, one block of 4,096 bytes: magic (8), version u32, checksum u32 (CRC-32C of the
//! block without these four bytes), id of the copy u128, id of its source u128, stamp u64,
//! incarnations u64 (openings of the copy's log, summed over its streams), id of its base u128 (0:
//! none, because the copy is whole), start of its log u64, zeros. Numbers are little-endian.
//!
//! A database that was opened is no copy any more, although the manifest stays. Such a database is
//! recognised because its log was opened more often than the manifest says.

use super::Copied;
use crate::error::{Error, Foreign, Result};
use crate::{CommitStamp, Lsn};
use katydid_device::{AlignedBuffer, Create, Directory, Id, Method, WriteMode};
use std::io::IoSlice;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "katydid.backup";

const MAGIC: [u8; 8] = *b"KTYDBKUP";
const VERSION: u32 = 1;
const BLOCK: usize = 4096;

/// Description of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Id of the copy.
    pub(crate) id: Id,
    /// Id of the database that was copied.
    pub(crate) source: Id,
    /// See [`crate::BackupReport::stamp`].
    pub(crate) stamp: CommitStamp,
    /// Sum of the incarnations of all streams of the copy's log when the copy was made.
    pub(crate) incarnations: u64,
    /// Id of the copy that this increment is based on; `None` if this copy is whole.
    pub(crate) base: Option<Id>,
    /// Paged engine: start of the copy's log. A page that the source changes after the copy has a
    /// page LSN of at least this position.
    pub(crate) log_start: Lsn,
}

impl Manifest {
    pub(super) fn of(id: Id, source: Id, base: Option<Id>, copied: &Copied) -> Manifest {
        let Copied { stamp, incarnations, log_start, .. } = *copied;
        Manifest { id, source, stamp, incarnations, base, log_start }
    }

    fn encode(&self) -> AlignedBuffer {
        let mut block = AlignedBuffer::new_zeroed(BLOCK);
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.id.to_le_bytes());
        block[32..48].copy_from_slice(&self.source.to_le_bytes());
        block[48..56].copy_from_slice(&self.stamp.get().to_le_bytes());
        block[56..64].copy_from_slice(&self.incarnations.to_le_bytes());
        block[64..80].copy_from_slice(&self.base.unwrap_or(Id::new(0)).to_le_bytes());
        block[80..88].copy_from_slice(&self.log_start.get().to_le_bytes());
        let sum = checksum(&block);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// Decodes a block. No input causes a panic. The error has the version if the block is valid
    /// but of a version that this program does not read.
    fn decode(block: &[u8]) -> std::result::Result<Manifest, Option<u32>> {
        if block.len() != BLOCK || block[..8] != MAGIC || word(block, 12) != checksum(block) {
            return Err(None);
        }
        if word(block, 8) != VERSION {
            return Err(Some(word(block, 8)));
        }
        Ok(Manifest {
            id: Id::from_le_bytes(std::array::from_fn(|nth| block[16 + nth])),
            source: Id::from_le_bytes(std::array::from_fn(|nth| block[32 + nth])),
            stamp: CommitStamp::new(long(block, 48)),
            incarnations: long(block, 56),
            base: Some(Id::from_le_bytes(std::array::from_fn(|nth| block[64 + nth])))
                .filter(|base| *base != Id::new(0)),
            log_start: Lsn::new(long(block, 80)),
        })
    }

    /// Writes the manifest. Its contents are durable when this returns; its name is not yet
    /// durable.
    pub(super) fn write(&self, directory: &dyn Directory, method: Method) -> Result<()> {
        let file = directory.open(FILE_NAME, Create::New, method)?;
        file.write_at(&[IoSlice::new(&self.encode())], 0, WriteMode::Durable)?;
        Ok(file.sync()?)
    }

    /// Reads the manifest of a directory; `None` if there is none.
    pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Manifest>> {
        let file = match directory.open_read_only(FILE_NAME) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let mut block = AlignedBuffer::new_zeroed(BLOCK);
        let read = file.read_at(&mut block, 0)?;
        Manifest::decode(&block[..read]).map(Some).map_err(|version| match version {
            Some(found) => Error::Foreign {
                place: directory.describe(),
                what: Foreign::NewerVersion { file: FILE_NAME.to_owned(), found, known: VERSION },
            },
            None => Error::Corrupt {
                place: FILE_NAME.to_owned(),
                page: None,
                finding: "its checksum does not match".to_owned(),
            },
        })
    }
}

fn checksum(block: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..12]);
    digest.update(&block[16..]);
    digest.finalize() as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_damage_noticed() {
        let manifest = Manifest {
            id: Id::new(7 << 90),
            source: Id::new(u128::MAX - 9),
            stamp: CommitStamp::new(1 << 61),
            incarnations: 12,
            base: Some(Id::new(5)),
            log_start: Lsn::new(1 << 60),
        };
        let block = manifest.encode();
        assert_eq!(Manifest::decode(&block), Ok(manifest));
        for at in (0..80).chain([4095]) {
            let mut damaged = block.to_vec();
            damaged[at] ^= 0x20;
            assert_eq!(Manifest::decode(&damaged), Err(None), "byte {at}");
        }
        assert_eq!(Manifest::decode(&block[..4095]), Err(None));
    }
}
