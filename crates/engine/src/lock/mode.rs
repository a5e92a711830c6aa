//! Modes of locks, and which of them are compatible.

/// Mode of a lock on a key, ordered by strength. A transaction that holds a mode also has the
/// rights of the weaker modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PointMode {
    /// To read.
    Shared,
    /// To read and perhaps write later. `Update` is compatible with `Shared`, but not with a second
    /// `Update`. So if two transactions read a key in order to write it, the second waits for the
    /// first. With two `Shared` locks, the upgrades would deadlock.
    Update,
    /// To write.
    Exclusive,
}

impl PointMode {
    /// Returns whether another transaction may hold `other` at the same time. The relation is
    /// symmetric.
    pub(crate) const fn admits(self, other: PointMode) -> bool {
        use PointMode::{Shared, Update};
        matches!((self, other), (Shared, Shared | Update) | (Update, Shared))
    }
}

/// Mode of a lock on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableMode {
    /// For a transaction that uses the table, and locks its keys one by one.
    Shared,
    /// For a transaction that drops, checks or bulk-loads the table.
    Exclusive,
}

#[cfg(test)]
mod tests {
    use super::PointMode::{self, Exclusive, Shared, Update};

    #[test]
    fn the_matrix_is_the_documented_one() {
        let together = [(Shared, Shared), (Shared, Update), (Update, Shared)];
        for a in [Shared, Update, Exclusive] {
            for b in [Shared, Update, Exclusive] {
                assert_eq!(a.admits(b), together.contains(&(a, b)), "{a:?} {b:?}");
                assert_eq!(a.admits(b), PointMode::admits(b, a));
            }
        }
    }
}
