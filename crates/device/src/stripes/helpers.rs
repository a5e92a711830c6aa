//! Helper threads. A striped call consists of one call for each directory, and helpers make these
//! calls at the same time.
//!
//! The caller makes the first call itself, and then takes back the calls that no helper has begun.
//! So the caller never waits for a helper that is busy for another caller. Helpers are started when
//! one is missing, at most [`HELPERS_MAX`]. Idle helpers sleep on a condition variable without a
//! timer, and end with the pool.
//!
//! Invariants:
//!
//! 1. [`HelperPool::each`] returns, or unwinds, only when no helper has its call or can still get
//!    it, because the call is borrowed.
//! 2. A task is in the queue or with the thread that took it out, never both. Each task is reported
//!    to its group exactly once.
//!
//! Latches (leaf ranks): `state` guards the queue and the count of sleepers; `threads` guards the
//! threads' handles; each group's own latch guards its outcome. None is held during a call.

use crate::error::{Error, Result};
use crate::gate::Caller;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Maximum number of helper threads, for all callers together.
const HELPERS_MAX: usize = 16;

type Call<'a> = dyn Fn(usize) -> Result<()> + Sync + 'a;

/// A pool of helper threads: see the head of this file.
#[derive(Default)]
pub(super) struct HelperPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    /// Number of sleeping helpers that no thread has woken. After a spurious wake-up the number may
    /// be too large; it is never too small.
    asleep: usize,
    helpers: usize,
    over: bool,
}

struct Task {
    /// The call is alive until the group is settled (invariant 1). This is a pointer and not a
    /// reference, because the task may outlive the call for a moment: from the task's report to the
    /// task's drop.
    call: *const Call<'static>,
    nth: usize,
    group: Arc<Group>,
}

// SAFETY: the call is `Sync`, so it may be called by reference from any thread; the rest is `Send`
// by itself.
unsafe impl Send for Task {}

struct Group {
    caller: Caller,
    progress: Mutex<GroupProgress>,
    settled: Condvar,
}

struct GroupProgress {
    tasks: usize,
    /// The failed call of the lowest number, and its error.
    failure: Option<(usize, Error)>,
    panic: Option<Box<dyn Any + Send>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    fn run(self) {
        let Task { call, nth, group } = self;
        let made = || {
            // SAFETY: this task is not reported yet, so its group is not settled, and the call is
            // alive (invariant 1). The reference ends with this closure, before the report.
            let call = unsafe { &*call };
            call(nth)
        };
        // The caller waits for this call, so this thread counts as inside the same gates as the
        // caller.
        let outcome = group.caller.lend(|| catch_unwind(AssertUnwindSafe(made)));
        group.report(nth, outcome);
    }
}

impl Group {
    fn report(&self, nth: usize, outcome: thread::Result<Result<()>>) {
        let mut progress = locked(&self.progress);
        progress.tasks -= 1;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) if progress.failure.as_ref().is_some_and(|(first, _)| *first < nth) => drop(error),
            Ok(Err(error)) => progress.failure = Some((nth, error)),
            Err(panic) => progress.panic = Some(panic),
        }
        if progress.tasks == 0 {
            self.settled.notify_all();
        }
    }
}

