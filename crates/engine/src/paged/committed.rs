//! A transaction whose commit record has a position in the log.

use crate::{CommitStamp, Durability, Lsn};

/// A committed transaction that may not be durable yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    /// End of the commit record. If the transaction wrote nothing: end of the last commit record
    /// that it depends on.
    pub(crate) end: Lsn,
    /// Durability that the log must reach up to `end`.
    pub(crate) durability: Durability,
}

impl Committed {
    /// The stamp of the commit, which is its record's end.
    pub(crate) fn stamp(&self) -> CommitStamp {
        CommitStamp::of_commit_at(self.end)
    }

    /// Position on which later holders of the locks depend, if the locks are released when the log
    /// has reached `durability` up to `end`. `None` if `durability` is `Durable`, because the
    /// commit is then durable before its locks are released.
    pub(crate) fn left_behind(&self) -> Option<Lsn> {
        (self.durability != Durability::Durable).then_some(self.end)
    }
}
