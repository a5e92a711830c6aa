//! The world that ships: std's own atomics, locks and threads.

#![allow(unused_imports, reason = "a world exports everything a kernel may name")]

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::{Thread, current, park, yield_now};
pub use std::time::Instant;

/// Says to a checker that plain (not atomic) bytes are read or written now, so that it can find
/// races. Nothing here.
#[derive(Debug, Default)]
pub struct PlainAccess;

impl PlainAccess {
    /// Bytes that no thread has accessed yet.
    pub const fn new() -> Self {
        PlainAccess
    }

    /// The bytes are read now.
    #[inline(always)]
    pub fn read(&self) {}

    /// The bytes are written now.
    #[inline(always)]
    pub fn write(&self) {}
}
