//! The first block of the region of a log in NVRAM: encoding and decoding, without I/O.
//!
//! ```text
//! a sealed block (see `seal`), magic "KATYDNV2": 12 .. 16 zero u32 | 16 log id u128 | 32 ring bytes u64 | 40 entries u64 | zeros
//! ```
//!
//! The ring follows this block. In `nv_entries` and `nv_logging` the entries follow instead, and
//! then the heap, whose size is in `ring bytes`; only these kinds have entries. The header is
//! written when the log is made, before the control file has an incarnation above 0, and never
//! again.

use crate::seal::{self, Block, SEALED_BYTES, SealFault};
use katydid_device::Id;
use katydid_kernels::checksum::{read_u64, read_u128};

const MAGIC: &[u8; 8] = b"KATYDNV2";
/// Version of the region's format; a region of another version is refused. Since version 3 an entry
/// has half of its object's checksum.
pub(crate) const REGION_VERSION: u32 = 3;

/// Contents of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionHeader {
    pub log_id: Id,
    pub ring_bytes: u64,
    pub entries: u64,
}

impl RegionHeader {
    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = Box::new([0; SEALED_BYTES]);
        block[16..32].copy_from_slice(&self.log_id.to_le_bytes());
        block[32..40].copy_from_slice(&self.ring_bytes.to_le_bytes());
        block[40..48].copy_from_slice(&self.entries.to_le_bytes());
        seal::seal(&mut block, MAGIC, REGION_VERSION);
        block
    }

    pub(crate) fn decode(block: &Block) -> Result<Self, SealFault> {
        seal::check_seal(block, MAGIC, REGION_VERSION)?;
        Ok(RegionHeader {
            log_id: Id::new(read_u128(block, 16)),
            ring_bytes: read_u64(block, 32),
            entries: read_u64(block, 40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_damage_noticed() {
        let header = RegionHeader { log_id: Id::new(7 << 100 | 9), ring_bytes: 1 << 20, entries: 1 << 10 };
        let block = header.encode();
        assert_eq!(RegionHeader::decode(&block), Ok(header));
        for at in (0..56).chain(4080..4096) {
            let mut damaged = block.clone();
            damaged[at] ^= 0x10;
            assert_eq!(RegionHeader::decode(&damaged), Err(SealFault::Broken), "byte {at}");
        }
        assert_eq!(RegionHeader::decode(&[0; SEALED_BYTES]), Err(SealFault::Blank));
        let mut older = block;
        seal::seal(&mut older, MAGIC, 2);
        assert_eq!(RegionHeader::decode(&older), Err(SealFault::OtherVersion(2)));
    }
}
