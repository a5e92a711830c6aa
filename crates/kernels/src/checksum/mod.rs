//! The checksum of records, and the little-endian integers that headers consist of.
//!
//! Pure functions. On the simulated machine a checksum costs simulated time and is always zero,
//! because no simulation reads records back.

#[cfg(not(katydid_simulated))]
mod crc;
#[cfg(not(katydid_simulated))]
pub use crc::Sum;
#[cfg(katydid_simulated)]
pub use katydid_virtual_machine::Sum;

/// The little-endian `u32` at `at`; zero if `bytes` is too short.
pub fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// The little-endian `u64` at `at`; zero if `bytes` is too short.
pub fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// The little-endian `u128` at `at`; zero if `bytes` is too short.
pub fn read_u128(bytes: &[u8], at: usize) -> u128 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u128::from_le_bytes(*word))
}
