//! The directory and offset of each byte of a striped file. Pure functions.
//!
//! ```text
//! file        | unit 0 | unit 1 | unit 2 | unit 3 | unit 4 | ...
//! directory 0 | unit 0 | unit 3 | ...        each directory holds every `count`th unit, one after the other
//! directory 1 | unit 1 | unit 4 | ...
//! directory 2 | unit 2 | ...
//! ```

/// Longest striped file in bytes: far from where sums overflow.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 60;

/// The unit and the number of directories over which a file is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) unit: u64,
    pub(super) count: usize,
}

impl Layout {
    /// Returns the directory that holds a byte.
    pub(super) fn directory(&self, at: u64) -> usize {
        (at / self.unit % self.count as u64) as usize
    }

    /// Returns the number of bytes from `at` to the end of its unit.
    pub(super) fn left(&self, at: u64) -> u64 {
        self.unit - at % self.unit
    }

    /// Returns the number of bytes that a directory holds of the file's first `end` bytes. This is
    /// also the offset, in the directory's part, of the first byte at or above `end` that the
    /// directory holds.
    pub(super) fn share(&self, nth: usize, end: u64) -> u64 {
        let row = self.unit * self.count as u64;
        let rest = (end % row).saturating_sub(nth as u64 * self.unit);
        end / row * self.unit + rest.min(self.unit)
    }

    /// Returns the position in the file at which the last byte of a part of this length ends.
    pub(super) fn end(&self, nth: usize, bytes: u64) -> u64 {
        match bytes.checked_sub(1) {
            None => 0,
            Some(last) => {
                (last / self.unit * self.count as u64 + nth as u64) * self.unit + last % self.unit + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_place_and_in_order() {
        for count in 1..5 {
            let layout = Layout { unit: 4, count };
            let mut lengths = vec![0; count];
            for at in 0..200 {
                let nth = layout.directory(at);
                assert_eq!(layout.share(nth, at), lengths[nth], "byte {at} goes to the end of its part");
                lengths[nth] += 1;
                for (nth, &length) in lengths.iter().enumerate() {
                    assert_eq!(layout.share(nth, at + 1), length);
                }
                let ends = lengths.iter().enumerate().map(|(nth, &length)| layout.end(nth, length));
                assert_eq!(ends.max(), Some(at + 1));
                assert_eq!(layout.left(at), 4 - at % 4);
            }
        }
        let layout = Layout { unit: 1 << 30, count: 64 };
        let total: u64 = (0..64).map(|nth| layout.share(nth, FILE_BYTES_MAX)).sum();
        assert_eq!(total, FILE_BYTES_MAX);
        assert_eq!(
            (0..64).map(|nth| layout.end(nth, layout.share(nth, FILE_BYTES_MAX))).max(),
            Some(FILE_BYTES_MAX)
        );
    }
}
