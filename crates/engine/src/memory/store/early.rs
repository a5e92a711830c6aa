//! The check for conflicts before a transaction's versions are put in place (original Cicada,
//! section 3.4: early version consistency check).
//!
//! Used by the transaction's thread. A transaction whose reads have changed cannot take place at
//! any later timestamp either. Found here, it leaves nothing in the way of others: no version that
//! others would wait for, no record of a key it would have inserted, and no `rts` that a writer of
//! an earlier timestamp would have to give way to. Differences from the paper:
//!
//! 1. Intervals that were scanned are checked at validation only: the index keeps timestamps, not
//!    versions.
//! 2. A version whose transaction is undecided is passed over, and waited for at validation.
//!
//! Invariant: nothing is decided here that validation would decide otherwise. So the check may be
//! left out, and is while a thread has no conflicts.

use super::record::ConflictCause;
use super::transaction::ActiveTxn;
use super::transaction_writes::Write;
use crate::cicada_options::Contention;
use crate::error::{ConflictKind, Result};
use std::cell::Cell;

/// Transactions of one thread validated in a row after which it leaves the check out.
const CALM: u32 = 5;

thread_local! {
    /// Transactions of this thread that were validated since the last conflict.
    static VALIDATED: Cell<u32> = const { Cell::new(0) };
}

/// A transaction of this thread was validated.
pub(super) fn was_validated() {
    VALIDATED.set(VALIDATED.get().saturating_add(1));
}

/// A transaction of this thread met a conflict.
pub(super) fn met_conflict() {
    VALIDATED.set(0);
}

impl ActiveTxn {
    /// Fails if what the transaction has read was changed, as far as that can be told without
    /// waiting.
    pub(super) fn check_early(&mut self, writes: &[Write]) -> Result<()> {
        if self.open.store.contention != Contention::Early || VALIDATED.get() >= CALM {
            return Ok(());
        }
        if self.is_late {
            // What it has read must hold at the timestamp that it is going to have.
            self.timestamp = self.open.store.slots.renew(self.open.slot, &self.open.store.clock);
            self.is_late = false;
        }
        for read in &self.reads {
            let changed = read.record.chain().was_changed(self.timestamp, read.expected);
            if let Some(by) = changed {
                read.record.count_conflict();
                let at = (read.record.table, read.record.key.as_slice());
                return Err(self.conflict(at, Some(by), ConflictKind::Changed));
            }
        }
        for write in writes {
            let Some(record) = &write.record else { continue };
            let refused = record.chain().would_refuse(self.timestamp, write.expected);
            if let Some(ConflictCause::Changed(by)) = refused {
                record.count_conflict();
                return Err(self.conflict((write.table, &write.key), Some(by), ConflictKind::Changed));
            }
        }
        Ok(())
    }
}
