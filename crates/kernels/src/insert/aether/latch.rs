//! A latch that one thread may take and another may give back: the last of a group need not be its
//! leader.
//!
//! | word | written by | ordering, and its partner |
//! |---|---|---|
//! | `held` | the thread that takes it (compare-and-swap) or gives it back | Release when given
//! back; Acquire when taken |
//!
//! Waiting spins for a moment, then yields, then sleeps by turns (`sync_shim::pause`): never
//! without bound, so that a holder who was preempted gets the processor.

use super::super::mutants::{Built, Mutant};
use crate::sync_shim::{AtomicBool, Ordering, pause};
use crossbeam_utils::CachePadded;

/// See the head of this file.
#[derive(Debug)]
pub struct Latch {
    held: CachePadded<AtomicBool>,
    built: Built,
}

impl Default for Latch {
    fn default() -> Self {
        Latch::new(Built::default())
    }
}

impl Latch {
    pub(super) fn new(built: Built) -> Self {
        Latch { held: CachePadded::new(AtomicBool::new(false)), built }
    }

    /// Takes it if it is free.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
            && self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits for it.
    #[inline]
    pub(crate) fn take(&self) {
        let mut step = 0;
        while !self.try_take() {
            pause(step);
            step += 1;
        }
    }

    /// Gives it back; any thread, once for each taking.
    #[inline]
    pub(crate) fn give(&self) {
        self.held.store(false, self.built.order(Mutant::RelaxedLatch, Ordering::Release));
    }
}
