//! The threads of one opening that run bodies for
//! [`Database::transact_async`](crate::Database::transact_async).
//!
//! A body is code of the user that reads and writes by blocking calls. Bodies run on these threads
//! so that the thread of an executor never waits for a lock, a page or the log. Threads are started
//! when there is work for them, and are parked when there is none.
//!
//! Invariants:
//!
//! 1. A job that was submitted is run once, or withdrawn. After [`BodyThreads::stop`] no job is
//!    accepted. Jobs that were accepted before are still run; those that begin after the stop find
//!    the database closed. Then the threads end. No thread waits for the end of the body threads,
//!    because a body may take as long as its author likes.
//! 2. Jobs begin in the order in which they were submitted.
//! 3. At most [`active_max`] threads are active, which means that they run a body and are not
//!    blocked. Threads that have just been unblocked may exceed this limit. A thread that waits for
//!    another transaction or for the device is blocked, so a body that waits for a lock delays no
//!    other body. There are at most [`THREADS_MAX`] threads: when all of them are blocked, the jobs
//!    wait.
//! 4. While a job waits and fewer than [`active_max`] threads are active, one of four things holds:
//!    a notified thread is about to wake, an active thread is about to look for a job, there are
//!    [`THREADS_MAX`] threads, or no further thread could be started. A thread calls
//!    [`Shared::let_one_work`] when it submits a job, when it takes a job, and when it blocks. A
//!    body thread ends only if no job waits. A body thread becomes idle only if no job waits or
//!    more than [`active_max`] threads are active.
//! 5. A thread keeps the database open only through the job that it runs.
//!
//! The latch `state` is a leaf. The only call that a thread makes while it holds `state` is the
//! start of another thread. Nothing here survives a crash.

use crate::error::{Error, Result};
use crate::latch::{Condvar, Mutex};
use katydid_device as device;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

thread_local! {
    /// The set of body threads to which the calling thread belongs; `None` if it is no body thread.
    static MINE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Maximum number of body threads of one opening.
const THREADS_MAX: usize = 256;

/// Work for a body thread. An implementation of `run` does not panic.
pub(crate) trait Job: Send + Sync {
    fn run(&self);
}

/// Serial number of a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

#[derive(Default)]
struct State {
    waiting: BTreeMap<Ticket, Arc<dyn Job>>,
    submitted: u64,
    threads: usize,
    /// Number of threads that are parked, or notified and not yet awake.
    idle: usize,
    /// Number of threads in [`while_blocked`].
    blocked: usize,
    stopping: bool,
}

impl State {
    fn active(&self) -> usize {
        self.threads - self.idle - self.blocked
    }
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    active_max: usize,
    threads_max: usize,
}

/// The body threads of one opening; see the head of this file.
pub(crate) struct BodyThreads {
    shared: Arc<Shared>,
}

/// Maximum number of active threads: twice the number of processors, because some threads wait for
/// latches, and at least 4.
fn active_max() -> usize {
    thread::available_parallelism().map_or(4, |processors| 2 * processors.get()).max(4)
}

impl BodyThreads {
    /// Makes a set of body threads that has no thread yet.
    pub(crate) fn new() -> Self {
        Self::bounded(active_max(), THREADS_MAX)
    }

    fn bounded(active_max: usize, threads_max: usize) -> Self {
        let (state, work) = (Mutex::default(), Condvar::new());
        BodyThreads { shared: Arc::new(Shared { state, work, active_max, threads_max }) }
    }

    /// Queues `job` for a body thread, and returns its ticket.
    ///
    /// # Errors
    /// `Error::Closed`; `Error::Device` if there is no thread and none can be started. After an
    /// error the job is not run.
    pub(crate) fn submit(&self, job: Arc<dyn Job>) -> Result<Ticket> {
        let mut state = self.shared.state.lock();
        if state.stopping {
            return Err(Error::Closed);
        }
        state.submitted += 1;
        let ticket = Ticket(state.submitted);
        state.waiting.insert(ticket, job);
        let outcome = self.shared.let_one_work(&mut state);
        if let Err(error) = outcome
            && state.threads == 0
        {
            let refused = state.waiting.remove(&ticket);
            drop(state);
            drop(refused);
            let error =
                device::Error::from_io(device::Verb::Open, "a thread for a transaction's body", error);
            return Err(Error::Device(error));
        }
        Ok(ticket)
    }

    /// Removes a waiting job. Does nothing if a thread has already taken the job.
    pub(crate) fn withdraw(&self, ticket: Ticket) {
        let withdrawn = self.shared.state.lock().waiting.remove(&ticket);
        drop(withdrawn);
    }

    /// Refuses new jobs. The threads end after they have run the jobs that were accepted before.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.work.notify_all();
    }

    /// The number of threads, and the number of waiting jobs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.shared.state.lock();
        (state.threads, state.waiting.len())
    }
}

