//! The explorer on programs whose outcomes are known: it finds every outcome that release/acquire
//! allows, and none that release/acquire forbids.

use super::*;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as Notes};

type Outcomes = BTreeSet<(u64, u64)>;

fn outcomes(body: impl Fn() -> (u64, u64) + Send + Sync + 'static) -> Outcomes {
    outcomes_within(None, body)
}

fn outcomes_within(
    preemptions: Option<u32>,
    body: impl Fn() -> (u64, u64) + Send + Sync + 'static,
) -> Outcomes {
    let seen = Arc::new(Notes::new(BTreeSet::new()));
    let into = Arc::clone(&seen);
    let report = Explorer { preemptions, ..Explorer::default() }
        .check(move || {
            let outcome = body();
            into.lock().expect("not poisoned").insert(outcome);
        })
        .expect("no failure");
    assert!(report.complete);
    let seen = seen.lock().expect("not poisoned");
    seen.clone()
}

/// Each of two threads stores to its own location, then loads the other thread's location.
fn store_buffering(store: Ordering, load: Ordering) -> Outcomes {
    outcomes(move || {
        let both = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let threads = [0, 1].map(|mine| {
            let both = Arc::clone(&both);
            spawn(move || {
                both[mine].store(1, store);
                both[1 - mine].load(load)
            })
        });
        let [a, b] = threads.map(|thread| thread.join().expect("no panic"));
        (a, b)
    })
}

#[test]
fn explore_store_buffering_is_forbidden_only_when_sequentially_consistent() {
    assert_eq!(store_buffering(Ordering::Release, Ordering::Acquire).len(), 4);
    assert_eq!(store_buffering(Ordering::Relaxed, Ordering::Relaxed).len(), 4);
    let strict = store_buffering(Ordering::SeqCst, Ordering::SeqCst);
    assert_eq!(strict, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
}

/// Two threads store to one location each; two other threads load both locations, in opposite
/// orders. Returns the values that each reader found, as a number of two digits.
fn independent_reads(store: Ordering, load: Ordering) -> Outcomes {
    // Two preemptions are enough for four threads: both readers may be suspended between their
    // loads.
    outcomes_within(Some(2), move || {
        let both = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let writers = [0, 1].map(|mine| {
            let both = Arc::clone(&both);
            spawn(move || both[mine].store(1, store))
        });
        let readers = [0, 1].map(|first| {
            let both = Arc::clone(&both);
            spawn(move || {
                let seen = both[first].load(load);
                seen * 10 + both[1 - first].load(load)
            })
        });
        writers.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let [a, b] = readers.map(|thread| thread.join().expect("no panic"));
        (a, b)
    })
}

#[test]
fn explore_readers_agree_on_an_order_only_when_sequentially_consistent() {
    assert!(independent_reads(Ordering::Release, Ordering::Acquire).contains(&(10, 10)));
    assert!(!independent_reads(Ordering::SeqCst, Ordering::SeqCst).contains(&(10, 10)));
}

/// The litmus test [`store_buffering`], relaxed, with a fence between the store and the load.
#[test]
fn explore_store_buffering_is_forbidden_by_fences() {
    for (fenced, forbidden) in [(Ordering::SeqCst, true), (Ordering::AcqRel, false)] {
        let found = outcomes(move || {
            let both = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let threads = [0, 1].map(|mine| {
                let both = Arc::clone(&both);
                spawn(move || {
                    both[mine].store(1, Ordering::Relaxed);
                    fence(fenced);
                    both[1 - mine].load(Ordering::Relaxed)
                })
            });
            let [a, b] = threads.map(|thread| thread.join().expect("no panic"));
            (a, b)
        });
        assert_eq!(!found.contains(&(0, 0)), forbidden, "{fenced:?}");
    }
}

/// Two sequentially consistent operations on different locations do not synchronise. An explorer
/// that let them synchronise would hide a missing Acquire.
#[test]
fn explore_a_sequentially_consistent_operation_publishes_its_own_location_only() {
    let found = outcomes(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]);
        let theirs = Arc::clone(&words);
        let writer = spawn(move || {
            theirs[0].store(1, Ordering::Relaxed);
            theirs[1].store(1, Ordering::SeqCst);
        });
        let theirs = Arc::clone(&words);
        let reader = spawn(move || {
            let flag = theirs[1].load(Ordering::Relaxed);
            // If the flag was seen, this store runs after the writer's SeqCst store. But this store
            // and the load below are to another location, so they acquire nothing from the writer.
            theirs[2].store(1, Ordering::SeqCst);
            theirs[2].load(Ordering::SeqCst);
            (flag, theirs[0].load(Ordering::Relaxed))
        });
        writer.join().expect("no panic");
        reader.join().expect("no panic")
    });
    assert!(found.contains(&(1, 0)), "nothing was acquired from the writer: {found:?}");
}

