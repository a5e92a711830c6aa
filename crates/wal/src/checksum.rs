//! CRC-32C over several pieces, and the sealed 4 KiB block that control slots and segment headers share.
//!
//! Pure; any thread. The frame of a sealed block is the same in every version of the format, now and later, so that an
//! old program can tell a newer file from a damaged one:
//!
//! ```text
//! 0       8         12                                        4092      4096
//! | magic | version | fields of that magic and version, zeros | CRC-32C |      little-endian; the sum covers 0..4092
//! ```

use crc_fast::{CrcAlgorithm, Digest};

/// Longer pieces go to the library, which sums them in several lanes; setting that up costs more than a usual piece does.
const SHORT_BYTES: usize = 512;

/// A CRC-32C over bytes that come in pieces.
///
/// A record's pieces are short and apart: gathering them for one call of the library took 38 ns for a 120-byte record, one call for each
/// piece 22 ns, and the processor's instruction, where there is one, takes 9 ns.
pub(crate) struct Sum {
    /// Not yet inverted.
    state: u32,
}

impl Sum {
    #[inline]
    pub(crate) fn new() -> Self {
        Sum { state: !0 }
    }

    #[inline(always)]
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let short = if bytes.len() <= SHORT_BYTES { instruction::sum(self.state, bytes) } else { None };
        self.state = match short {
            Some(state) => state,
            None => in_lanes(self.state, bytes),
        };
    }

    #[inline]
    pub(crate) fn finish(self) -> u32 {
        !self.state
    }
}

#[inline(never)]
fn in_lanes(state: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(state));
    digest.update(bytes);
    // A 32-bit sum in a 64-bit word.
    digest.get_state() as u32
}

/// Eight bytes at a time by the processor's own instruction.
#[cfg(target_arch = "x86_64")]
mod instruction {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

    /// Nothing where there is none.
    #[inline]
    pub(super) fn sum(state: u32, bytes: &[u8]) -> Option<u32> {
        // SAFETY: it is there.
        std::arch::is_x86_feature_detected!("sse4.2").then(|| unsafe { words(state, bytes) })
    }

    #[target_feature(enable = "sse4.2")]
    fn words(state: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let state = words.fold(u64::from(state), |state, word| _mm_crc32_u64(state, word)) as u32;
        rest.iter().fold(state, |state, byte| _mm_crc32_u8(state, *byte))
    }
}

/// Eight bytes at a time by the processor's own instruction.
#[cfg(target_arch = "aarch64")]
mod instruction {
    use std::arch::aarch64::{__crc32cb, __crc32cd};

    /// Nothing where there is none.
    #[inline]
    pub(super) fn sum(state: u32, bytes: &[u8]) -> Option<u32> {
        // SAFETY: it is there.
        std::arch::is_aarch64_feature_detected!("crc").then(|| unsafe { words(state, bytes) })
    }

    #[target_feature(enable = "crc")]
    fn words(state: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks();
        let state = words.iter().fold(state, |state, word| __crc32cd(state, u64::from_le_bytes(*word)));
        rest.iter().fold(state, |state, byte| __crc32cb(state, *byte))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod instruction {
    /// There is none.
    pub(super) fn sum(_state: u32, _bytes: &[u8]) -> Option<u32> {
        None
    }
}

/// Bytes of a sealed block.
pub(crate) const SEALED_BYTES: usize = 4096;
const SUM_AT: usize = SEALED_BYTES - 4;
/// Where a sealed block's own fields begin.
pub(crate) const FIELDS_AT: usize = 12;

/// A sealed block's content.
pub(crate) type Block = [u8; SEALED_BYTES];

/// Why a sealed block cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealFault {
    /// All zeros: nothing was ever written here.
    Blank,
    /// Wrong magic or sum.
    Broken,
    /// Sound, but of a version this program does not know.
    Newer(u32),
}

/// Completes a block whose fields are in place.
pub(crate) fn seal(block: &mut Block, magic: &[u8; 8], version: u32) {
    block[..8].copy_from_slice(magic);
    block[8..FIELDS_AT].copy_from_slice(&version.to_le_bytes());
    let sum = crc_fast::crc32_iscsi(&block[..SUM_AT]);
    block[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// Checks a block's frame. `supported` is the newest version this program reads; versions start at 1.
pub(crate) fn check_seal(block: &Block, magic: &[u8; 8], supported: u32) -> Result<(), SealFault> {
    if block.iter().all(|&byte| byte == 0) {
        return Err(SealFault::Blank);
    }
    if block[..8] != magic[..] || crc_fast::crc32_iscsi(&block[..SUM_AT]) != read_u32(block, SUM_AT) {
        return Err(SealFault::Broken);
    }
    match read_u32(block, 8) {
        0 => Err(SealFault::Broken),
        version if version > supported => Err(SealFault::Newer(version)),
        _ => Ok(()),
    }
}

/// The little-endian `u32` at `at`; zero if `bytes` ends before it does.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// The little-endian `u64` at `at`; zero if `bytes` ends before it does.
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// The little-endian `u128` at `at`; zero if `bytes` ends before it does.
pub(crate) fn read_u128(bytes: &[u8], at: usize) -> u128 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u128::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(pieces: &[&[u8]]) -> u32 {
        let mut sum = Sum::new();
        pieces.iter().for_each(|piece| sum.update(piece));
        sum.finish()
    }

    #[test]
    fn the_sum_is_crc_32c_however_the_bytes_are_cut() {
        assert_eq!(sum_of(&[b"123456789"]), 0xe306_9283);
        assert_eq!(sum_of(&[]), 0);
        let bytes: Vec<u8> = (0..2000u32).map(|n| (n * 7) as u8).collect();
        let whole = crc_fast::crc32_iscsi(&bytes);
        for cut in [0, 1, 36, 255, 511, 512, 513, 1487, 1488, 1489, 1999, 2000] {
            assert_eq!(sum_of(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        // Short and long pieces in turn, and all the short ones' lengths.
        assert_eq!(sum_of(&[&bytes[..36], &bytes[36..256], &bytes[256..900], &bytes[900..]]), whole);
        for length in 0..100 {
            assert_eq!(
                sum_of(&[&bytes[..length]]),
                crc_fast::crc32_iscsi(&bytes[..length]),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_seal_tells_blank_broken_and_newer_apart() {
        let mut block = [0; SEALED_BYTES];
        assert_eq!(check_seal(&block, b"magicmag", 1), Err(SealFault::Blank));
        block[100] = 9;
        seal(&mut block, b"magicmag", 1);
        assert_eq!(check_seal(&block, b"magicmag", 1), Ok(()));
        assert_eq!(check_seal(&block, b"another!", 1), Err(SealFault::Broken));
        for at in [0, 9, 100, 4000, 4095] {
            let mut damaged = block;
            damaged[at] ^= 1;
            assert_eq!(check_seal(&damaged, b"magicmag", 1), Err(SealFault::Broken), "byte {at}");
        }
        seal(&mut block, b"magicmag", 2);
        assert_eq!(check_seal(&block, b"magicmag", 1), Err(SealFault::Newer(2)));
        seal(&mut block, b"magicmag", 0);
        assert_eq!(check_seal(&block, b"magicmag", 1), Err(SealFault::Broken));
    }
}
