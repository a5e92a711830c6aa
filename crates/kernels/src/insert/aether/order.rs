//! The order in which ranges become filled: the second half of an insert.
//!
//! `filled` must pass ranges in the order of their positions (Aether, section 5.2), each after it
//! was copied.

use super::super::mutants::{Built, Mutant};
use super::latch::Latch;
use super::{BufferAccess, Range};
use crate::sync_shim::pause;

/// A way to keep the order.
pub trait Order {
    /// Before the reservation: whether the range can enter. Only with the latch that stays so;
    /// without it a thread waits until it looks so.
    fn has_room(&self) -> bool {
        true
    }
    /// Under the latch, after a reservation that ends at `end`. Gives the latch back, or keeps it
    /// for [`Order::release`].
    fn enter(&self, latch: &Latch, end: u64) -> u64;
    /// The range has been copied.
    fn release(&self, buffer: &impl BufferAccess, latch: &Latch, range: Range);
}

/// The latch is held until the range is filled (Algorithms 1 and 2), so there is one range at a
/// time.
#[derive(Debug)]
pub struct UnderLatch;

impl Order for UnderLatch {
    fn enter(&self, _: &Latch, _end: u64) -> u64 {
        0
    }

    fn release(&self, buffer: &impl BufferAccess, latch: &Latch, range: Range) {
        buffer.advance_filled(range.end);
        latch.give();
    }
}

/// Each thread waits for the range before its own (Algorithm 3). The frontier `filled` tells whose
/// turn it is.
///
/// A thread reads its own start in `filled` with Acquire and then stores its end with Release, so
/// all bytes that others have copied before are passed on. When threads outnumber cores, the wait
/// yields many times before it sleeps: all threads behind a sleeping one wait for it. A queue of
/// sleeping threads took 0.1 ms a record where one of yielding threads took 0.2 us.
#[derive(Debug, Default)]
pub struct InTurn {
    pub(super) built: Built,
}

impl Order for InTurn {
    #[inline]
    fn enter(&self, latch: &Latch, _end: u64) -> u64 {
        latch.give();
        0
    }

    #[inline]
    fn release(&self, buffer: &impl BufferAccess, _: &Latch, range: Range) {
        let mut step = 0;
        while buffer.filled() != range.start && !self.built.is(Mutant::ReleasedOutOfTurn) {
            pause(step);
            step += 1;
        }
        buffer.advance_filled(range.end);
    }
}
