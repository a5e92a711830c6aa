//! Inserter `mutex`: one lock around reservation and copy (Johnson et al., Aether, Algorithm 1).
//!
//! There are no holes to find, because a reserved record is filled when the lock is released. This
//! design is the baseline for the other designs.

use super::{AppendClass, Inserter, LogBuffer, PhysicalRecord, Scan, Stalled};
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct MutexInserter {
    /// This leaf latch guards `reserved` and `filled`, and the ring between them.
    turn: Mutex<()>,
}

impl Default for MutexInserter {
    fn default() -> Self {
        MutexInserter { turn: Mutex::new(()) }
    }
}

impl Inserter for MutexInserter {
    fn open(&self, _slot: usize) {}

    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        _: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled> {
        let bytes = record.bytes();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let start = buffer.frontiers.reserved();
        buffer.admission.admit(start.get(), bytes, class)?;
        // SAFETY: under the lock, this thread alone owns the bytes from `start` on (rule 1 of the
        // ring), and they were admitted (rule 3 of the ring).
        unsafe { record.copy_to(&buffer.memory, start) };
        buffer.frontiers.advance_reserved_and_filled(start.get() + bytes);
        Ok(start)
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        // An inserting thread stores both frontiers (SeqCst, `reserved` first), and then requests
        // the sync of its record. So the scan of the leader that takes the request sees both stores
        // (`sync/waiters.rs`).
        let cutoff = buffer.frontiers.reserved().get();
        Scan { cutoff, filled: buffer.frontiers.filled().get().min(cutoff) }
    }
}
