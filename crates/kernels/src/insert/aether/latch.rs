//! A latch that one thread may take and another may give back, because the last member of a group
//! need not be its leader.
//!
//! | word | written by | ordering |
//! |---|---|---|
//! | `held` | the threads that take it (compare-and-swap) and give it back | Acquire; Release |
//!
//! A waiting thread first spins, then yields, then sleeps for short times (`sync_shim::pause`). A
//! waiting thread does not spin for ever, so a preempted holder of the latch gets the processor.

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

    /// Takes the latch if it is free. Returns whether it did.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
            && self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the latch, and waits for it if necessary.
    #[inline]
    pub(crate) fn take(&self) {
        let mut step = 0;
        while !self.try_take() {
            pause(step);
            step += 1;
        }
    }

    /// Gives the latch back. Any thread may call this, once for each time that the latch was taken.
    #[inline]
    pub(crate) fn give(&self) {
        self.held.store(false, self.built.order(Mutant::RelaxedLatch, Ordering::Release));
    }
}
