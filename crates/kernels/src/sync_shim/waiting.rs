//! The functions that copy and wait, for every world except the simulated machine, which charges
//! simulated time for copies and waits.

#[cfg(not(any(loom, katydid_explore)))]
use super::current;
use super::{spin_loop, yield_now};

/// True under a checker. Constants are smaller there, because a checker can run only small cases.
pub const CHECKED: bool = cfg!(any(loom, katydid_explore, miri));

/// Copies a record's bytes into the ring.
///
/// # Safety
/// The caller keeps the rules of [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller keeps the callee's rules.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Ends a wait in which this thread has parked. The token that [`park`](super::park) took may have
/// been meant for the program's own executor, which parks on this thread too. Without that token
/// the executor would never wake up again. A superfluous token only makes the executor poll once
/// more.
pub fn return_token() {
    // Under checkers only the log parks, so a further token would only add a step.
    #[cfg(not(any(loom, katydid_explore)))]
    current().unpark();
}

/// Does one step of a wait for a thread that is running, or about to run: yields at first, and
/// sleeps for short times if the wait is long. Idle threads do not call this.
pub fn rest(step: u32) {
    if CHECKED || step < 200 {
        yield_now();
    } else {
        // Sleeps instead of parking with a time limit, because a park would take a token
        // (`return_token`).
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

/// Does one step of a wait for a thread that acts in less time than a thread switch takes, while
/// other threads queue behind the caller. The first 32 steps spin, and the next 4,000 yield. The
/// caller sleeps much later than in [`rest`], because its sleep delays all threads behind it.
#[inline]
pub fn pause(step: u32) {
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
