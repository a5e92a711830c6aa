//! Modes of locks and which of them go together. Pure.

/// Mode of a lock on a key. Ordered by strength: a transaction that holds a mode holds the weaker
/// ones with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PointMode {
    /// To read.
    Shared,
    /// To read and perhaps write later. Readers may join, a second `Update` may not: so two
    /// transactions that read a key in order to write it wait for each other in line, where two
    /// `Shared` would deadlock on the upgrade.
    Update,
    /// To write.
    Exclusive,
}

impl PointMode {
    /// Returns whether another transaction may hold `other` at the same time. Symmetric.
    pub(crate) const fn admits(self, other: PointMode) -> bool {
        use PointMode::{Shared, Update};
        matches!((self, other), (Shared, Shared | Update) | (Update, Shared))
    }
}

/// Mode of a lock on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableMode {
    /// In use: its keys may be locked one by one.
    Shared,
    /// To be dropped.
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
