//! The world that ships: std's own atomics, locks and threads.

#![allow(unused_imports, reason = "a world exports everything a kernel may name")]

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current, park, yield_now};

/// Says to a checker that plain (not atomic) bytes are read or written now, so that it can find races. Nothing here.
#[derive(Debug, Default)]
pub(crate) struct PlainAccess;

impl PlainAccess {
    /// Bytes nobody has accessed yet.
    pub(crate) const fn new() -> Self {
        PlainAccess
    }

    /// The bytes are read now.
    #[inline(always)]
    pub(crate) fn read(&self) {}

    /// The bytes are written now.
    #[inline(always)]
    pub(crate) fn write(&self) {}
}
