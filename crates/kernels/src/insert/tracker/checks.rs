//! The tracker's sleep under the checkers. The tracker alone finds every record that was filled
//! before a notification, and it ends when it is stopped.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::{AtomicU64, PlainAccess, yield_now};
use std::sync::Arc;

/// Two owners with one record each, which crosses a boundary. An owner announces its record in a
/// word of its own.
struct Model {
    tracker: Tracker,
    filled: [AtomicU64; 2],
    found: AtomicU64,
    bytes: [PlainAccess; 2],
}

impl Model {
    fn new(built: Built) -> Arc<Self> {
        Arc::new(Model {
            tracker: Tracker::with_shift(1, built),
            filled: [AtomicU64::new(0), AtomicU64::new(0)],
            found: AtomicU64::new(0),
            bytes: [PlainAccess::new(), PlainAccess::new()],
        })
    }

    fn append(&self, owner: usize) {
        self.bytes[owner].write();
        self.filled[owner].store(1, Ordering::Release);
        self.tracker.filled(1, 3);
    }

    fn track(&self) {
        let mut seen = 0;
        self.tracker.run(|| {
            let filled = self.filled.each_ref().map(|word| word.load(Ordering::Acquire));
            (0..2).filter(|owner| filled[*owner] == 1).for_each(|owner| self.bytes[owner].read());
            let sum = filled.iter().sum();
            let moved = sum > seen;
            seen = sum;
            if !moved {
                return Look::Nothing;
            }
            self.found.store(sum, Ordering::Relaxed);
            Look::Found
        });
    }
}

/// Owners notify while the tracker scans, falls asleep or sleeps. No other thread scans.
fn the_tracker_finds_all(owners: u64, built: Built) {
    let model = Model::new(built);
    let theirs = model.clone();
    let tracker = spawn(move || theirs.track());
    let other = (owners == 2).then(|| {
        let theirs = model.clone();
        spawn(move || theirs.append(1))
    });
    model.append(0);
    if let Some(other) = other {
        other.join().expect("other");
    }
    // If this loop never ends, the checker reports it.
    while model.found.load(Ordering::Relaxed) < owners {
        yield_now();
    }
    model.tracker.stop();
    tracker.join().expect("tracker");
}

checked!(
    /// One owner notifies.
    loom_tracker_finds_what_was_notified explore_tracker_finds_what_was_notified miri_tracker_finds_what_was_notified,
    Some(3),
    || the_tracker_finds_all(1, Built::default())
);

checked!(
    /// Two owners notify.
    loom_tracker_two_notify explore_tracker_two_notify miri_tracker_two_notify,
    Some(2),
    || the_tracker_finds_all(2, Built::default())
);

checked!(
    /// The tracker is stopped before, while or after it falls asleep, while an owner notifies.
    loom_tracker_stops explore_tracker_stops miri_tracker_stops,
    Some(3),
    || {
        let model = Model::new(Built::default());
        let theirs = model.clone();
        let tracker = spawn(move || theirs.track());
        let theirs = model.clone();
        let owner = spawn(move || theirs.append(1));
        model.tracker.stop();
        owner.join().expect("owner");
        tracker.join().expect("tracker");
    }
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_tracker explore_catches_mutants_of_the_tracker,
        [(Mutant::RelaxedNotification, Detectors::Both), (Mutant::SleptUnlooked, Detectors::Both)],
        |mutant| {
            // The smallest bound that finds the mutant. With a higher bound the explorer finds it
            // too, but only after many more executions.
            let preemptions = if mutant == Mutant::RelaxedNotification { 0 } else { 2 };
            catches(preemptions, move || the_tracker_finds_all(1, Built::with(mutant)))
        }
    );
}
