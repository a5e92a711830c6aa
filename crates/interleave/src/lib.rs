//! A scheduler for tests. It runs real threads, exactly one at a time, in an order that a seed
//! determines.
//!
//! [`run`] starts one thread for each task. One of these threads has the turn; the other threads
//! sleep. The turn changes only at these events:
//!
//! | event | what the scheduler does |
//! |---|---|
//! | the thread calls [`pause`] or [`pause_between`] | the scheduler records the place; the seed decides whether another thread goes on. After 2,000 such calls in one turn, another thread goes on if one can |
//! | the thread waits for a futex (any latch, condition variable or `park` of `std` and `parking_lot`, in any crate) | the thread sleeps until another thread wakes the futex; another thread goes on |
//! | the thread yields or sleeps (`sched_yield`, `nanosleep`) | another thread goes on if one can |
//! | the thread ends | another thread goes on |
//!
//! The scheduler sees waits because `std` and `parking_lot` wait by calling the C library's
//! function `syscall` with the number of `futex`. This crate defines a function `syscall`, which
//! the linker prefers to the C library's (`calls`). This function passes calls of threads outside
//! the scheduler, and all other system calls, on to the C library. The crate also defines
//! `sched_yield`, `nanosleep`, `clock_nanosleep`, `clock_gettime` and `getrandom`.
//!
//! The threads have a clock of their own. The clock advances by 1 us at each call of [`pause`] or
//! [`pause_between`], and at each reading of the clock after the 100th since such a call. The clock
//! advances by 1 ms when a thread yields and no other thread can go on. If all threads wait, and at
//! least one of them with a time limit, the clock jumps to the earliest limit. So a test does not
//! wait for its limits in real time, and a limit ends the same wait in each run.
//!
//! Turns and clock depend only on the seed. So a seed names one order of all events, and a thread
//! runs alone between two events. The scheduler does not control the following:
//!
//! 1. Steps between two events. Taking a free latch, accessing an atomic and calling `spin_loop`
//!    are no events; code that needs an event there calls [`pause`]. If a thread spins until
//!    another thread makes a change, and the loop has no event, the run hangs.
//! 2. Memory order. One thread at a time runs, so each thread sees all stores of the others. The
//!    explorer and loom look for bugs of memory order.
//! 3. Threads that tasks start, and threads that existed before. Such threads run in parallel with
//!    the scheduled threads, and may wake them.
//! 4. Behaviour that depends on addresses. `parking_lot` chooses its wait queues by address. Now
//!    and then `parking_lot` hands a latch over to a waiting thread; the moment depends on the
//!    other waiters in the queue. Code that needs the same order in each run takes its latches by
//!    `try_lock`, and yields after a failure.
//!
//! If all threads wait without a limit, and no thread from outside wakes one of them within
//! [`STUCK`], the process prints the order and aborts.
//!
//! The scheduler runs on Linux. Its definition of `syscall` is known to be correct on x86-64 and
//! aarch64 (rule 1 of `calls`). On other systems [`run`] runs one task after the other.

#![cfg_attr(not(target_os = "linux"), forbid(unsafe_code))]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "tasks run one after the other there"))]

#[cfg(target_os = "linux")]
mod calls;
mod policy;
mod scheduler;

pub use scheduler::{Order, STUCK, Step, Task, number, pause, pause_between, run};
