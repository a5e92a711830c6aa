//! Times at which the requests of one thread should start, if a rate was asked for.

use std::time::{Duration, Instant};

/// The timetable of one thread. Requests that are late do not move those after them, so that a slow
/// store is measured as its users would see it and not as a patient caller would ("coordinated
/// omission").
#[derive(Debug)]
pub(super) struct Pacing {
    interval: Duration,
    next: Instant,
}

impl Pacing {
    /// Every `threads / target` seconds, thread number `thread` its share of an interval later than
    /// the first.
    pub(super) fn new(target: f64, threads: usize, thread: usize, start: Instant) -> Self {
        let seconds = (threads as f64 / target).min(1e9);
        let interval = Duration::from_secs_f64(seconds);
        Pacing { interval, next: start + interval.mul_f64(thread as f64 / threads as f64) }
    }

    /// Time at which the next request should start.
    pub(super) fn next(&mut self) -> Instant {
        let at = self.next;
        self.next += self.interval;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timetable_is_fixed() {
        let start = Instant::now();
        let mut second = Pacing::new(100.0, 2, 1, start);
        assert_eq!(second.next(), start + Duration::from_millis(10));
        assert_eq!(second.next(), start + Duration::from_millis(30));
        let mut slow = Pacing::new(1e-300, 1, 0, start);
        assert_eq!(slow.next(), start);
    }
}
