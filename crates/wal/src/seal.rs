//! The format of a sealed block of 4 KiB, in which control slots and segment headers are written.
//!
//! Pure functions. The frame of a sealed block is the same in every version of the format, now and
//! later. A program can therefore distinguish a file of another version from a damaged one:
//!
//! ```text
//! 0       8         12                                        4092      4096
//! | magic | version | fields of that magic and version, zeros | CRC-32C |      little-endian; the sum covers 0..4092
//! ```

use katydid_kernels::checksum::read_u32;

/// Bytes of a sealed block.
pub(crate) const SEALED_BYTES: usize = 4096;
const SUM_AT: usize = SEALED_BYTES - 4;
/// Offset of a sealed block's own fields.
pub(crate) const FIELDS_AT: usize = 12;

/// The bytes of a sealed block.
pub(crate) type Block = [u8; SEALED_BYTES];

/// Reason why a sealed block cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealFault {
    /// All zeros: nothing was ever written here.
    Blank,
    /// Wrong magic or sum.
    Broken,
    /// Sound, but of this version, which the program does not read.
    OtherVersion(u32),
}

/// Completes a block whose fields are in place.
pub(crate) fn seal(block: &mut Block, magic: &[u8; 8], version: u32) {
    block[..8].copy_from_slice(magic);
    block[8..FIELDS_AT].copy_from_slice(&version.to_le_bytes());
    let sum = crc_fast::crc32_iscsi(&block[..SUM_AT]);
    block[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// Checks a block's frame. `supported` is the only version that this program reads; versions start
/// at 1.
pub(crate) fn check_seal(block: &Block, magic: &[u8; 8], supported: u32) -> Result<(), SealFault> {
    if block.iter().all(|&byte| byte == 0) {
        return Err(SealFault::Blank);
    }
    if block[..8] != magic[..] || crc_fast::crc32_iscsi(&block[..SUM_AT]) != read_u32(block, SUM_AT) {
        return Err(SealFault::Broken);
    }
    match read_u32(block, 8) {
        0 => Err(SealFault::Broken),
        version if version != supported => Err(SealFault::OtherVersion(version)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_tells_blank_broken_and_other_versions_apart() {
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
        assert_eq!(check_seal(&block, b"magicmag", 2), Ok(()));
        assert_eq!(check_seal(&block, b"magicmag", 1), Err(SealFault::OtherVersion(2)));
        assert_eq!(check_seal(&block, b"magicmag", 3), Err(SealFault::OtherVersion(2)));
        seal(&mut block, b"magicmag", 0);
        assert_eq!(check_seal(&block, b"magicmag", 1), Err(SealFault::Broken));
    }
}
