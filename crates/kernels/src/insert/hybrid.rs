//! Inserter `hybrid` (CD): groups as in `consolidated`, copies as in `decoupled` (Aether, section
//! 5.3).
//!
//! The leader gives the latch back as soon as it has reserved, so the next group forms and copies
//! meanwhile. The last member of a group waits until everything before the group is filled; the
//! other members leave at once. The module [`aether`] has the algorithms, their invariants and the
//! differences from the paper.

use super::BufferSizes;
use super::aether::{self, Aether, InTurn};
use super::mutants::Built;

/// Makes the inserter. Groups are released in the order of their positions.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<InTurn> {
    Aether::new(Some(aether::slots(slots, sizes)), InTurn::default(), Built::default())
}
