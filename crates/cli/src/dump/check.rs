//! The counts and the checksum in the last line of a dump. Pure functions.

/// Counts and checksum of the lines so far.
#[derive(Debug, Default)]
pub struct Checked {
    pub tables: u64,
    pub rows: u64,
    sum: Sum,
}

#[derive(Debug)]
struct Sum(crc_fast::Digest);

impl Default for Sum {
    fn default() -> Sum {
        Sum(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Checked {
    /// Adds a line, which is given without its line feed.
    pub fn add(&mut self, line: &[u8]) {
        self.sum.0.update(line);
        self.sum.0.update(b"\n");
    }

    /// Returns the CRC-32C of all lines with their line feeds.
    pub fn sum(&self) -> String {
        format!("{:08x}", self.sum.0.finalize())
    }
}
