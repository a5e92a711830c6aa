//! Names, places and headers of segment files.
//!
//! Pure functions.
//!
//! ```text
//! log.<index, 16 hex digits>: | header, 4 KiB | capacity = segment bytes - 4 KiB of the log, from where the one before ends |
//! header: a sealed block (see `seal`), magic "KATYDSEG"
//!   12 incarnation at preparation u32 | 16 log id u128 | 32 index u64 | 40 base LSN u64 | 48 previous end u64
//!   56 segment bytes u64 | zeros
//! ```
//!
//! `geometry.rs` computes the size of each segment.

use crate::control::FORMAT_VERSION;
use crate::geometry::Geometry;
use crate::seal::{self, Block, SEALED_BYTES, SealFault};
use katydid_device::Id;
use katydid_kernels::checksum::{read_u32, read_u64, read_u128};
use katydid_kernels::lsn::Lsn;

const MAGIC: &[u8; 8] = b"KATYDSEG";
const PREFIX: &str = "log.";
/// Name of a segment that is being made.
pub(crate) const UNFINISHED_NAME: &str = "log.prepare";

/// Returns the name of the segment with this index.
pub(crate) fn name(index: u64) -> String {
    format!("{PREFIX}{index:016x}")
}

/// Returns the index of the segment with this name; `None` if the name is not a segment's.
pub(crate) fn index_of_name(file: &str) -> Option<u64> {
    let digits = file.strip_prefix(PREFIX)?;
    let canonical =
        digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if canonical { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// Contents of a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub log_id: Id,
    pub index: u64,
    pub base: Lsn,
    /// End of the segment before; always `base`.
    pub previous_end: Lsn,
    /// The log's incarnation when the segment was prepared.
    pub incarnation: u32,
    pub segment_bytes: u64,
}

impl SegmentHeader {
    pub(crate) fn new(geometry: Geometry, log_id: Id, index: u64, incarnation: u32) -> Self {
        let base = geometry.base(index);
        let segment_bytes = geometry.segment_bytes(index);
        SegmentHeader { log_id, index, base, previous_end: base, incarnation, segment_bytes }
    }

    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = Box::new([0; SEALED_BYTES]);
        block[12..16].copy_from_slice(&self.incarnation.to_le_bytes());
        block[16..32].copy_from_slice(&self.log_id.to_le_bytes());
        block[32..40].copy_from_slice(&self.index.to_le_bytes());
        block[40..48].copy_from_slice(&self.base.get().to_le_bytes());
        block[48..56].copy_from_slice(&self.previous_end.get().to_le_bytes());
        block[56..64].copy_from_slice(&self.segment_bytes.to_le_bytes());
        seal::seal(&mut block, MAGIC, FORMAT_VERSION);
        block
    }

    pub(crate) fn decode(block: &Block) -> Result<Self, SealFault> {
        seal::check_seal(block, MAGIC, FORMAT_VERSION)?;
        Ok(SegmentHeader {
            log_id: Id::new(read_u128(block, 16)),
            index: read_u64(block, 32),
            base: Lsn::new(read_u64(block, 40)),
            previous_end: Lsn::new(read_u64(block, 48)),
            incarnation: read_u32(block, 12),
            segment_bytes: read_u64(block, 56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_not_segments() {
        for index in [0, 1, 0xabc, u64::MAX] {
            assert_eq!(index_of_name(&name(index)), Some(index));
        }
        let others =
            ["log.control", "log.prepare", "log.00", "log.00000000000000AB", "log.+000000000000001", "x"];
        for other in others {
            assert_eq!(index_of_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_header_is_read_back_and_damage_noticed() {
        let header = SegmentHeader::new(Geometry::new(1 << 20), Id::new(77), 5, 3);
        let block = header.encode();
        assert_eq!(SegmentHeader::decode(&block), Ok(header));
        for at in (0..70).chain(4080..4096) {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), Err(SealFault::Broken), "byte {at}");
        }
    }
}
