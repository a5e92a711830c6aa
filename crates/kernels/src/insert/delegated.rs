//! Inserter `delegated` (CDME): like `hybrid`, but the last member of a group may leave its range
//! to the owner of the previous range (Aether, section A.3, Algorithm 4). So small records do not
//! wait for the copy of a large one.
//!
//! The release queue and its rules are in [`aether::ReleaseQueue`]. The module [`aether`] has the
//! other algorithms and the differences from the paper.

use super::BufferSizes;
use super::aether::{self, Aether, ReleaseQueue};
use super::mutants::Built;
use crate::record::HEADER_BYTES;

/// Makes the inserter. Groups are released in the order of their positions, each by its last member
/// or by the owner of the previous range.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<ReleaseQueue> {
    let queue = ReleaseQueue::for_run_ahead(sizes.run_ahead_bytes, HEADER_BYTES);
    Aether::new(Some(aether::slots(slots, sizes)), queue, Built::default())
}
