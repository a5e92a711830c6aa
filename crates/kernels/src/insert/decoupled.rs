//! Inserter `decoupled` (D): the latch is held for the reservation only (Aether, section 5.2,
//! Algorithm 3).
//!
//! Copies run side by side; a thread that has copied waits until everything before its range is
//! filled and then advances `filled` past its own. The pieces, their invariants and what differs
//! from the paper are in [`super::aether`].

use super::aether::{Aether, InTurn};
use super::mutants::Built;

/// No groups; ranges are released in turn.
pub(super) fn inserter() -> Aether<InTurn> {
    Aether::new(None, InTurn::default(), Built::default())
}
