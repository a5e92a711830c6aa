//! What the kernels of timestamps and slots (`clock`, `slots`) are written against: std's atomics and time, the explorer's, or those of
//! the virtual machine of `crates/manycore`, which has a module of its own by this name.

#[cfg(not(katydid_explore))]
pub(super) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};

#[cfg(katydid_explore)]
pub(super) use katydid_wal::testing::explore::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering, spin_loop, yield_now,
};

#[cfg(not(katydid_explore))]
pub(super) use katydid_device::publish_stores;

/// The explorer's clock is an atomic like the others.
#[cfg(katydid_explore)]
pub(super) fn publish_stores() {}

pub(super) use std::time::Instant;
