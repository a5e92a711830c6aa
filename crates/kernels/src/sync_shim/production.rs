//! The world of production: the atomics, locks and threads of `std`.

#![allow(unused_imports, reason = "a world exports everything a kernel may name")]

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::{Thread, current, park, yield_now};
pub use std::time::Instant;

/// A mark for plain (not atomic) bytes. In a checker's world it reports each access, so that the
/// checker finds data races. In production it does nothing.
#[derive(Debug, Default)]
pub struct PlainAccess;

impl PlainAccess {
    /// Makes the mark of bytes that no thread has accessed yet.
    pub const fn new() -> Self {
        PlainAccess
    }

    /// Announces a read of the bytes.
    #[inline(always)]
    pub fn read(&self) {}

    /// Announces a write of the bytes.
    #[inline(always)]
    pub fn write(&self) {}
}