/// Keeps [`HelperPool::each`] from ending, even by a panic, before its tasks have ended (invariant
/// 1).
struct Ending<'a> {
    shared: &'a Shared,
    group: &'a Arc<Group>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        while let Some(task) = self.shared.take_back(self.group) {
            task.group.report(task.nth, Ok(Ok(())));
        }
        let mut progress = locked(&self.group.progress);
        while progress.tasks > 0 {
            progress = self.group.settled.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl HelperPool {
    /// Makes `call` with each number below `count`, at the same time if there are enough helpers.
    /// Returns the failure of the lowest number.
    pub(super) fn each(&self, count: usize, call: &Call<'_>) -> Result<()> {
        if count <= 1 {
            return (0..count).try_for_each(call);
        }
        let progress = GroupProgress { tasks: count - 1, failure: None, panic: None };
        let (caller, progress) = (Caller::this_thread(), Mutex::new(progress));
        let group = Arc::new(Group { caller, progress, settled: Condvar::new() });
        // SAFETY: only the pointer's lifetime changes, and only `Task::run` makes a reference of
        // it.
        let lasting = unsafe { std::mem::transmute::<*const Call<'_>, *const Call<'static>>(call) };
        let ending = Ending { shared: &self.shared, group: &group };
        self.offer((1..count).map(|nth| Task { call: lasting, nth, group: group.clone() }));
        let own = call(0);
        while let Some(task) = self.shared.take_back(&group) {
            task.run();
        }
        drop(ending);
        let mut progress = locked(&group.progress);
        if let Some(panic) = progress.panic.take() {
            drop(progress);
            resume_unwind(panic);
        }
        own.and(progress.failure.take().map_or(Ok(()), |(_, error)| Err(error)))
    }

    fn offer(&self, tasks: impl Iterator<Item = Task>) {
        let mut state = locked(&self.shared.state);
        state.queue.extend(tasks);
        let wanted = state.queue.len();
        let woken = wanted.min(state.asleep);
        state.asleep -= woken;
        let missing = (wanted - woken).min(HELPERS_MAX.saturating_sub(state.helpers));
        state.helpers += missing;
        drop(state);
        (0..woken).for_each(|_| self.shared.asked.notify_one());
        for _ in 0..missing {
            let shared = self.shared.clone();
            match thread::Builder::new().name("katydid-stripe".to_owned()).spawn(move || shared.help()) {
                Ok(thread) => locked(&self.threads).push(thread),
                // Without a helper the caller makes the calls itself.
                Err(_) => locked(&self.shared.state).helpers -= 1,
            }
        }
    }
}

impl Shared {
    /// Takes the group's next task that no helper has begun.
    fn take_back(&self, group: &Arc<Group>) -> Option<Task> {
        let mut state = locked(&self.state);
        let nth = state.queue.iter().position(|task| Arc::ptr_eq(&task.group, group))?;
        state.queue.remove(nth)
    }

    /// Runs tasks until the pool is dropped; a helper thread does nothing else.
    fn help(&self) {
        let mut state = locked(&self.state);
        loop {
            if let Some(task) = state.queue.pop_front() {
                drop(state);
                task.run();
                state = locked(&self.state);
            } else if state.over {
                return;
            } else {
                state.asleep = (state.asleep + 1).min(state.helpers);
                state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Drop for HelperPool {
    fn drop(&mut self) {
        locked(&self.shared.state).over = true;
        self.shared.asked.notify_all();
        for thread in locked(&self.threads).drain(..) {
            // A helper does not panic, because the panics of its tasks go to their callers.
            drop(thread.join());
        }
    }
}

impl fmt::Debug for HelperPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HelperPool({} helpers)", locked(&self.shared.state).helpers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Cause, Verb};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_call_is_made_once_and_before_it_returns() {
        let helpers = HelperPool::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..if cfg!(miri) { 5 } else { 500 } {
                        let counts: Vec<AtomicUsize> = (0..round % 6).map(|_| AtomicUsize::new(0)).collect();
                        let call = |nth: usize| {
                            counts[nth].fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        };
                        helpers.each(counts.len(), &call).expect("no call fails");
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    /// For Miri, under several seeds: the call is dropped as soon as `each` returns, while a helper
    /// may still be leaving it.
    #[test]
    fn miri_a_call_may_die_as_soon_as_it_was_made_by_all() {
        let helpers = HelperPool::default();
        for round in 0..if cfg!(miri) { 30 } else { 1000 } {
            let sum = AtomicUsize::new(0);
            {
                let numbers = Box::new([round, 1]);
                helpers
                    .each(2, &|nth| {
                        sum.fetch_add(numbers[nth], Ordering::Relaxed);
                        Ok(())
                    })
                    .expect("no call fails");
            }
            assert_eq!(sum.into_inner(), round + 1);
        }
    }

    #[test]
    fn calls_are_made_at_the_same_time() {
        let (helpers, meeting) = (HelperPool::default(), Barrier::new(4));
        let call = |_| {
            // The call ends only when all four calls have begun.
            meeting.wait();
            Ok(())
        };
        for _ in 0..3 {
            helpers.each(4, &call).expect("no call fails");
            // A call that finds too few helpers asleep starts more, so all three have to be asleep
            // first.
            while locked(&helpers.shared.state).asleep < 3 {
                thread::yield_now();
            }
        }
        assert_eq!(locked(&helpers.shared.state).helpers, 3, "helpers are used again");
    }

    #[test]
    fn the_first_failure_is_returned_and_a_panic_reaches_the_caller() {
        let helpers = HelperPool::default();
        let call = |nth: usize| match nth {
            1 | 3 => Err(Error::new(Verb::Write, nth.to_string(), Cause::NoSpace)),
            _ => Ok(()),
        };
        for _ in 0..20 {
            assert_eq!(helpers.each(4, &call).expect_err("two fail").subject, "1");
        }
        for bug in 0..3 {
            let call = |nth: usize| {
                assert!(nth != bug, "a bug");
                Ok(())
            };
            assert!(catch_unwind(AssertUnwindSafe(|| helpers.each(3, &call))).is_err());
        }
        helpers.each(4, &|_| Ok(())).expect("it goes on");
    }
}
