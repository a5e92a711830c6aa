//! The scheduler of the explorer: it picks the thread that runs next, repeats runs, and finds the
//! next untried path.

use super::fibers::{Body, Fibers, suspend};
use super::memory::{Memory, ThreadViews};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The failure of an execution, with the picks that reproduce it.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Message of the panic, the race, or the deadlock.
    pub message: String,
    /// The pick taken at each point, for [`Explorer::replay`].
    pub path: Vec<u32>,
    /// Steps of the threads, in order.
    pub trace: Vec<String>,
}

/// Coverage of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Number of executions.
    pub executions: u64,
    /// True if every path was tried (within the preemption bound, if one is set).
    pub complete: bool,
}

/// Bounds of an exploration.
#[derive(Debug, Clone)]
pub struct Explorer {
    /// Maximum number of preemptions in one execution: switches away from a thread that could go
    /// on. `None` sets no bound.
    pub preemptions: Option<u32>,
    /// Maximum number of executions.
    pub executions_max: u64,
    /// Maximum number of steps of a run. A longer run is reported as a failure (a loop that never
    /// yields).
    pub steps_max: u32,
}

impl Default for Explorer {
    fn default() -> Self {
        Explorer { preemptions: None, executions_max: 2_000_000, steps_max: 5_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Runnable,
    /// The thread spins. The thread is runnable again once other threads have made more changes
    /// than this number.
    Yielded(u64),
    Parked,
    /// The thread waits for the mutex with this number.
    Blocked(usize),
    /// The thread waits for the end of the thread with this number.
    Joining(usize),
    Finished,
}

#[derive(Debug)]
pub(super) struct VirtualThread {
    pub(super) status: Status,
    pub(super) views: ThreadViews,
    pub(super) token: Option<ThreadViews>,
    /// Number of changes that this thread has made.
    stores: u64,
    /// Number of changes that other threads had made when this thread last spun. A later change may
    /// be the one that this thread waits for.
    seen: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pick {
    taken: u32,
    of: u32,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) threads: Vec<VirtualThread>,
    pub(super) mutexes: Vec<super::primitives::MutexState>,
    stores: u64,
    running: usize,
    path: Vec<Pick>,
    position: usize,
    preemptions: u32,
    steps: u32,
    /// Steps, each with its thread.
    trace: Vec<(usize, &'static str)>,
    failure: Option<String>,
}

impl World {
    /// Picks one of `of` alternatives: the recorded one while a path is repeated, and the first one
    /// after that.
    pub(super) fn pick(&mut self, of: usize) -> usize {
        if of <= 1 {
            return 0;
        }
        let of = u32::try_from(of).expect("few alternatives");
        if self.position == self.path.len() {
            self.path.push(Pick { taken: 0, of });
        }
        let pick = self.path[self.position];
        if pick.of != of {
            self.failure
                .get_or_insert_with(|| "the body is not deterministic: a repeated pick changed".to_owned());
            return 0;
        }
        self.position += 1;
        pick.taken as usize
    }

    /// Counts a change by thread `me` that a spinning thread may wait for.
    pub(super) fn changed(&mut self, me: usize) {
        self.stores += 1;
        self.threads[me].stores += 1;
    }

    /// Notes a spin of `me`. Returns the number of changes that other threads had made at the
    /// previous spin of `me`. The spinning thread waits until there are more.
    pub(super) fn spin(&mut self, me: usize) -> u64 {
        let others = self.stores - self.threads[me].stores;
        std::mem::replace(&mut self.threads[me].seen, others)
    }

    pub(super) fn fail(&mut self, message: String) {
        self.failure.get_or_insert(message);
    }
}

/// One run of the body.
#[derive(Debug)]
pub(super) struct Execution {
    world: Mutex<World>,
    preemptions_max: Option<u32>,
    steps_max: u32,
}

/// The panic payload that unwinds a thread of a failed execution. The thread's root catches it.
struct Abandoned;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Execution>>> = const { RefCell::new(None) };
    /// The running thread's number.
    static ME: Cell<usize> = const { Cell::new(0) };
    /// Bodies of threads that are to be started.
    static SPAWNED: RefCell<Vec<Body>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` in the current execution.
pub(super) fn with<R>(body: impl FnOnce(&Arc<Execution>, usize) -> R) -> R {
    // The borrow lasts while other threads of the execution run. `CURRENT` changes only between
    // executions.
    CURRENT.with_borrow(|current| {
        body(current.as_ref().expect("used outside of Explorer::check's body"), ME.get())
    })
}

impl Execution {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs one shared access by thread `me`. The explorer may run other threads before the
    /// access.
    pub(super) fn step<R>(&self, me: usize, what: &'static str, access: impl FnOnce(&mut World) -> R) -> R {
        if std::thread::panicking() {
            return access(&mut self.lock());
        }
        let mut world = self.lock();
        world.steps += 1;
        if world.steps > self.steps_max {
            world.fail(format!("more than {} steps: does a loop spin without saying so?", self.steps_max));
        }
        world = self.reschedule(world, me);
        world.trace.push((me, what));
        let result = access(&mut world);
        if world.failure.is_some() {
            self.abandon(world);
        }
        result
    }

    /// Blocks thread `me` with `status` until that status allows it to run again.
    pub(super) fn block(&self, me: usize, what: &'static str, status: Status) {
        let mut world = self.lock();
        world.trace.push((me, what));
        world.threads[me].status = status;
        drop(self.reschedule(world, me));
    }

    fn abandon(&self, world: MutexGuard<'_, World>) -> ! {
        drop(world);
        resume_unwind(Box::new(Abandoned));
    }

    /// Picks the thread that runs next, and suspends `me` until it is picked.
    fn reschedule<'a>(&'a self, mut world: MutexGuard<'a, World>, me: usize) -> MutexGuard<'a, World> {
        if world.failure.is_none() {
            self.choose(&mut world, me);
            if world.failure.is_none() && world.running != me {
                drop(world);
                suspend();
                ME.set(me);
                world = self.lock();
            }
        }
        if world.failure.is_some() {
            self.abandon(world);
        }
        world
    }

    fn choose(&self, world: &mut World, me: usize) {
        for thread in 0..world.threads.len() {
            let ready = match world.threads[thread].status {
                Status::Yielded(seen) => world.stores - world.threads[thread].stores > seen,
                Status::Joining(other) => world.threads[other].status == Status::Finished,
                _ => false,
            };
            if ready {
                if let Status::Joining(other) = world.threads[thread].status {
                    let theirs = world.threads[other].views.now.clone();
                    world.threads[thread].views.now.join(&theirs);
                } else {
                    let World { memory, threads, .. } = world;
                    memory.catch_up(&mut threads[thread].views);
                }
                world.threads[thread].status = Status::Runnable;
            }
        }
        let runnable = |world: &World, t: usize| world.threads[t].status == Status::Runnable;
        let mut candidates: Vec<usize> = Vec::with_capacity(world.threads.len());
        let going = runnable(world, me);
        if going {
            candidates.push(me);
        }
        if !going || self.preemptions_max.is_none_or(|max| world.preemptions < max) {
            candidates.extend((0..world.threads.len()).filter(|&t| t != me && runnable(world, t)));
        }
        if candidates.is_empty() {
            if world.threads.iter().all(|t| t.status == Status::Finished) {
                return;
            }
            let states: Vec<_> = world.threads.iter().map(|t| t.status).collect();
            world.fail(format!("nobody can move (lost wake-up or deadlock): {states:?}"));
            return;
        }
        let taken = world.pick(candidates.len());
        if going && candidates[taken] != me {
            world.preemptions += 1;
        }
        world.running = candidates[taken];
    }

    /// Adds a thread that begins with its creator's views.
    pub(super) fn spawn(self: &Arc<Self>, me: usize, body: Box<dyn FnOnce() + Send>) -> usize {
        let id = self.step(me, "spawn", |world| {
            let views = ThreadViews::starting_from(&world.threads[me].views);
            world.threads.push(VirtualThread {
                status: Status::Runnable,
                views,
                token: None,
                stores: 0,
                seen: 0,
            });
            world.threads.len() - 1
        });
        let execution = Arc::clone(self);
        SPAWNED.with_borrow_mut(|spawned| spawned.push(Box::new(move || execution.run(id, body))));
        id
    }

    /// Runs the body of one thread of the execution, and ends the thread.
    fn run(&self, id: usize, body: Box<dyn FnOnce() + Send>) {
        ME.set(id);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.lock().failure.is_none() {
                body();
            }
        }));
        let mut world = self.lock();
        if let Err(panic) = outcome
            && !panic.is::<Abandoned>()
        {
            world.fail(message(panic.as_ref()));
        }
        world.threads[id].status = Status::Finished;
        world.changed(id);
        if world.failure.is_none() {
            self.choose(&mut world, id);
        }
    }

    /// Returns the thread to resume, or `None` if all have ended. After a failure this is the first
    /// thread that has not ended, so that one thread after the other unwinds.
    fn next(&self) -> Option<usize> {
        let world = self.lock();
        let unfinished = world.threads.iter().position(|t| t.status != Status::Finished)?;
        Some(if world.failure.is_some() { unfinished } else { world.running })
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Changes `path` to the next path to try: advances the last pick that has an untried alternative.
/// Returns false if every path was tried.
fn advance(path: &mut Vec<Pick>) -> bool {
    while let Some(last) = path.last_mut() {
        if last.taken + 1 < last.of {
            last.taken += 1;
            return true;
        }
        path.pop();
    }
    false
}

impl Explorer {
    /// Runs `body` along every path, and stops at the first failure.
    ///
    /// # Errors
    /// The [`Failure`], with the path for [`Explorer::replay`].
    pub fn check(&self, body: impl Fn() + Send + Sync + 'static) -> Result<Report, Failure> {
        let body: Arc<dyn Fn() + Send + Sync> = Arc::new(body);
        let mut fibers = Fibers::default();
        let mut path = Vec::new();
        let mut executions = 0;
        loop {
            path = self.once(path, &body, &mut fibers)?;
            executions += 1;
            if !advance(&mut path) {
                return Ok(Report { executions, complete: true });
            }
            if executions >= self.executions_max {
                return Ok(Report { executions, complete: false });
            }
        }
    }

    /// Runs `body` once along a recorded path.
    ///
    /// # Errors
    /// The [`Failure`] of the recorded path, if it still happens.
    pub fn replay(&self, path: &[u32], body: impl Fn() + Send + Sync + 'static) -> Result<(), Failure> {
        // The path says which alternative was picked at each point, not how many alternatives there
        // were. Each run along the known picks finds that number for the next pick.
        let mut fibers = Fibers::default();
        let mut known: Vec<Pick> = Vec::new();
        let body: Arc<dyn Fn() + Send + Sync> = Arc::new(body);
        for &taken in path {
            let run = self.once(known.clone(), &body, &mut fibers)?;
            match run.get(known.len()) {
                Some(next) if taken < next.of => known.push(Pick { taken, of: next.of }),
                _ => break,
            }
        }
        self.once(known, &body, &mut fibers).map(|_| ())
    }

    fn once(
        &self,
        path: Vec<Pick>,
        body: &Arc<dyn Fn() + Send + Sync>,
        fibers: &mut Fibers,
    ) -> Result<Vec<Pick>, Failure> {
        let root = VirtualThread {
            status: Status::Runnable,
            views: ThreadViews::default(),
            token: None,
            stores: 0,
            seen: 0,
        };
        let world = World { path, threads: vec![root], ..World::default() };
        let execution = Arc::new(Execution {
            world: Mutex::new(world),
            preemptions_max: self.preemptions,
            steps_max: self.steps_max,
        });
        let (body, on) = (Arc::clone(body), Arc::clone(&execution));
        fibers.start(Box::new(move || on.run(0, Box::new(move || body()))));
        CURRENT.set(Some(Arc::clone(&execution)));
        while let Some(next) = execution.next() {
            fibers.resume(next);
            for body in SPAWNED.take() {
                fibers.start(body);
            }
        }
        fibers.clear();
        CURRENT.set(None);
        let mut world = execution.lock();
        match world.failure.take() {
            None => Ok(std::mem::take(&mut world.path)),
            Some(message) => {
                let position = world.position;
                let path = world.path[..position].iter().map(|p| p.taken).collect();
                let trace = world.trace.iter().map(|(thread, what)| format!("{thread}: {what}")).collect();
                Err(Failure { message, path, trace })
            }
        }
    }
}

/// Returns whether exploring `body` finds a failure. Used for deliberately broken variants of a
/// body.
pub fn catches(explorer: &Explorer, body: impl Fn() + Send + Sync + 'static) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = explorer.check(body).is_err();
    std::panic::set_hook(hook);
    caught
}
