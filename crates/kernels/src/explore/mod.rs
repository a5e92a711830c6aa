//! An explorer of interleavings: runs a small test body again and again until every schedule, and
//! every value that a load may legally return, has been tried.
//!
//! loom 0.7.2 does most of this, but misses a legal interleaving of threads of two operations, so
//! the kernels are put through both. The body's threads are coroutines ([`fibers`]); at every
//! shared access the explorer picks who goes next and, for a load, which value is read
//! ([`memory`]). The picks form a path; the next run repeats the path up to its last pick that has
//! an untried alternative and takes that.
//!
//! Invariants:
//!
//! 1. All threads of an execution run on the thread that explores, one at a time. So they share
//!    that one's thread-local state, which outlives the execution: bodies use none. None suspends
//!    while it panics.
//! 2. The body is deterministic apart from the picks. A replayed pick whose number of alternatives
//!    has changed is an error, not a wrong result.
//! 3. Every run ends: a thread that spins must say so ([`yield_now`], [`spin_loop`]) and then
//!    sleeps until another thread has changed something. A run in which no thread can move is
//!    reported as a lost wake-up.

mod fibers;
#[cfg(test)]
mod litmus;
mod memory;
mod primitives;
mod schedule;

pub use primitives::*;
pub use schedule::{Explorer, Failure, Report, catches};
