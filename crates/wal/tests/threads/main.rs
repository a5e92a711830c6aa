//! The threads of a log as the kernel counts them. The tests have a program of their own and run
//! one at a time, because each looks at all threads of the process.

mod idle;
mod idle_watch;
mod tracker;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this program runs. While the guard lives, the only logs of the
/// process are the caller's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
