//! The scheduler sees waits of all kinds. All runs with one seed have the same order, and different
//! seeds find different orders.

#![cfg(target_os = "linux")]

use katydid_interleave::{Order, Task, pause, run};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Two threads add to a counter, with a scheduling point between the load and the store. Returns
/// the counter's last value and the order.
fn race(seed: u64) -> (u32, Order) {
    let counter = AtomicU32::new(0);
    let add = || {
        let found = counter.load(Ordering::SeqCst);
        pause("between");
        counter.store(found + 1, Ordering::SeqCst);
    };
    let order = run(seed, vec![Box::new(add), Box::new(add)]);
    (counter.into_inner(), order)
}

#[test]
fn seeds_find_both_outcomes_of_a_race() {
    let outcomes: BTreeSet<u32> = (0..300).map(|seed| race(seed).0).collect();
    assert_eq!(outcomes, BTreeSet::from([1, 2]));
}

#[test]
fn a_seed_names_one_order() {
    let orders: Vec<Order> = (0..50).map(|seed| race(seed).1).collect();
    for (seed, order) in orders.iter().enumerate() {
        assert_eq!(race(seed as u64).1, *order, "seed {seed}");
    }
    assert!(orders.iter().any(|order| *order != orders[0]));
}

/// A thread is delayed while it holds a mutex. A thread that waits for the mutex lets another
/// thread run.
#[test]
fn a_thread_that_waits_for_a_latch_gives_the_turn_away() {
    let mut waited = 0;
    for seed in 0..200 {
        let latch = Mutex::new(0);
        let work = || {
            for _ in 0..5 {
                let mut count = latch.lock().expect("no panic");
                let found = *count;
                pause("inside");
                *count = found + 1;
            }
        };
        let order = run(seed, vec![Box::new(work), Box::new(work), Box::new(work)]);
        assert_eq!(*latch.lock().expect("no panic"), 15);
        waited += usize::from(order.0.iter().any(|step| step.place == "waits"));
    }
    assert!(waited > 10, "a wait in {waited} of 200 runs");
}

/// The scheduler also sees waits on condition variables, waits by `park`, and loops that yield
/// until a flag is set.
#[test]
fn waits_of_other_kinds_are_seen() {
    for seed in 0..50 {
        let (latch, changed) = (Mutex::new(false), Condvar::new());
        let (seen, flag) = (AtomicBool::new(false), AtomicBool::new(false));
        let main = Mutex::new(None);
        let waits = || {
            *main.lock().expect("no panic") = Some(std::thread::current());
            let mut is_set = latch.lock().expect("no panic");
            while !*is_set {
                is_set = changed.wait(is_set).expect("no panic");
            }
            drop(is_set);
            seen.store(true, Ordering::SeqCst);
            while !flag.load(Ordering::SeqCst) {
                std::thread::park();
            }
        };
        let sets = || {
            pause("before");
            *latch.lock().expect("no panic") = true;
            changed.notify_one();
            while !seen.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            flag.store(true, Ordering::SeqCst);
            main.lock().expect("no panic").as_ref().expect("a thread").unpark();
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(waits), Box::new(sets)];
        run(seed, tasks);
    }
}

/// A wait with a limit of a week ends at once, and the threads' clock then shows that the week is
/// over.
#[test]
fn limits_take_no_time() {
    let week = Duration::from_secs(7 * 24 * 3600);
    let task = || {
        pause("begins");
        let (latch, never) = (Mutex::new(()), Condvar::new());
        let guard = latch.lock().expect("no panic");
        let (_guard, outcome) = never.wait_timeout(guard, week).expect("no panic");
        assert!(outcome.timed_out());
        pause("has waited");
    };
    let order = run(1, vec![Box::new(task)]);
    let clock_at = |place| order.0.iter().find(|step| step.place == place).expect("the task was there").clock;
    assert!(u128::from(clock_at("has waited") - clock_at("begins")) >= week.as_nanos());
}

/// The test repeats a run inside of which another run takes place. Clocks and hash seeds of both
/// must be the same each time.
#[test]
fn clocks_and_hash_seeds_are_the_same_in_each_run() {
    let look = || {
        let seen = Mutex::new(None);
        let task = || {
            let word = || RandomState::new().hash_one("word");
            let begun = Instant::now();
            let inner = Mutex::new((0, Instant::now()));
            let read = || {
                pause("somewhere");
                *inner.lock().expect("no panic") = (word(), Instant::now());
            };
            run(7, vec![Box::new(read)]);
            let (hash, time) = inner.into_inner().expect("no panic");
            assert!(time > begun && Instant::now() >= time);
            *seen.lock().expect("no panic") = Some((word(), hash, begun.elapsed()));
        };
        run(1, vec![Box::new(task)]);
        seen.into_inner().expect("no panic")
    };
    assert_eq!(look(), look());
}

/// A thread that does not belong to the scheduler wakes a thread of the scheduler.
#[test]
fn a_thread_from_outside_wakes_one_of_the_scheduler() {
    let (latch, changed) = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        let (latch, changed) = (&latch, &changed);
        let task = move || {
            scope.spawn(move || {
                *latch.lock().expect("no panic") = true;
                changed.notify_all();
            });
            let mut is_set = latch.lock().expect("no panic");
            while !*is_set {
                is_set = changed.wait(is_set).expect("no panic");
            }
        };
        run(1, vec![Box::new(task)]);
    });
}

#[test]
#[should_panic(expected = "the task's own")]
fn a_panic_of_a_task_is_handed_on() {
    run(1, vec![Box::new(|| panic!("the task's own")), Box::new(|| pause("somewhere"))]);
}
