//! The world of loom, which runs a test body in many interleavings.

#![allow(unused_imports, reason = "a world exports everything a kernel may name")]

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use loom::sync::{Mutex, MutexGuard};
pub use loom::thread::{Thread, current, park, yield_now};
pub use std::time::Instant;

/// A mark for plain (not atomic) bytes. The mark reports each access to loom, which finds data
/// races.
#[derive(Debug)]
pub struct PlainAccess(loom::cell::UnsafeCell<()>);

impl PlainAccess {
    /// Makes the mark of bytes that no thread has accessed yet.
    pub fn new() -> Self {
        PlainAccess(loom::cell::UnsafeCell::new(()))
    }

    /// Announces a read of the bytes.
    pub fn read(&self) {
        self.0.with(|_| ());
    }

    /// Announces a write of the bytes.
    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

impl Default for PlainAccess {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the cell holds nothing. The mark only reports accesses to loom, which serialises them.
unsafe impl Sync for PlainAccess {}
