//! Size of a TATP database.
//!
//! Any thread may use the settings.

/// Size of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of subscribers, the benchmark's scale; at least 1.
    pub subscribers: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { subscribers: 100_000 }
    }
}

impl Settings {
    /// The constant `a` of the non-uniform choice of subscribers.
    pub(crate) fn a(&self) -> u32 {
        match self.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        }
    }
}
