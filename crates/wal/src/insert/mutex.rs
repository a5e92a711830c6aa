//! Inserter `mutex`: one lock around reservation and copy (Johnson et al., Aether, Algorithm 1).
//!
//! No holes, so nothing to find: what is reserved is filled when the lock is released. The yardstick for the others.

use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct MutexInserter {
    /// Guards `reserved` and `filled`, and the ring between them. A leaf latch.
    turn: Mutex<()>,
}

impl Default for MutexInserter {
    fn default() -> Self {
        MutexInserter { turn: Mutex::new(()) }
    }
}

impl Inserter for MutexInserter {
    fn open(&self, _slot: usize) {}

    fn insert(
        &self,
        image: &Image,
        _: usize,
        piece: &mut Piece<'_>,
        admission: Admission,
    ) -> Result<Lsn, Stalled> {
        let bytes = piece.bytes();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let start = image.frontiers.reserved();
        image.limiter.admit(start.get(), bytes, admission)?;
        // SAFETY: under the lock, bytes from `start` are nobody else's (rule 1 of the ring), and admission has let them in.
        unsafe { piece.copy_to(&image.ring, start) };
        image.frontiers.advance_reserved_and_filled(start.get() + bytes);
        Ok(start)
    }

    fn scan(&self, image: &Image) -> Scan {
        // Both are stored sequentially consistently under the lock, `reserved` first; whoever wished has left the lock.
        let cutoff = image.frontiers.reserved().get();
        Scan { cutoff, filled: image.frontiers.filled().get().min(cutoff) }
    }
}
