//! Persist at commit: a thread that needs to know that something is durable persists what all
//! threads have filled before it.
//!
//! Of `nv_ring` and `nv_entries`, where an append only copies; of `nv_logging` a pass moves the
//! tail over what appenders persisted. Run by waits, by requests, and by an appender without room,
//! on their own threads.
//!
//! 1. One thread at a time persists, and moves `written` and `durable`: the one that has the turn.
//!    A thread that finds the turn taken goes on waiting for the frontier, and tries again. So no
//!    thread depends on one particular other, and what a pass did not cover the next one does.
//! 2. Under the turn it reads the durable frontier, and then the filled one (Acquire), whose
//!    Release came after the copies of all appenders below. So all stores below happened before it
//!    writes their lines back, for a write-back of a region follows the thread's earlier loads on
//!    every processor (`device/nvram/cache.rs`). A fence ends only its own thread's write-backs: it
//!    writes back itself what others have stored.
//! 3. The frontiers move after the fence, and only where the memory has not crashed: what is below
//!    the durable frontier is persisted, whichever thread reads it.
//! 4. What is above the durable frontier is not trimmed. So what a pass reads and writes belongs to
//!    no other thread until the pass has moved the frontier.
//!
//! A crash within a pass leaves any words of what it was writing back: records whole or torn,
//! entries set or not. The log ends before the first that is not whole; none of them was
//! acknowledged.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `taken` | the thread that takes the turn and gives it back | the same | Acquire to Release: it sees the frontiers as the one before left them |

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

/// The turn, given back when it is dropped.
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

    /// Returns whether another thread has the turn. Then the caller can only wait for it.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Persists what is filled and not durable, by `persist`, and then advances the durable
    /// frontier. `persist` returns whether it did. If another thread has the turn, `pass` does
    /// nothing.
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