/// One thread stores a value and then a flag; the other loads the flag and then the value.
fn message_passing(store: Ordering, load: Ordering) -> Outcomes {
    outcomes(move || {
        let value_and_flag = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let theirs = Arc::clone(&value_and_flag);
        let writer = spawn(move || {
            theirs.0.store(1, Ordering::Relaxed);
            theirs.1.store(1, store);
        });
        let theirs = Arc::clone(&value_and_flag);
        let reader = spawn(move || {
            let flag = theirs.1.load(load);
            (flag, theirs.0.load(Ordering::Relaxed))
        });
        writer.join().expect("no panic");
        reader.join().expect("no panic")
    })
}

#[test]
fn explore_message_passing_needs_both_release_and_acquire() {
    assert!(!message_passing(Ordering::Release, Ordering::Acquire).contains(&(1, 0)));
    assert!(message_passing(Ordering::Relaxed, Ordering::Acquire).contains(&(1, 0)));
    assert!(message_passing(Ordering::Release, Ordering::Relaxed).contains(&(1, 0)));
}

#[test]
fn explore_finds_a_lost_wake_up_and_a_race() {
    let explorer = Explorer::default();
    assert!(catches(&explorer, || spawn(park).join().expect("no panic")));
    assert!(catches(&explorer, || {
        let bytes = Arc::new(PlainAccess::new());
        let theirs = Arc::clone(&bytes);
        let writer = spawn(move || theirs.write());
        bytes.read();
        writer.join().expect("no panic");
    }));
}

#[test]
fn explore_a_failure_is_replayed_by_its_path() {
    let body = || {
        let word = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&word);
        let other = spawn(move || theirs.fetch_add(1, Ordering::AcqRel));
        let seen = word.load(Ordering::Acquire);
        other.join().expect("no panic");
        assert_eq!(seen, 0, "the other was first");
    };
    let explorer = Explorer::default();
    let failure = explorer.check(body).expect_err("one order fails");
    let again = explorer.replay(&failure.path, body).expect_err("the same order fails again");
    assert_eq!(again.message, failure.message);
}

#[test]
fn explore_locks_order_what_they_guard_and_spinning_ends() {
    let guarded = || {
        let shared = Arc::new((Mutex::new(0), PlainAccess::new()));
        let theirs = Arc::clone(&shared);
        let add = |shared: &(Mutex<i32>, PlainAccess)| {
            let mut count = shared.0.lock().expect("never poisoned");
            *count += 1;
            shared.1.write();
        };
        let other = spawn(move || add(&theirs));
        add(&shared);
        other.join().expect("no panic");
        assert_eq!(*shared.0.lock().expect("never poisoned"), 2);
    };
    let spinning = || {
        let flag = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&flag);
        let other = spawn(move || {
            while !theirs.load(Ordering::Acquire) {
                yield_now();
            }
        });
        flag.store(true, Ordering::Release);
        other.join().expect("no panic");
    };
    assert!(Explorer::default().check(guarded).expect("no failure").complete);
    assert!(Explorer::default().check(spinning).expect("no failure").complete);
}
