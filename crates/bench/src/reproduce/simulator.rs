//! Distance that simulated rows may have from real ones, as `docs/manycore.md` found it ("How far
//! to trust it").
//!
//! Pure.

/// Threads at a latch: `decoupled` with two threads is off by 325 %.
pub const LATCH: f64 = 4.25;

/// One thread: `grasshopper` is off by 34 %.
pub const ONE_THREAD: f64 = 1.35;

/// Threads at contended words without a latch: `chunked` with two threads is off by 34 %.
pub const WORDS: f64 = 1.35;
