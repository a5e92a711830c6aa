//! The world of the simulated machine: the items that `sync_shim` of `katydid-kernels` exports.
//!
//! Values are in ordinary atomics of the same size as in production, so that words share cache
//! lines as in production. Each operation calls [`vm`] before it takes effect. The memory is
//! sequentially consistent: an ordering decides only the cost of a store or a fence.

mod atomics;
mod mutex;

pub use atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
pub use mutex::{Mutex, MutexGuard};
pub use std::sync::atomic::Ordering;

pub use crate::vm::Instant;

use crate::vm;

/// True under a checker, which needs small sizes. The simulated machine is no checker.
pub const CHECKED: bool = false;

/// A fence. A sequentially consistent fence waits until other threads see the thread's stores;
/// other fences cost nothing.
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        vm::fence();
    }
}

/// One pause of a spinning thread. The call spends a fixed time. The call does not sleep until a
/// line changes, because the value that the caller's loop waits for may be there already.
pub fn spin_loop() {
    vm::spin_loop();
}

/// Gives the core to the next thread that is queued for the core, if there is one.
pub fn yield_now() {
    vm::yield_now();
}

/// A virtual thread.
#[derive(Debug, Clone)]
pub struct Thread(usize);

impl Thread {
    /// Ends the thread's [`park`], or lets its next [`park`] return at once.
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

/// Does one step of a wait: yields first, and sleeps if the wait is long. A step ends early when
/// the line that the thread read last changes.
pub fn rest(step: u32) {
    vm::rest(step);
}

/// Does one step of a wait like [`rest`], but spins first.
pub fn pause(step: u32) {
    vm::pause(step);
}

/// Copies a record's bytes, and spends the simulated time of a copy.
///
/// # Safety
/// The caller keeps the rules of [`std::ptr::copy_nonoverlapping`].
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    vm::copy(bytes as u64);
    // SAFETY: the caller keeps the callee's rules.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// A mark for plain (not atomic) bytes. Only checkers use it; here it does nothing.
#[derive(Debug, Default)]
pub struct PlainAccess;

impl PlainAccess {
    /// Makes a mark.
    pub const fn new() -> Self {
        PlainAccess
    }

    /// Does nothing.
    pub fn read(&self) {}

    /// Does nothing.
    pub fn write(&self) {}
}

/// Does nothing. In production this function makes earlier stores visible before the thread reads
/// the clock; here a thread's reading of the clock never overtakes its stores.
#[inline]
pub fn publish_stores() {}
