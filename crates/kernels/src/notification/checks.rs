//! Notifications under the checkers. The worker's last round has seen every change.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::{AtomicU64, Mutex};
use std::sync::Arc;

const THREADS: usize = 2;

struct Model {
    notification: Notification,
    /// True if the worker was woken.
    woken: Mutex<bool>,
    changes: [AtomicU64; THREADS],
}

/// One step that a mutant does differently.
#[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The worker takes the notification by a store.
    TakesByStore,
    /// The worker looks before it takes the notification.
    LooksFirst,
    /// A thread notifies, and then makes its change.
    NotifiesFirst,
    /// A thread notifies with relaxed ordering.
    Relaxed,
}

impl Model {
    fn change(&self, thread: usize, mutant: Mutant) {
        let change = || self.changes[thread].store(1, Ordering::Relaxed);
        if mutant != Mutant::NotifiesFirst {
            change();
        }
        let must_wake = match mutant {
            Mutant::Relaxed => !self.notification.pending.swap(true, Ordering::Relaxed),
            _ => self.notification.give(),
        };
        if must_wake {
            *self.woken.lock().expect("no panic") = true;
        }
        if mutant == Mutant::NotifiesFirst {
            change();
        }
    }

    /// Runs the worker's next round if the worker was woken. Returns the changes that the round
    /// sees.
    fn work(&self, mutant: Mutant) -> Option<[u64; THREADS]> {
        let mut woken = self.woken.lock().expect("no panic");
        if !std::mem::take(&mut *woken) {
            return None;
        }
        let look = || std::array::from_fn(|thread| self.changes[thread].load(Ordering::Relaxed));
        let early = look();
        match mutant {
            Mutant::TakesByStore => self.notification.pending.store(false, Ordering::Release),
            _ => self.notification.take(),
        }
        drop(woken);
        Some(if mutant == Mutant::LooksFirst { early } else { look() })
    }
}

fn changes_are_seen(mutant: Mutant) {
    let model = Arc::new(Model {
        notification: Notification::new(),
        woken: Mutex::new(false),
        changes: std::array::from_fn(|_| AtomicU64::new(0)),
    });
    let threads: [_; THREADS] = std::array::from_fn(|thread| {
        let model = model.clone();
        spawn(move || model.change(thread, mutant))
    });
    let mut seen = [0; THREADS];
    for _ in 0..THREADS {
        seen = model.work(mutant).unwrap_or(seen);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    seen = model.work(mutant).unwrap_or(seen);
    assert_eq!(seen, [1; THREADS], "a change that no work has seen");
}

checked!(
    /// Two threads make changes and notify while a worker runs.
    loom_changes_are_seen explore_changes_are_seen miri_changes_are_seen,
    Some(3),
    || changes_are_seen(Mutant::None)
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_notifications explore_catches_mutants_of_notifications,
        [
            (Mutant::TakesByStore, Detectors::Both),
            (Mutant::LooksFirst, Detectors::Both),
            (Mutant::NotifiesFirst, Detectors::Both),
            (Mutant::Relaxed, Detectors::Both)
        ],
        |mutant| catches(3, move || changes_are_seen(mutant))
    );
}
