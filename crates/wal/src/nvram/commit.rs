//! Persist at commit: whoever wants to know that something is durable persists what everybody has filled before it.
//!
//! Of `nv_ring` and `nv_logging`. An append only copies. Run by waits, by requests, and by an appender without room, on their own threads.
//!
//! 1. One thread at a time persists: the one that has the turn. Who finds it taken goes on waiting for the frontier, and tries again: so
//!    nobody depends on one particular thread, and what a pass did not cover the next one does.
//! 2. Under the turn it reads the durable frontier, and then the filled one (Acquire), whose Release came after the copies of everybody below. So
//!    all stores below happened before it writes their lines back. A fence ends only its own thread's write-backs: it writes back
//!    itself what others have stored.
//! 3. The frontiers move after the fence, and only where the memory has not crashed: what is below the durable frontier is persisted,
//!    whoever reads it.
//! 4. What is above the durable frontier is not trimmed, so what a pass reads and writes is nobody else's until it has moved it.
//!
//! A crash within a pass leaves any words of what it was writing back: records whole or torn, entries set or not. The log ends before the
//! first that is not whole; nobody was told of it.

use crate::frontier::Frontiers;
use crate::lsn::Lsn;
use crate::sync_shim::Mutex;
use crossbeam_utils::CachePadded;
use std::sync::TryLockError;

#[cfg(test)]
mod checks;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Committer {
    /// A leaf latch; nobody blocks on it.
    turn: CachePadded<Mutex<()>>,
}

impl Committer {
    pub(crate) fn new() -> Self {
        Committer { turn: CachePadded::new(Mutex::new(())) }
    }

    /// Has `persist` persist what is filled and not durable, and says then that it is; not if somebody else is at it. `persist` says
    /// whether it did.
    pub(crate) fn pass(&self, frontiers: &Frontiers, persist: impl FnOnce(Lsn, Lsn) -> bool) {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            // A panic leaves nothing half changed.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let (from, to) = (frontiers.durable(), frontiers.filled());
        if from < to && persist(from, to) {
            frontiers.advance_persisted(to);
        }
    }
}
