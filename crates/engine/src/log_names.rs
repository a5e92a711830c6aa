//! The log's names that the public API shows, until `katydid-wal` exports them; then this file goes.

use std::fmt;

/// A byte position in the endless log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The beginning.
    pub const ZERO: Lsn = Lsn(0);
    /// The position `position`.
    pub const fn new(position: u64) -> Self {
        Lsn(position)
    }
    /// The position in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How far a commit has come when it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Durability {
    /// In this process.
    Buffered,
    /// Handed to the operating system.
    Written,
    /// On the device.
    #[default]
    Durable,
}
