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

/// Bytes summed in one call of the fast routine before the streaming one takes over.
const SHORT_BYTES: usize = 256;

/// A CRC-32C over bytes that come in pieces.
///
/// Setting up the streaming state costs more than summing a usual record does, so short inputs are gathered and summed
/// at once.
pub(crate) struct Sum {
    short: [u8; SHORT_BYTES],
    used: usize,
    long: Option<Digest>,
}

impl Sum {
    pub(crate) fn new() -> Self {
        Sum { short: [0; SHORT_BYTES], used: 0, long: None }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.long {
            digest.update(bytes);
        } else if let Some(room) = self.short.get_mut(self.used..self.used + bytes.len()) {
            room.copy_from_slice(bytes);
            self.used += bytes.len();
        } else {
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            digest.update(&self.short[..self.used]);
            digest.update(bytes);
            self.long = Some(digest);
        }
    }

    pub(crate) fn finish(self) -> u32 {
        match self.long {
            // A 32-bit sum in a 64-bit word.
            Some(digest) => digest.finalize() as u32,
            None => crc_fast::crc32_iscsi(&self.short[..self.used]),
        }
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
        for cut in [0, 1, 36, 255, 256, 257, 1999, 2000] {
            assert_eq!(sum_of(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(sum_of(&[&bytes[..36], &bytes[36..256], &bytes[256..300], &bytes[300..]]), whole);
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
