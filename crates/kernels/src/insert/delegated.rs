//! Inserter `delegated` (CDME): as `hybrid`, but the last of a group may leave its range to the
//! owner of the one before (Aether, section A.3, Algorithm 4), so that small records do not wait
//! for the copy of a large one.
//!
//! The release queue and its rules are in [`aether::ReleaseQueue`]; the other pieces, and what
//! differs from the paper, in [`aether`].

use super::BufferSizes;
use super::aether::{self, Aether, ReleaseQueue};
use super::mutants::Built;
use crate::record::HEADER_BYTES;

/// Groups, released in turn or by the one before.
pub(super) fn inserter(slots: usize, sizes: &BufferSizes) -> Aether<ReleaseQueue> {
    let queue = ReleaseQueue::for_run_ahead(sizes.run_ahead_bytes, HEADER_BYTES);
    Aether::new(Some(aether::slots(slots, sizes)), queue, Built::default())
}
