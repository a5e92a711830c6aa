//! Inserter `decoupled` (D): a thread holds the latch only for the reservation (Aether, section
//! 5.2, Algorithm 3).
//!
//! Threads copy concurrently. A thread that has copied waits until everything before its range is
//! filled, and then advances `filled` past its own range. The module [`super::aether`] has the
//! algorithms, their invariants and the differences from the paper.

use super::aether::{Aether, InTurn};
use super::mutants::Built;

/// Makes the inserter. Threads form no groups, and ranges are released in the order of their
/// positions.
pub(super) fn inserter() -> Aether<InTurn> {
    Aether::new(None, InTurn::default(), Built::default())
}
