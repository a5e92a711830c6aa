//! Levels of durability: how far a record has come when a wait for it returns.
//!
//! Plain values.

/// Durability of a record, or the durability that a caller waits for. The levels are ordered: each
/// level includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// In this process's memory: lost when the process ends.
    Buffered,
    /// Handed to the operating system: survives a crash of the process, not of the machine.
    Written,
    /// On the device: survives a crash of the machine.
    #[default]
    Durable,
}

crate::words!(
    Durability,
    "buffered, written, durable",
    Buffered = "buffered",
    Written = "written",
    Durable = "durable"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_levels_are_ordered() {
        for level in [Durability::Buffered, Durability::Written, Durability::Durable] {
            assert_eq!(level.to_string().parse::<Durability>().unwrap(), level);
        }
        assert!(Durability::Buffered < Durability::Written && Durability::Written < Durability::Durable);
    }
}
