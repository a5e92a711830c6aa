//! Times at which the requests of one thread should start, if a rate is given.

use std::time::{Duration, Instant};

/// Timetable of one thread. A late request does not move the requests after it. The latencies are
/// therefore those that independent users of a slow store would see, and "coordinated omission"
/// does not hide the waits.
#[derive(Debug)]
pub(super) struct Pacing {
    interval: Duration,
    next: Instant,
}

impl Pacing {
    /// A timetable with one request every `threads / target` seconds. Thread number `thread` starts
    /// `thread / threads` of an interval after `start`.
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
