//! An explorer of interleavings. The explorer runs a small test body again and again, until it has
//! tried every schedule and every value that a load may legally return.
//!
//! Loom 0.7.2 does most of this, but misses a legal interleaving of threads with two operations
//! each, so the kernels run under both. The body's threads are coroutines ([`fibers`]). At every
//! shared access the explorer picks the thread that runs next and, for a load, the value that the
//! load returns ([`memory`]). The picks form a path. The next run repeats the path up to the last
//! pick that has an untried alternative, and takes that alternative.
//!
//! Invariants:
//!
//! 1. All threads of an execution run on the thread that explores, one at a time. So they share
//!    that thread's thread-local state, which outlives the execution; bodies therefore use no
//!    thread-local state. While a thread unwinds from a panic, it does not suspend: `std` counts
//!    panics for each thread of the operating system, so the other threads of the execution would
//!    count as panicking too.
//! 2. The body is deterministic apart from the picks. If the number of alternatives of a repeated
//!    pick has changed, the run fails.
//! 3. Every run ends. A loop that spins must call [`yield_now`] or [`spin_loop`], which blocks the
//!    thread until another thread has changed something. A run in which no thread can go on is
//!    reported as a lost wake-up.

mod fibers;
#[cfg(test)]
mod litmus;
mod memory;
mod primitives;
mod schedule;

pub use primitives::*;
pub use schedule::{Explorer, Failure, Report, catches};
