//! Inserter `hybrid` (CD): groups as in `consolidated`, copies as in `decoupled` (Aether, section
//! 5.3).
//!
//! The leader gives the latch back as soon as it has reserved, so the next group forms and copies
//! meanwhile. The last of a group waits until everything before the group is filled; the others
//! leave at once. The pieces, their invariants and what differs from the paper are in [`aether`].

use super::BufferSizes;
use super::aether::{self, Aether, InTurn};
use super::mutants::Built;

/// Groups, released in turn.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<InTurn> {
    Aether::new(Some(aether::slots(slots, sizes)), InTurn::default(), Built::default())
}
