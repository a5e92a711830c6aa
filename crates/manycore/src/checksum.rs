//! The virtual form of the log's checksum: it costs what the machine says and is always zero.
//!
//! Nobody reads the records back here, so the real sum would only slow the simulation down.

use crate::vm;

/// Counts the bytes of a record.
pub(crate) struct Sum {
    bytes: u64,
}

impl Sum {
    pub(crate) fn new() -> Self {
        Sum { bytes: 0 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> u32 {
        vm::sum(self.bytes);
        0
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
