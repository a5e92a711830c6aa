//! Sizes of the segments of a log in files, computed from a segment's index, and the file and
//! offset of each position.
//!
//! Pure functions. All segments of a log have one size, or each segment is twice as large as the
//! segment before, up to a maximum (docs/adr/0049-segments-double.md). Rules:
//!
//! 1. Sizes never fall from one index to the next, so a trimmed segment's file can be reused
//!    without being shortened.
//! 2. Each capacity is a multiple of 4 KiB, so no 4 KiB block crosses the end of a segment. An LSN
//!    and its offset in the file have the same remainder modulo 4 KiB.

use crate::seal::SEALED_BYTES;
use katydid_kernels::lsn::Lsn;

/// See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of the first segment's file.
    first_bytes: u64,
    /// Bytes of each segment's file from index `doublings` on.
    segment_bytes: u64,
    /// Number of segments smaller than `segment_bytes`.
    doublings: u64,
    /// First position above the segments that are smaller than `segment_bytes`.
    grown: u64,
}

impl Geometry {
    /// Makes the geometry of segments of one size, which must be valid.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        Self::growing(segment_bytes, segment_bytes)
    }

    /// Makes the geometry of segments that double from `first_bytes` up to `segment_bytes`; both
    /// sizes must be valid.
    pub(crate) fn growing(first_bytes: u64, segment_bytes: u64) -> Self {
        let first_bytes = first_bytes.min(segment_bytes);
        let mut geometry = Geometry { first_bytes, segment_bytes, doublings: 0, grown: 0 };
        while geometry.doubled(geometry.doublings) < segment_bytes {
            geometry.grown += geometry.doubled(geometry.doublings) - SEALED_BYTES as u64;
            geometry.doublings += 1;
        }
        geometry
    }

    /// Returns the sizes in bytes of the first segment's file and of the largest ones.
    pub(crate) fn sizes(self) -> (u64, u64) {
        (self.first_bytes, self.segment_bytes)
    }

    fn doubled(self, times: u64) -> u64 {
        self.first_bytes << times
    }

    /// Returns the number of bytes of a segment's file.
    pub(crate) fn segment_bytes(self, index: u64) -> u64 {
        if index < self.doublings { self.doubled(index) } else { self.segment_bytes }
    }

    /// Returns the number of bytes of the log in a segment.
    pub(crate) fn capacity(self, index: u64) -> u64 {
        self.segment_bytes(index) - SEALED_BYTES as u64
    }

    /// Returns the index of the segment that holds a position.
    pub(crate) fn index(self, at: Lsn) -> u64 {
        match at.get().checked_sub(self.grown) {
            Some(beyond) => self.doublings + beyond / self.capacity(self.doublings),
            // There are at most 21 smaller segments.
            None => (1..self.doublings).find(|&index| at < self.base(index)).unwrap_or(self.doublings) - 1,
        }
    }

    /// Returns the offset of a position in its segment's file.
    pub(crate) fn offset(self, at: Lsn) -> u64 {
        SEALED_BYTES as u64 + at.since(self.base(self.index(at)))
    }

    /// Returns the first position of a segment, at most [`Lsn::LIMIT`].
    pub(crate) fn base(self, index: u64) -> Lsn {
        let base = match index.checked_sub(self.doublings) {
            Some(beyond) => self.grown.saturating_add(beyond.saturating_mul(self.capacity(index))),
            None => self.doubled(index) - self.first_bytes - index * SEALED_BYTES as u64,
        };
        Lsn::new(base).min(Lsn::LIMIT)
    }

    /// Returns the number of bytes of the log from a position to the end of its segment.
    pub(crate) fn left(self, at: Lsn) -> u64 {
        let index = self.index(at);
        self.capacity(index) - at.since(self.base(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_from_the_segment_size() {
        let geometry = Geometry::new(16 << 10);
        assert_eq!(geometry.capacity(7), 12 << 10);
        let at = Lsn::new((12 << 10) * 3 + 5000);
        assert_eq!(
            (geometry.index(at), geometry.offset(at), geometry.left(at)),
            (3, 4096 + 5000, (12 << 10) - 5000)
        );
        assert_eq!(geometry.base(3), Lsn::new((12 << 10) * 3));
        assert_eq!(geometry.base(u64::MAX), Lsn::LIMIT);
    }

    #[test]
    fn segments_double_up_to_the_full_size_without_a_gap() {
        const KIB: u64 = 1 << 10;
        let geometry = Geometry::growing(16 * KIB, 100 * KIB);
        let sizes = [16, 32, 64, 100, 100].map(|kib| kib * KIB);
        let mut base = 0;
        for (index, bytes) in (0..).zip(sizes) {
            assert_eq!((geometry.segment_bytes(index), geometry.base(index)), (bytes, Lsn::new(base)));
            let capacity = geometry.capacity(index);
            for skip in [0, 8, 4096, capacity - 8] {
                let at = Lsn::new(base + skip);
                assert_eq!(
                    (geometry.index(at), geometry.offset(at), geometry.left(at)),
                    (index, 4096 + skip, capacity - skip)
                );
            }
            base += capacity;
        }
        assert_eq!(geometry.base(u64::MAX), Lsn::LIMIT);
        // A first size that is not smaller than the full size changes nothing.
        assert_eq!(Geometry::growing(32 * KIB, 16 * KIB), Geometry::new(16 * KIB));
        let widest = Geometry::growing(8 * KIB, 16 << 30);
        assert_eq!(widest.segment_bytes(20), 8 << 30);
        assert_eq!(widest.index(Lsn::new(widest.base(21).get() - 8)), 20);
    }

    #[test]
    fn places_follow_from_high_positions() {
        let geometry = Geometry::new(16 << 10);
        // The capacity, 12 KiB, does not divide 2^32, so no segment begins at 2^32.
        for index in [1 << 20, (1 << 32) / (12 << 10) + 7, (1 << 40) + 5] {
            let at = Lsn::new((12 << 10) * index + 5000);
            assert_eq!((geometry.index(at), geometry.offset(at)), (index, 4096 + 5000));
            assert_eq!(geometry.base(index).plus(5000), at);
        }
    }
}
