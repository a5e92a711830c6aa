//! Copies and waits of every world but the simulated machine's, which charges for them in its own
//! way.

#[cfg(not(any(loom, katydid_explore)))]
use super::current;
use super::{spin_loop, yield_now};

/// True under a checker, which can reach small sizes only.
pub const CHECKED: bool = cfg!(any(loom, katydid_explore, miri));

/// Copies a record's bytes into the ring.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Ends a wait in which this thread has parked. The token that [`park`](super::park) took may
/// belong to the waker of a program's own executor, which runs on this thread and parks too.
/// Without its token that executor would never wake up again. One token too many makes it look once
/// more.
pub fn return_token() {
    // A token more would be a step more for the checkers, in which only the log parks.
    #[cfg(not(any(loom, katydid_explore)))]
    current().unpark();
}

/// Does one step of a wait for a thread that is running, or about to run: yields at first, and
/// sleeps for short times if the wait is long. Idle threads do not call this.
pub fn rest(step: u32) {
    if CHECKED || step < 200 {
        yield_now();
    } else {
        // Not a park with a limit: that takes a token (`return_token`).
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

/// Does one step of a wait for a thread that will act in less time than a thread switch takes,
/// while other threads queue behind the caller. It spins a little first, and sleeps much later than
/// [`rest`], because a sleeping thread would delay all of them.
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