impl Drop for BodyThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Notifies or starts a thread, if a job waits and fewer than `active_max` threads are active
    /// (invariant 4).
    fn let_one_work(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        if state.waiting.is_empty() || state.active() >= self.active_max {
            return Ok(());
        }
        if state.idle > 0 {
            self.work.notify_one();
        } else if state.threads < self.threads_max {
            let shared = self.clone();
            // The thread is never joined (invariant 1).
            let _detached =
                thread::Builder::new().name("katydid-body".to_owned()).spawn(move || shared.run())?;
            state.threads += 1;
        }
        Ok(())
    }

    /// The main function of a body thread: runs jobs until the threads are stopped and no job
    /// waits.
    fn run(self: Arc<Self>) {
        MINE.with(|mine| *mine.borrow_mut() = Some(self.clone()));
        let mut state = self.state.lock();
        loop {
            // The number of active threads includes this one.
            if state.active() <= self.active_max
                && let Some((_, job)) = state.waiting.pop_first()
            {
                // The notification that woke this thread may have been for another job, which still
                // waits.
                let _no_further_thread = self.let_one_work(&mut state);
                drop(state);
                job.run();
                drop(job);
                state = self.state.lock();
            } else if state.stopping && state.waiting.is_empty() {
                state.threads -= 1;
                // Wakes the idle threads, so that they end.
                self.work.notify_all();
                return;
            } else {
                state.idle += 1;
                self.work.wait(&mut state);
                state.idle -= 1;
            }
        }
    }

    fn blocks(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.blocked += 1;
        // If no thread can be started, the existing threads run the jobs.
        let _no_further_thread = self.let_one_work(&mut state);
    }

    fn goes_on(&self) {
        self.state.lock().blocked -= 1;
    }
}

/// Runs `wait`, which may block on another transaction or on the device. If the calling thread is a
/// body thread, another body may run meanwhile.
pub(crate) fn while_blocked<T>(wait: impl FnOnce() -> T) -> T {
    let mine = MINE.try_with(|mine| mine.borrow().clone()).ok().flatten();
    let Some(mine) = mine else { return wait() };
    mine.blocks();
    let _going_on = UnblockOnDrop(mine);
    wait()
}

struct UnblockOnDrop(Arc<Shared>);

impl Drop for UnblockOnDrop {
    fn drop(&mut self) {
        self.0.goes_on();
    }
}

impl std::fmt::Debug for BodyThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (threads, waiting) = self.counts();
        f.debug_struct("BodyThreads").field("threads", &threads).field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Run(Box<dyn Fn() + Send + Sync>);

    impl Job for Run {
        fn run(&self) {
            (self.0)();
        }
    }

    fn job(run: impl Fn() + Send + Sync + 'static) -> Arc<dyn Job> {
        Arc::new(Run(Box::new(run)))
    }

    /// A job that signals its beginning and then waits for a signal of the test. While it waits,
    /// its thread counts as blocked if `is_blocked` is true.
    fn held(is_blocked: bool) -> (Arc<dyn Job>, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (begin, begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let job = job(move || {
            let wait = || {
                begin.send(()).expect("the test waits");
                // An error means that the test has failed and dropped the sender.
                let _signal = may_go_on.lock().recv();
            };
            if is_blocked { while_blocked(wait) } else { wait() }
        });
        (job, begun, go_on)
    }

    #[test]
    fn jobs_run_in_their_order_and_blocked_ones_make_room() {
        let threads = BodyThreads::bounded(1, 3);
        let (first, first_begun, first_goes_on) = held(true);
        let (second, second_begun, second_goes_on) = held(false);
        let (third, third_begun, _third_goes_on) = held(false);
        threads.submit(first).expect("a thread");
        first_begun.recv().expect("it runs");
        threads.submit(second).expect("a thread");
        assert_eq!(threads.counts().0, 2, "a blocked thread gives its turn to another one");
        second_begun.recv().expect("it runs though the first one has not ended");
        let last = threads.submit(third).expect("a place");
        assert_eq!(threads.counts(), (2, 1), "one is active");
        drop(first_goes_on);
        drop(second_goes_on);
        third_begun.recv().expect("it runs when another one has ended");
        threads.withdraw(last);
    }

    #[test]
    fn threads_are_bounded_also_if_all_are_blocked() {
        let threads = BodyThreads::bounded(1, 2);
        let held: Vec<_> = (0..3).map(|_| held(true)).collect();
        for (job, ..) in &held {
            threads.submit(job.clone()).expect("a place");
        }
        for (_, begun, _) in &held[..2] {
            begun.recv().expect("it runs");
        }
        assert_eq!(threads.counts(), (2, 1));
        let (_, begun, _) = &held[2];
        assert!(begun.try_recv().is_err());
        let (_, _, go_on) = &held[0];
        go_on.send(()).expect("it waits");
        begun.recv().expect("it runs now");
    }

    #[test]
    fn a_withdrawn_job_is_not_run_and_a_stop_runs_the_others() {
        let threads = BodyThreads::bounded(1, 1);
        let (blocker, begun, go_on) = held(false);
        threads.submit(blocker).expect("a thread");
        begun.recv().expect("it runs");
        let (ran, runs) = mpsc::channel();
        let submit = |name: &'static str| {
            let ran = Mutex::new(ran.clone());
            threads.submit(job(move || ran.lock().send(name).expect("the test listens"))).expect("a place")
        };
        let withdrawn = submit("withdrawn");
        submit("stays");
        threads.withdraw(withdrawn);
        threads.stop();
        assert!(matches!(threads.submit(job(|| ())), Err(Error::Closed)));
        go_on.send(()).expect("it waits");
        assert_eq!(runs.recv(), Ok("stays"));
        drop(ran);
        assert!(runs.recv().is_err(), "nothing else ran");
    }

    #[test]
    fn thousands_of_jobs_from_several_threads_all_run() {
        const EACH: usize = 2000;
        let threads = BodyThreads::bounded(4, 8);
        let (ran, runs) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..EACH {
                        let ran = Mutex::new(ran.clone());
                        let run = move || {
                            if number % 3 == 0 {
                                while_blocked(thread::yield_now);
                            }
                            ran.lock().send(()).expect("the test listens");
                        };
                        threads.submit(job(run)).expect("a place");
                    }
                });
            }
        });
        assert_eq!(runs.iter().take(4 * EACH).count(), 4 * EACH);
        assert!(threads.counts().0 <= 8);
    }
}
