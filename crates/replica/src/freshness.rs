//! Age of a replica's state.
//!
//! Any task may run this code, under one latch; no other latch is taken while a task holds this
//! one. With an append the leader reports its committed index, and how long ago a majority last
//! confirmed the leader. The leader leaves the report out if a write above that index may have been
//! acknowledged before the majority confirmed the leader (`peer::age_ms`). A follower that has
//! applied that index has a state that was current when the majority confirmed the leader. The age
//! does not include the time that the message travelled, because the clocks of two machines are not
//! compared. The leader notes its own reports, too, so it knows the age of its own state.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Minimum time between two reports that are remembered.
const APART: Duration = Duration::from_millis(10);
/// Maximum number of reports that are remembered: those of about ten seconds.
const WORDS_MAX: usize = 1024;

/// The age of a replica's state.
#[derive(Default)]
pub(crate) struct Freshness(Mutex<Words>);

#[derive(Default)]
struct Words {
    /// Latest known time at which the applied state was current.
    current: Option<Instant>,
    /// Times at which the states at some indices were current. Times and indices increase.
    coming: VecDeque<(Instant, u64)>,
}

impl Freshness {
    /// Notes a leader's report that arrived at `now`: the state at index `committed` was current
    /// `age` before `now`.
    pub(crate) fn hear(&self, now: Instant, age: Duration, committed: u64) {
        let Some(then) = now.checked_sub(age) else { return };
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match words.coming.back_mut() {
            Some((last, index)) if *index >= committed => *last = (*last).max(then),
            // Leaving a report out only makes the computed age larger than the true one.
            Some((last, _)) if then.saturating_duration_since(*last) < APART => {}
            _ => words.coming.push_back((then, committed)),
        }
        if words.coming.len() > WORDS_MAX {
            words.coming.pop_front();
        }
    }

    /// Returns the age at `now` of the state at index `applied`; `None` if no report covers that
    /// state.
    pub(crate) fn age(&self, now: Instant, applied: u64) -> Option<Duration> {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(&(then, index)) = words.coming.front()
            && index <= applied
        {
            words.current = words.current.max(Some(then));
            // The last report stays, because a later report with the same index replaces its time.
            if words.coming.len() == 1 {
                break;
            }
            words.coming.pop_front();
        }
        words.current.map(|then| now.saturating_duration_since(then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_as_old_as_the_last_word_that_it_covers() {
        let (freshness, start) = (Freshness::default(), Instant::now() + Duration::from_secs(60));
        let at = |ms| start + Duration::from_millis(ms);
        let age = |ms, applied| freshness.age(at(ms), applied).map(|age| age.as_millis());
        assert_eq!(age(0, 9), None);
        freshness.hear(at(100), Duration::from_millis(30), 5);
        freshness.hear(at(200), Duration::from_millis(30), 8);
        freshness.hear(at(201), Duration::from_millis(30), 9);
        freshness.hear(at(300), Duration::from_millis(30), 12);
        assert_eq!(age(310, 4), None);
        assert_eq!(age(310, 5), Some(240));
        assert_eq!(age(310, 11), Some(140));
        assert_eq!(age(310, 12), Some(40));
        freshness.hear(at(400), Duration::from_millis(10), 12);
        assert_eq!(age(410, 12), Some(20));
    }
}
