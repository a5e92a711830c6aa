//! Sizes of the records with which the speed of inserters is measured.
//!
//! Pure functions. Like the rig, this file is compiled twice: for real threads and for virtual
//! threads.

/// Sizes of records, in bytes, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All records have this size.
    Fixed(usize),
    /// `times` small records, then one large record, repeated.
    Bimodal {
        /// Bytes of a small record.
        small: usize,
        /// Number of small records for each large one.
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

    /// The size of a thread's record number `number`, counted from 0.
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
