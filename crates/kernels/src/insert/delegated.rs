//! Inserter `delegated` (CDME): as `hybrid`, but the last of a group may leave its range to the owner of the one before
//! (Aether, section A.3, Algorithm 4), so that small records do not wait for the copy of a large one.
//!
//! The release queue and its rules are in [`aether::ReleaseQueue`]; the other pieces, and what differs from the paper, in [`aether`].

use super::BufferSizes;
use super::aether::{self, Aether, ReleaseQueue};
use super::mutants::Built;

/// Ranges that may be between reserved and filled. Beyond, leaders wait before they reserve.
const NODES: usize = 256;

/// Groups, released in turn or by the one before.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<ReleaseQueue> {
    let queue = ReleaseQueue::new(NODES, aether::KEEPS, Built::default());
    Aether::new(Some(aether::slots(slots, sizes)), queue, Built::default())
}
