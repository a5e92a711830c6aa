//! Runs tasks on threads of their own, of which one at a time goes on: a seed decides which, at each place that one comes to.
//!
//! The turn is handed on at places only. If the thread that has the turn comes to no place for [`PATIENCE`], it is taken to wait for a
//! latch or a commit of a thread that is held up: then another thread gets the turn, and the first one waits at its next place. So a
//! seed names one order of all places, but for what threads do between the end of such a wait and their next place.
//!
//! A failure prints the seed and the order; `KATYDID_SEED` replays it.

use super::{Place, with_hook};
use fastrand::Rng;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Longer than a thread that can go on takes to its next place; only how long a test takes depends on it.
const PATIENCE: Duration = Duration::from_millis(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// Has the turn, or had it and has come to no place since.
    Running,
    /// At a place, or at its beginning.
    Held,
    Done,
}

#[derive(Debug)]
struct State {
    random: Rng,
    threads: Vec<Thread>,
    /// Who has the turn; none if all that are not held wait for something.
    turn: Option<usize>,
    /// The order: which thread came to which place.
    order: Vec<(usize, Place)>,
    /// Times that the turn changed, or a thread came to a place.
    events: u64,
}

impl State {
    /// Gives the turn to one of those that are held.
    fn hand_on(&mut self) {
        let held: Vec<usize> = (0..self.threads.len()).filter(|n| self.threads[*n] == Thread::Held).collect();
        self.turn = (!held.is_empty()).then(|| held[self.random.usize(..held.len())]);
        if let Some(next) = self.turn {
            self.threads[next] = Thread::Running;
        }
        self.events += 1;
    }
}

#[derive(Debug)]
struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
}

impl Scheduler {
    /// Waits for the turn. A thread that begins keeps it if it has it.
    fn wait(&self, own: usize, begins: bool) {
        let mut state = self.state.lock();
        if begins && state.turn == Some(own) {
            return;
        }
        state.threads[own] = Thread::Held;
        // A thread that comes late from a wait takes the turn if no thread has it.
        if state.turn == Some(own) || state.turn.is_none() {
            state.hand_on();
            self.changed.notify_all();
        }
        while state.turn != Some(own) {
            // Also if it had the turn, and lost it again before it woke.
            state.threads[own] = Thread::Held;
            let seen = state.events;
            let late = self.changed.wait_for(&mut state, PATIENCE).timed_out();
            if late && state.events == seen && state.turn != Some(own) {
                state.hand_on();
                self.changed.notify_all();
            }
        }
    }

    fn at(&self, own: usize, place: Place) {
        let mut state = self.state.lock();
        state.order.push((own, place));
        state.events += 1;
        let stays = state.turn == Some(own) && state.random.u8(..3) > 0;
        drop(state);
        if !stays {
            self.wait(own, false);
        }
    }

    fn done(&self, own: usize) {
        let mut state = self.state.lock();
        state.threads[own] = Thread::Done;
        if state.turn == Some(own) {
            state.hand_on();
        }
        state.events += 1;
        self.changed.notify_all();
    }
}

/// A task: what one of the threads does.
pub(crate) type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs the tasks in the order of this seed; which task came to which place, in order.
pub(crate) fn run(seed: u64, tasks: Vec<Task<'_>>) -> Vec<(usize, Place)> {
    let state = State {
        random: Rng::with_seed(seed),
        threads: vec![Thread::Held; tasks.len()],
        turn: None,
        order: Vec::new(),
        events: 0,
    };
    let scheduler = Arc::new(Scheduler { state: Mutex::new(state), changed: Condvar::new() });
    scheduler.state.lock().hand_on();
    let start = Barrier::new(tasks.len());
    std::thread::scope(|scope| {
        for (own, task) in tasks.into_iter().enumerate() {
            let (scheduler, start) = (scheduler.clone(), &start);
            scope.spawn(move || {
                let _done = Done { scheduler: &scheduler, own };
                start.wait();
                scheduler.wait(own, true);
                let hook = {
                    let scheduler = scheduler.clone();
                    move |place| scheduler.at(own, place)
                };
                with_hook(hook, task);
            });
        }
    });
    std::mem::take(&mut scheduler.state.lock().order)
}

/// Ends a thread's part, also after a panic.
struct Done<'a> {
    scheduler: &'a Scheduler,
    own: usize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.scheduler.done(self.own);
    }
}

/// Runs `test` with `count` seeds, or the one that `KATYDID_SEED` names.
pub(crate) fn for_seeds(count: u64, test: impl Fn(u64)) {
    let given =
        std::env::var("KATYDID_SEED").ok().map(|text| text.parse().expect("KATYDID_SEED is a number"));
    let seeds = given.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(panic) = outcome {
            eprintln!("replay it with KATYDID_SEED={seed} and the name of this test");
            std::panic::resume_unwind(panic);
        }
    }
}
