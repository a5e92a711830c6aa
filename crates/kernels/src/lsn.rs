//! Positions in the endless log.
//!
//! Pure functions. An [`Lsn`] counts bytes of the log since its creation. An LSN is the start of a
//! record, or an exclusive end: a frontier or the end of a range. No position of the log is above
//! [`Lsn::LIMIT`], so adding the size of a segment or a record to a valid position never overflows.

use std::fmt;

/// A byte position in the endless log.
///
/// ```
/// use katydid_kernels::lsn::Lsn;
/// let at = Lsn::new(4_100);
/// assert_eq!(at.get(), 4_100);
/// assert!(Lsn::ZERO < at);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

/// The unit of writing. Blocks of the log, of files and of the ring all start at multiples of this
/// number of bytes.
pub const BLOCK_BYTES: u64 = 4096;

impl Lsn {
    /// The start of the log. A new log begins with an internal record, so no user's record has this
    /// position. Therefore this value also means "no record" where a link to a record is optional.
    pub const ZERO: Lsn = Lsn(0);
    /// The upper bound of all positions of a log. A file that names a higher position is corrupt.
    pub const LIMIT: Lsn = Lsn(1 << 62);

    /// The position `bytes` after the start of the log.
    pub const fn new(bytes: u64) -> Self {
        Lsn(bytes)
    }

    /// Bytes since the start of the log.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `bytes` further on; `None` above [`Lsn::LIMIT`].
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) if sum <= Self::LIMIT.0 => Some(Lsn(sum)),
            _ => None,
        }
    }

    /// The position `bytes` further back; `None` before the start of the log.
    pub const fn checked_sub(self, bytes: u64) -> Option<Self> {
        match self.0.checked_sub(bytes) {
            Some(difference) => Some(Lsn(difference)),
            None => None,
        }
    }

    /// Bytes from `earlier` to this position; zero if `earlier` is not below this position.
    pub const fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The start of the 4 KiB block that contains this position.
    pub const fn floor_block(self) -> Self {
        Lsn(self.0 & !(BLOCK_BYTES - 1))
    }

    /// The first block start at or after this position.
    pub const fn ceil_block(self) -> Self {
        Lsn((self.0.saturating_add(BLOCK_BYTES - 1)) & !(BLOCK_BYTES - 1))
    }

    /// This position plus `bytes`, for sizes known to be small (a record, a buffer, a segment).
    pub const fn plus(self, bytes: u64) -> Self {
        Lsn(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_reach_over_high_positions() {
        assert_eq!(Lsn::LIMIT.since(Lsn::new(8)), (1 << 62) - 8);
        assert_eq!(Lsn::new((1 << 40) + 16).since(Lsn::new(8)), (1 << 40) + 8);
    }

    #[test]
    fn arithmetic_stays_inside_the_log() {
        assert_eq!(Lsn::new(5).checked_add(3), Some(Lsn::new(8)));
        assert_eq!(Lsn::LIMIT.checked_add(1), None);
        assert_eq!(Lsn::new(u64::MAX).checked_add(u64::MAX), None);
        assert_eq!(Lsn::new(5).checked_sub(6), None);
        assert_eq!(Lsn::new(5).since(Lsn::new(9)), 0);
        assert_eq!(Lsn::new(4097).floor_block(), Lsn::new(4096));
        assert_eq!(Lsn::new(4097).ceil_block(), Lsn::new(8192));
        assert_eq!(Lsn::new(4096).ceil_block(), Lsn::new(4096));
    }
}
