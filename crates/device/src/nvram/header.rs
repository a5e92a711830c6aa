//! The first bytes of a region's file: encoding and decoding. Pure functions.
//!
//! ```text
//! "KATYDNVR" | 8 version u32 | 12 zero u32 | 16 bytes of the region u64 | 24 sum u64 | zeros to 4,096
//! ```
//!
//! All numbers are little-endian, and the sum covers all bytes before it. The region's bytes follow
//! the header. The header does not change once the file has its name.

use crate::error::NvramFault;
use crate::nvram::LINE_BYTES;
use crate::sum::sum;

/// Newest version that this program reads, and the one it writes.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"KATYDNVR";
/// Bytes of the file before the region's first byte.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Bytes of the header before its padding.
pub(super) const SEALED_BYTES: usize = 32;

/// Returns the number of bytes of a file that holds a region of `bytes`; refuses a length that no
/// region can have.
pub(super) fn file_bytes(bytes: u64) -> Result<u64, NvramFault> {
    let total = bytes.checked_add(HEADER_BYTES).filter(|total| isize::try_from(*total).is_ok());
    match total {
        Some(total) if bytes > 0 && bytes.is_multiple_of(LINE_BYTES) => Ok(total),
        _ => Err(NvramFault::Bytes(bytes)),
    }
}

/// Encodes the header of a region of `bytes`, without the zeros behind it.
pub(super) fn encode(bytes: u64) -> [u8; SEALED_BYTES] {
    let mut block = [0; SEALED_BYTES];
    block[..8].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    block[16..24].copy_from_slice(&bytes.to_le_bytes());
    let sum = sum(&block[..24]);
    block[24..].copy_from_slice(&sum.to_le_bytes());
    block
}

/// Decodes the length in bytes of the region whose file begins with `read`.
pub(super) fn decode(read: &[u8]) -> Result<u64, NvramFault> {
    let Some(block) = read.first_chunk::<SEALED_BYTES>() else { return Err(NvramFault::Foreign) };
    if block[..8] != *MAGIC {
        return Err(NvramFault::Foreign);
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|nth| block[at + nth]));
    if sum(&block[..24]) != word(24) {
        return Err(NvramFault::Damaged);
    }
    let version = word(8) as u32;
    if version > VERSION {
        return Err(NvramFault::Newer(version));
    }
    let bytes = word(16);
    file_bytes(bytes).map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_damage_noticed() {
        let block = encode(640);
        assert_eq!(decode(&block), Ok(640));
        assert_eq!(decode(&[block.as_slice(), &[0; 64]].concat()), Ok(640));
        for at in 0..SEALED_BYTES {
            let mut damaged = block;
            damaged[at] ^= 1;
            let expected = if at < 8 { NvramFault::Foreign } else { NvramFault::Damaged };
            assert_eq!(decode(&damaged), Err(expected), "byte {at}");
            assert_eq!(decode(&block[..at]), Err(NvramFault::Foreign), "cut at {at}");
        }
        let mut newer = block;
        newer[8] = 2;
        let sealed = sum(&newer[..24]);
        newer[24..].copy_from_slice(&sealed.to_le_bytes());
        assert_eq!(decode(&newer), Err(NvramFault::Newer(2)));
        assert_eq!(decode(&encode(63)), Err(NvramFault::Bytes(63)), "sealed, and no length of a region");
    }

    /// The format of version 1, byte by byte.
    #[test]
    fn version_1_is_read() {
        let fixture = *b"KATYDNVR\x01\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0";
        let mut block = [0; SEALED_BYTES];
        block[..24].copy_from_slice(&fixture);
        block[24..].copy_from_slice(&FIXTURE_SUM.to_le_bytes());
        assert_eq!(decode(&block), Ok(4096));
        assert_eq!(encode(4096), block);
    }

    const FIXTURE_SUM: u64 = 0x4666_2b06_a026_059d;

    #[test]
    fn lengths_that_no_region_has_are_refused() {
        assert_eq!(file_bytes(64), Ok(4160));
        for bytes in [0, 1, 63, 65, u64::MAX, u64::MAX - 63, 1 << 63, (1 << 63) - 64] {
            assert_eq!(file_bytes(bytes), Err(NvramFault::Bytes(bytes)));
        }
    }
}
