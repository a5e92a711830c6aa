//! A scheduler for tests: real threads, of which exactly one runs at a time, in an order that a
//! seed names.
//!
//! [`run`] starts one thread for each task. One of them has the turn; the others sleep. The turn
//! changes at these events only:
//!
//! | event | what the scheduler does |
//! |---|---|
//! | the thread calls [`pause`] or [`pause_between`] | records the place; the seed decides whether another thread goes on |
//! | it waits for a futex (any latch, condition variable or `park` of `std` and `parking_lot`, in any crate) | the thread sleeps until another wakes the futex; another thread goes on |
//! | it yields or sleeps (`sched_yield`, `nanosleep`) | another thread goes on if there is one |
//! | it ends | another thread goes on |
//!
//! How a wait is seen: `std` and `parking_lot` wait by calling the C library's `syscall` function
//! with the number of `futex`. This crate defines a function of that name, which the linker prefers
//! to the C library's (`calls`). Calls of other threads, and all other system calls, are passed on.
//! The same is done with `sched_yield`, `nanosleep`, `clock_nanosleep`, `clock_gettime` and
//! `getrandom`.
//!
//! The threads have a clock of their own: a microsecond for each place. If all threads wait, and
//! one of them with a limit, the clock jumps to the earliest limit. So no test takes the time that
//! its limits name, and a limit ends the same wait in each run.
//!
//! So a seed names one order of all events: what a thread does between two events, it does alone.
//! These stay outside:
//!
//! 1. What a thread does between two events is not interrupted. A free latch, an atomic, and a loop
//!    around `spin_loop` are no events by themselves: code that wants one there calls [`pause`]. A
//!    thread that spins without end, and never yields, hangs.
//! 2. Memory order: one thread at a time runs, so each sees all that the others have stored. The
//!    explorer and loom look for such bugs.
//! 3. Threads that the tasks start, or that were there before: they run beside all others. They may
//!    wake a thread of the scheduler.
//! 4. What depends on addresses. `parking_lot` picks its queues by address, and now and then hands
//!    a latch over to the thread that waits, which depends on what else was in that queue: code
//!    that wants the same order each time tries its latches, and yields.
//!
//! If all threads wait without a limit, and no other thread wakes one for [`STUCK`], the process
//! prints the order and ends.
//!
//! Linux on x86-64 and on aarch64. Elsewhere [`run`] runs one task after the other.

#![cfg_attr(not(target_os = "linux"), forbid(unsafe_code))]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "tasks run one after the other there"))]

#[cfg(target_os = "linux")]
mod calls;
mod policy;
mod scheduler;

pub use scheduler::{Order, STUCK, Step, Task, number, pause, pause_between, run};
