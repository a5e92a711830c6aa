//! The end of a bounded wait.

use parking_lot::{Condvar, MutexGuard};
use std::time::{Duration, Instant};

/// The end of a wait. A wait whose end is beyond the range of the clock never ends.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline of a wait that begins now and takes `at_most`. Any duration is legal.
    pub fn after(at_most: Duration) -> Self {
        Deadline(Instant::now().checked_add(at_most))
    }

    /// Returns true if the wait is over.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// Sleeps until notified. Returns true if the wait ended without a notification.
    pub fn sleep<T>(self, notified: &Condvar, guard: &mut MutexGuard<'_, T>) -> bool {
        match self.0 {
            Some(end) => notified.wait_until(guard, end).timed_out(),
            None => {
                notified.wait(guard);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_beyond_the_clock_never_comes() {
        assert!(!Deadline::after(Duration::MAX).is_over());
        assert!(Deadline::after(Duration::ZERO).is_over());
    }
}
