//! The only place in this crate that names atomics, fences, parking and yielding.
//!
//! The kernels (`insert/marks/kernel.rs`, `sync/waiters.rs`, `frontier.rs`) are written against what is exported here, so that the very
//! code that runs in production also runs under loom (`--cfg loom`) and under the explorer of all interleavings
//! (`--cfg katydid_explore`). In production every item is std's own, at no cost.
//!
//! A world is a module that exports: `AtomicBool`, `AtomicU32`, `AtomicU64`, `AtomicUsize`, `Ordering`, `fence`, `Mutex`,
//! `MutexGuard`, `Thread` (with `unpark`), `current`, `park`, `yield_now`, `spin_loop` and [`PlainAccess`], each shaped like std's.
//! Code that no checker runs (background threads' start and stop, rare slow paths) uses std's `Mutex` and `Condvar`.

#[cfg(not(any(loom, katydid_explore)))]
mod production;
#[cfg(not(any(loom, katydid_explore)))]
pub(crate) use production::*;

#[cfg(all(loom, not(katydid_explore)))]
mod under_loom;
#[cfg(all(loom, not(katydid_explore)))]
pub(crate) use under_loom::*;

#[cfg(katydid_explore)]
#[allow(unused_imports, reason = "a world exports everything a kernel may name")]
pub(crate) use crate::testing::explore::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PlainAccess, Thread, current,
    fence, park, spin_loop, yield_now,
};

#[cfg(test)]
pub(crate) mod checking;

/// What a checker can reach must be small; what runs in production need not be.
pub(crate) const CHECKED: bool = cfg!(any(loom, katydid_explore, miri));

/// Copies a record's bytes into the ring. The virtual machine of `crates/manycore` charges for it in its own form of this module.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Ends a wait in which this thread has parked. The token that [`park`] took may have been left by somebody else than the log: by the waker of a
/// program's own executor that runs on this thread and parks too. It would never wake up again; a token too many makes it look once more.
pub(crate) fn return_token() {
    // A token more would be a step more for the checkers, in which only the log parks.
    #[cfg(not(any(loom, katydid_explore)))]
    current().unpark();
}

/// One step of waiting for a thread that is running, or about to: first yields, then, should that take long, short
/// sleeps. Nothing that is idle calls this.
pub(crate) fn rest(step: u32) {
    if CHECKED || step < 200 {
        yield_now();
    } else {
        // Not a park with a limit: that takes a token (`return_token`).
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

/// As [`rest`], for what another running thread is about to do in less time than a switch takes, and where others queue behind
/// the caller: it spins a little first, and sleeps much later, for a sleeper would hold up all of them.
#[inline]
pub(crate) fn pause(step: u32) {
    const SPINS: u32 = 32;
    const YIELDS: u32 = 4000;
    if CHECKED || (SPINS..SPINS + YIELDS).contains(&step) {
        yield_now();
    } else if step < SPINS {
        spin_loop();
    } else {
        rest(step);
    }
}
