//! The order in which ranges become filled: the second half of an insert.
//!
//! `filled` must pass ranges in the order of their positions (Aether, section 5.2), each after it
//! was copied.

use super::super::mutants::{Built, Mutant};
use super::latch::Latch;
use super::{BufferAccess, Range};
use crate::sync_shim::pause;

/// A way to release ranges in the order of their positions.
pub trait Order {
    /// Returns whether another range can enter. Called before the reservation. A true result stays
    /// true only while the caller holds the latch.
    fn has_room(&self) -> bool {
        true
    }
    /// Enters a reservation that ends at `end`, and returns its ticket. Called under the latch,
    /// which the call gives back or keeps for [`Order::release`].
    fn enter(&self, latch: &Latch, end: u64) -> u64;
    /// Releases a range that has been copied.
    fn release(&self, buffer: &impl BufferAccess, latch: &Latch, range: Range);
}

/// A thread holds the latch until its range is filled (Algorithms 1 and 2), so there is one range
/// at a time.
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

/// Each thread waits for the previous range (Algorithm 3): the range that starts at `filled` is the
/// next to be released.
///
/// A thread loads its own start from `filled` (Acquire), where the owner of the previous range
/// stored it (Release). Then the thread stores its own end (Release). So each store passes on all
/// bytes that earlier threads have copied. The wait yields many times before it sleeps. If it slept
/// sooner, all threads with later ranges would wait for a sleeping thread whenever threads
/// outnumber cores. A queue of sleeping threads took 0.1 ms for each record; a queue of yielding
/// threads took 0.2 us.
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
