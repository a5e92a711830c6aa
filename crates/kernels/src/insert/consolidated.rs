//! Inserter `consolidated` (C): threads that meet at the latch reserve as a group (Aether, section
//! 5.1, Algorithms 2 and 5).
//!
//! The group's leader takes the latch, reserves for all members, and notifies them. The members
//! copy concurrently. The last one advances `filled` and gives the latch back. So only one group,
//! or one lone record, is between `filled` and `reserved` at a time. The module [`aether`] has the
//! algorithms, their invariants and the differences from the paper.

use super::BufferSizes;
use super::aether::{self, Aether, UnderLatch};
use super::mutants::Built;

/// Makes the inserter. The last member of each group gives the latch back.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<UnderLatch> {
    Aether::new(Some(aether::slots(slots, sizes)), UnderLatch, Built::default())
}
