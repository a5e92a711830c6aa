//! Counts a transaction's writes to each table, for its ranges. A range has copied entries out of
//! the leaves, and a later write of the same transaction may have changed them.
//!
//! Belongs to one transaction, whose thread uses it. Invariant: if two calls of [`OwnWrites::now`]
//! return equal values, the transaction neither wrote nor undid a write between them. A write that
//! failed may count.

use crate::ids::TableId;
use smallvec::SmallVec;

/// The counts of one transaction.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// Number of writes and rollbacks so far.
    now: u64,
    /// Value of `now` after the last rollback.
    undone: u64,
    /// Value of `now` after the last write to each table.
    tables: SmallVec<[(TableId, u64); 2]>,
}

impl OwnWrites {
    /// Counts a write to `table`.
    #[inline]
    pub(crate) fn in_table(&mut self, table: TableId) {
        self.now += 1;
        match self.tables.iter_mut().find(|(written, _)| *written == table) {
            Some((_, last)) => *last = self.now,
            None => self.tables.push((table, self.now)),
        }
    }

    /// Counts a rollback to a savepoint, which may undo writes to any table.
    pub(crate) fn were_undone(&mut self) {
        self.now += 1;
        self.undone = self.now;
    }

    /// Number of writes and rollbacks so far.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Returns whether anything in `table` may have changed since [`OwnWrites::now`] was `then`.
    pub(crate) fn changed(&self, table: TableId, then: u64) -> bool {
        self.undone > then || self.tables.iter().any(|(written, last)| *written == table && *last > then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_changes_one_table_and_a_rollback_every_table() {
        let (one, other) = (TableId::new(1), TableId::new(2));
        let mut writes = OwnWrites::default();
        let then = writes.now();
        writes.in_table(one);
        assert!(writes.changed(one, then) && !writes.changed(other, then));
        let then = writes.now();
        assert!(!writes.changed(one, then));
        writes.were_undone();
        assert!(writes.changed(one, then) && writes.changed(other, then));
    }
}
