//! Random tests, whose tasks run in the order that a seed determines. `crates/interleave` enforces
//! the order.
//!
//! A failure prints the seed; `KATYDID_SEED` replays it.

pub(crate) use katydid_interleave::{Order, Step, Task};

use crate::shard;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The number of the thread that runs a test. The thread shares its shard with no task.
const TEST: usize = shard::SHARDS - 1;

/// Runs the tasks in the order of `seed`, and returns all events in order. Each task's thread has
/// the number of its task, so that the shards of threads are the same in each run.
pub(crate) fn run(seed: u64, tasks: Vec<Task<'_>>) -> Order {
    let numbered = tasks
        .into_iter()
        .enumerate()
        .map(|(number, task)| -> Task<'_> { Box::new(move || shard::with_number(number, task)) });
    katydid_interleave::run(seed, numbered.collect())
}

/// Returns the number in an environment variable, if the variable is set.
pub(crate) fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}: a number")))
}

/// Runs `test` as one task, so that its clock and its hash seeds are also the same in each run of
/// the seed. Returns all events outside of the runs that the test makes.
pub(crate) fn run_alone(seed: u64, test: impl Fn(u64) + Sync) -> Order {
    let task = || shard::with_number(TEST, || test(seed));
    katydid_interleave::run(seed, vec![Box::new(task)])
}

/// Runs `test` with `count` seeds, each as one task. Half of the seeds are the same in every run,
/// the others are new. `KATYDID_SEED` replaces all of them by `count` seeds from its value on.
pub(crate) fn for_seeds(count: u64, test: impl Fn(u64) + Sync) {
    for_each_seed(count, |seed| drop(run_alone(seed, &test)));
}

/// Runs `test` with the seeds of [`for_seeds`], on the calling thread.
pub(crate) fn for_each_seed(count: u64, test: impl Fn(u64)) {
    let requested = number_in("KATYDID_SEED");
    let new = requested.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let fixed = if requested.is_some() { 0 } else { count / 2 };
    let seeds = (0..fixed).chain((0..count - fixed).map(|nth| new.wrapping_add(nth)));
    for (nth, seed) in (0..).zip(seeds) {
        replayable(nth, seed, &test);
    }
}

/// Runs `test` with `seed`, and prints how to replay a failure. `nth` is the number of the run.
pub(crate) fn replayable(nth: u64, seed: u64, test: impl Fn(u64)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
        eprintln!("seed number {nth}: replay it with KATYDID_SEED={seed} and the name of this test");
        resume_unwind(panic);
    }
}
