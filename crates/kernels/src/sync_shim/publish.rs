//! A barrier between a store and a reading of the clock.
//!
//! Any thread may call this code. A protocol may rely on this rule: if thread A stores and then
//! reads the clock, and thread B reads a later time and then loads, the load finds the store.
//! Memory models do not guarantee the rule, because they order only atomic accesses. A sequentially
//! consistent fence is not enough where the clock is a register: on Arm `dmb` orders accesses to
//! memory, and a reading of the counter is no such access.
//!
//! | processor | a sequentially consistent store, then the clock | this function |
//! |---|---|---|
//! | x86-64 | `xchg` empties the store buffer; `lfence; rdtsc` reads the counter | nothing |
//! | AArch64 | `stlr` may wait in the store buffer; `isb; mrs cntvct_el0` does not wait for it | `dsb ish` |
//! | others | not known | the strongest fence there is |
//!
//! Under loom and the explorer the function does nothing, because the clock is an atomic there.

/// Waits until all processors see every store that this thread has made with sequentially
/// consistent ordering. The thread reads the clock after this call.
#[inline(always)]
pub fn publish_stores() {
    #[cfg(all(target_arch = "aarch64", not(any(miri, loom, katydid_explore))))]
    // SAFETY: the instruction waits, and changes nothing. `nomem` is absent, so that the compiler
    // does not move earlier stores to a place after it.
    unsafe {
        std::arch::asm!("dsb ish", options(nostack, preserves_flags))
    }
    #[cfg(all(
        not(any(loom, katydid_explore)),
        any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64")))
    ))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
