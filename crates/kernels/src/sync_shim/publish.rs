//! A barrier between a store and a reading of the clock.
//!
//! Any thread. A protocol may rely on this: a thread that reads the clock later than this thread
//! finds what this thread has stored before reading it. Memory models order atomic accesses by each
//! other only. A sequentially consistent fence does not help either, where the clock is a register:
//! on Arm `dmb` orders accesses to memory, and reading the counter is none.
//!
//! | processor | a sequentially consistent store, then the clock | so here |
//! |---|---|---|
//! | x86-64 | `xchg` empties the store buffer; `lfence; rdtsc` reads the counter | nothing |
//! | AArch64 | `stlr` may wait in the store buffer; `isb; mrs cntvct_el0` does not wait for it | `dsb ish` |
//! | others | not known | the strongest fence there is |
//!
//! Under loom and the explorer this does nothing: their clock is an atomic like the others.

/// Waits until all processors see everything that this thread has stored so far with sequentially
/// consistent ordering. The thread may read the clock after that.
#[inline(always)]
pub fn publish_stores() {
    #[cfg(all(target_arch = "aarch64", not(any(miri, loom, katydid_explore))))]
    // SAFETY: it waits, and changes nothing. Without `nomem`, so that the compiler keeps stores
    // that come before it there.
    unsafe {
        std::arch::asm!("dsb ish", options(nostack, preserves_flags))
    }
    #[cfg(all(
        not(any(loom, katydid_explore)),
        any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64")))
    ))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
