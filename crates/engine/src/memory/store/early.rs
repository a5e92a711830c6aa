//! The check for conflicts before a transaction's versions are put in place (original Cicada,
//! section 3.4: early version consistency check).
//!
//! The transaction's thread runs this check. A transaction whose reads have changed cannot commit,
//! even at a later timestamp. A transaction that fails here does not affect other transactions: it
//! leaves no version to wait for, and no record of a key to be inserted. Nor does it raise a read
//! timestamp (`rts`), which would refuse a writer with an earlier timestamp. The check differs from
//! the paper in two points:
//!
//! 1. Scanned intervals are checked only at validation, because the index keeps timestamps, not
//!    versions.
//! 2. The check skips a version whose transaction is undecided; validation waits for that
//!    transaction.
//!
//! Invariant: the check fails only if validation would fail. So it may be left out, and a thread
//! without recent conflicts leaves it out.

use super::record::ConflictCause;
use super::transaction::ActiveTxn;
use super::transaction_writes::Write;
use crate::cicada_options::Contention;
use crate::error::{ConflictKind, Result};
use std::cell::Cell;

/// Number of transactions that a thread has to validate without a conflict before it leaves the
/// check out.
const CALM: u32 = 5;

thread_local! {
    /// Number of transactions of this thread that were validated since its last conflict.
    static VALIDATED: Cell<u32> = const { Cell::new(0) };
}

/// Notes that a transaction of this thread was validated.
pub(super) fn was_validated() {
    VALIDATED.set(VALIDATED.get().saturating_add(1));
}

/// Notes that a transaction of this thread met a conflict.
pub(super) fn met_conflict() {
    VALIDATED.set(0);
}

impl ActiveTxn {
    /// Fails if a read of the transaction was changed, as far as this is known without waiting.
    pub(super) fn check_early(&mut self, writes: &[Write]) -> Result<()> {
        if self.open.store.contention != Contention::Early || VALIDATED.get() >= CALM {
            return Ok(());
        }
        if self.is_late {
            // The reads must hold at the timestamp at which the transaction will commit.
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
