//! A transaction with its place in the log.

use crate::{CommitStamp, Durability, Lsn};

/// A committed transaction that may not be durable yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    /// End of its commit record, or of the last one that it depends on if it wrote nothing.
    pub(crate) end: Lsn,
    /// Durability that the log must have there.
    pub(crate) durability: Durability,
}

impl Committed {
    /// The stamp of the commit, which is its record's end.
    pub(crate) fn stamp(&self) -> CommitStamp {
        CommitStamp::of_commit_at(self.end)
    }

    /// Position that later holders of its locks depend on when these are released now, after the
    /// log has come as far as asked: none if the commit is durable.
    pub(crate) fn left_behind(&self) -> Option<Lsn> {
        (self.durability != Durability::Durable).then_some(self.end)
    }
}
