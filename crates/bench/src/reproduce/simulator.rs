//! Error of simulated rows compared with real rows, as `docs/manycore.md` states it ("How far to
//! trust it").
//!
//! This file has only constants.

/// Factor for threads that contend for a latch: `decoupled` with two threads is off by 325 %.
pub const LATCH: f64 = 4.25;

/// Factor for one thread: `grasshopper` is off by 34 %.
pub const ONE_THREAD: f64 = 1.35;

/// Factor for threads that contend for words without a latch: `chunked` with two threads is off by
/// 34 %.
pub const WORDS: f64 = 1.35;
