//! The virtual world: what `sync_shim` of `katydid-kernels` exports, on the simulated machine.
//!
//! Values live in ordinary atomics of the same size as std's, so that words share lines as they do
//! in production. What a thread does is told to [`vm`] before it happens. The memory is
//! sequentially consistent: orderings only decide what a store costs.

mod atomics;
mod mutex;

pub use atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
pub use mutex::{Mutex, MutexGuard};
pub use std::sync::atomic::Ordering;

pub use crate::vm::Instant;

use crate::vm;

/// True under a checker, whose sizes must be small; not here.
pub const CHECKED: bool = false;

/// A fence: a sequentially consistent one waits until the thread's stores are seen.
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        vm::fence();
    }
}

/// One pause. It does not wait for anything: a loop around it may be about to succeed.
pub fn spin_loop() {
    vm::spin_loop();
}

/// Gives the core to a thread that is queued for it.
pub fn yield_now() {
    vm::yield_now();
}

/// A virtual thread.
#[derive(Debug, Clone)]
pub struct Thread(usize);

impl Thread {
    /// Ends its [`park`], or makes the next one return at once.
    pub fn unpark(&self) {
        vm::unpark(self.0);
    }
}

/// The calling virtual thread.
pub fn current() -> Thread {
    Thread(vm::current())
}

/// Sleeps until another thread calls [`Thread::unpark`].
pub fn park() {
    vm::park();
}

/// One step of waiting: yields, then naps. Ends early when the line that was looked at last
/// changes.
pub fn rest(step: u32) {
    vm::rest(step);
}

/// One step of waiting like [`rest`], but spins a little first.
pub fn pause(step: u32) {
    vm::pause(step);
}

/// Copies a record's bytes, at the cost of a copy.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    vm::copy(bytes as u64);
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Plain bytes, of which only checkers want to know.
#[derive(Debug, Default)]
pub struct PlainAccess;

impl PlainAccess {
    /// Bytes that nothing has accessed yet.
    pub const fn new() -> Self {
        PlainAccess
    }

    /// Nothing.
    pub fn read(&self) {}

    /// Nothing.
    pub fn write(&self) {}
}

/// The virtual clock is read after the stores before it: nothing to wait for.
#[inline]
pub fn publish_stores() {}
