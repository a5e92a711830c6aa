//! Persist at commit: a thread that needs a durable record persists everything that all threads
//! have filled below it.
//!
//! In `nv_ring` and `nv_entries`, where an append only copies, a pass persists the copied bytes. In
//! `nv_logging`, where appenders persist their records, a pass advances the log's tail pointer in
//! NVRAM over these records. A thread runs passes itself if it waits for a record, requests a
//! record's durability, or lacks room. Rules:
//!
//! 1. One thread at a time has the turn (`taken`). Only this thread performs a pass, and advances
//!    `written` and `durable`. A thread that finds the turn taken goes on waiting for the frontier,
//!    and tries again. So no thread depends on one particular other thread, and each pass also
//!    covers the records that the previous pass has not covered.
//! 2. When a thread has the turn, it reads the durable frontier, and then loads the filled frontier
//!    with Acquire. The thread that stored this value with Release did so after all records below
//!    it were copied. On every processor, a write-back of a region follows the earlier loads of its
//!    thread (`device/nvram/cache.rs`). So the holder of the turn writes back lines that already
//!    have all stores below the filled frontier. A fence waits only for write-backs of its own
//!    thread, so the holder of the turn itself writes back what other threads have stored.
//! 3. The frontiers advance after the fence, and only if the memory has not crashed. So everything
//!    below the durable frontier is persisted, whichever thread reads it.
//! 4. Records above the durable frontier are not trimmed. So no other thread owns the memory that a
//!    pass reads and writes, until the pass has advanced the frontier.
//!
//! After a crash during a pass, each word that the pass was writing back is persisted or not. So
//! records may be whole or torn, and entries set or not. The log then ends before the first record
//! that is not whole. None of these records was acknowledged.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `taken` | the thread that has the turn | threads that want the turn | Acquire; Release |
//!
//! A thread takes the turn with Acquire, and reads the store with Release by which the previous
//! holder gave the turn back. So the thread sees the frontiers as the previous holder left them.

use crate::frontier::Frontiers;
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicBool, Ordering};
use crossbeam_utils::CachePadded;

#[cfg(test)]
mod checks;

/// See the head of this file.
#[derive(Debug)]
pub struct Committer {
    taken: CachePadded<AtomicBool>,
}

/// The turn of a pass, which ends when this value is dropped.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Default for Committer {
    fn default() -> Self {
        Self::new()
    }
}

impl Committer {
    /// Makes the committer of one log. No thread has the turn.
    pub fn new() -> Self {
        Committer { taken: CachePadded::new(AtomicBool::new(false)) }
    }

    /// Returns whether another thread has the turn. If so, the caller can only wait for the
    /// frontier.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Calls `persist` with the range that is filled and not durable, and then advances the durable
    /// frontier. `persist` returns whether it has persisted the range. If another thread has the
    /// turn, `pass` does nothing.
    pub fn pass(&self, frontiers: &Frontiers, persist: impl FnOnce(Lsn, Lsn) -> bool) {
        if self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let _turn = Turn(&self.taken);
        let (from, to) = (frontiers.durable(), frontiers.filled());
        if from < to && persist(from, to) {
            frontiers.advance_written(to);
            frontiers.advance_durable(to);
        }
    }
}
