//! Inserter `consolidated` (C): threads that meet at the latch reserve as a group (Aether, section
//! 5.1, Algorithms 2 and 5).
//!
//! The group's leader takes the latch, reserves for all, and tells them; they copy side by side;
//! the last one advances `filled` and gives the latch back. So one group, or one lone record, is
//! between `filled` and `reserved` at a time: there are no holes below a record that is not being
//! copied. The pieces, their invariants and what differs from the paper are in [`aether`].

use super::BufferSizes;
use super::aether::{self, Aether, UnderLatch};
use super::mutants::Built;

/// Groups, whose last member gives the latch back.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<UnderLatch> {
    Aether::new(Some(aether::slots(slots, sizes)), UnderLatch, Built::default())
}
