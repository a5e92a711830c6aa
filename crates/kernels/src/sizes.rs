//! Sizes of the records that are inserted where the speed of inserters is measured.
//!
//! Pure. Compiled twice, like the rig: for real threads, and for those of the simulated machine.

/// Sizes of records, in bytes, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All records have this size.
    Fixed(usize),
    /// A number of small records, then a large one, and so on.
    Bimodal {
        /// Bytes of a small record.
        small: usize,
        /// Small records for each large one.
        times: u32,
        /// Bytes of a large record.
        large: usize,
    },
}

impl Sizes {
    /// The size of the largest record.
    pub fn largest(self) -> usize {
        match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Bimodal { small, large, .. } => small.max(large),
        }
    }

    /// The size of the smallest record.
    pub fn smallest(self) -> usize {
        match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Bimodal { small, large, .. } => small.min(large),
        }
    }

    /// The size of a thread's record of this number.
    pub fn of(self, number: u64) -> usize {
        match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Bimodal { large, times, .. } if number % (u64::from(times) + 1) == u64::from(times) => {
                large
            }
            Sizes::Bimodal { small, .. } => small,
        }
    }
}
