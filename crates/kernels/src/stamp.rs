//! The order of commits.
//!
//! Plain values. A [`CommitStamp`] is what a commit returns. A stamp is not a position of a log,
//! because the streams of one log have no positions in common. A stamp and an [`Lsn`] cannot be
//! compared, and no stamp is converted into a position.

use crate::lsn::Lsn;
use std::fmt;

/// A transaction's place in the order of one database's commits.
///
/// The stamps of one database are totally ordered. A commit that has read or overwritten what
/// another commit wrote has a greater stamp than that commit. Transactions that wrote nothing have
/// no place in the order, whatever stamp they get. Stamps of different databases are not
/// comparable. The paged engine derives the stamp from the end of the commit record; the memory
/// engine's stamp is the timestamp of the versions that the transaction wrote.
///
/// ```
/// use katydid_kernels::stamp::CommitStamp;
/// let stamp = CommitStamp::new(17);
/// assert!(CommitStamp::ZERO < stamp);
/// assert_eq!(stamp.get(), 17);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitStamp(u64);

impl CommitStamp {
    /// The stamp of a transaction that wrote nothing and depends on nothing. No stamp is below it.
    pub const ZERO: CommitStamp = CommitStamp(0);

    /// The stamp with the given number.
    pub const fn new(number: u64) -> Self {
        CommitStamp(number)
    }

    /// The stamp of a transaction whose commit record ends at `end`, in a log of one stream.
    pub const fn of_commit_at(end: Lsn) -> Self {
        CommitStamp(end.get())
    }

    /// The number of this stamp.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CommitStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_ordered_as_the_ends_of_their_records() {
        let ends = [0, 8, 1 << 32, (1 << 32) + 8, Lsn::LIMIT.get()].map(Lsn::new);
        let stamps = ends.map(CommitStamp::of_commit_at);
        assert!(stamps.is_sorted_by(|before, after| before < after));
        assert_eq!(stamps[3].to_string(), ((1u64 << 32) + 8).to_string());
    }
}
