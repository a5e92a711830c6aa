//! What a frame's `meta` is written against: std's atomics, or the explorer's.

#[cfg(not(katydid_explore))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(katydid_explore)]
pub(super) use katydid_kernels::explore::{AtomicU64, Ordering};
