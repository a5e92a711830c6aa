//! The turn, and the threads that wait for it. The head of the crate explains the scheduler.
//!
//! Lock order: `SCHEDULERS` before a scheduler's `state`. A thread is [`Inside`] while it holds one
//! of these locks, so its own waits and wakes go to the operating system (`calls`). A thread
//! notifies condition variables while it holds `state`, and each notification wakes a futex. If
//! `calls` passed such a wake to [`wake`], the thread would take `SCHEDULERS` after `state`. Each
//! thread waits for its turn at a condition variable of its own.

use crate::policy::{Kind, Policy};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Real time for which all threads of a run may wait before the run counts as stuck. Within this
/// time a thread outside the run may wake one of them.
pub const STUCK: Duration = Duration::from_secs(20);

/// Number of events after which a run counts as endless, so that the process aborts.
const EVENTS_MAX: u64 = 5_000_000;

/// Number of calls of [`pause`] and [`pause_between`] in one turn after which the thread hands the
/// turn on, because it may be spinning until another thread has made a change.
const ALONE_MAX: u64 = 2_000;

/// Nanoseconds of the threads' clock that a call of [`pause`] takes. While another thread can go
/// on, waits and yields take no time, because their number may depend on threads outside the run.
const TICK: u64 = 1_000;

/// Number of readings of the clock, since the last call of [`pause`], that take no time. Each
/// further reading takes [`TICK`], so that a loop which reads the clock until a given time does
/// end. Some readings must take no time, because their number differs between runs of one seed:
/// `parking_lot` reads the clock once more when the process has more threads than ever before.
const READINGS: u64 = 100;

/// Nanoseconds by which the clock advances if a thread yields and no other thread can go on.
const ALONE: u64 = 1_000_000;

/// The work of one thread.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// An event: a thread has reached a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// The number of the thread's task, counted from 0.
    pub task: usize,
    /// The argument of [`pause`] or [`pause_between`], or `waits`, `yields` or `ends`.
    pub place: &'static str,
    /// The line of the code that called [`pause`] or [`pause_between`]; `None` for other events.
    pub line: Option<&'static Location<'static>>,
    /// The time of the threads' clock, in nanoseconds.
    pub clock: u64,
}

/// All events of a run, in order. The `Debug` form of an order is short: `0:latch*3 1:write`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Order(pub Vec<Step>);

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for same in self.0.chunk_by(|a, b| (a.task, a.place) == (b.task, b.place)) {
            write!(f, "{}:{}", same[0].task, same[0].place)?;
            if same.len() > 1 {
                write!(f, "*{}", same.len())?;
            }
            f.write_str(" ")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// The thread has the turn, or could have it.
    Ready,
    /// The thread waits until `address` is woken or the clock shows `limit`. The address of a sleep
    /// is 0.
    Waits {
        address: usize,
        limit: Option<u64>,
    },
    /// The limit of the thread's wait is over.
    TimedOut,
    Done,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    threads: Vec<Thread>,
    /// The thread that has the turn; `None` if all threads wait.
    turn: Option<usize>,
    order: Vec<Step>,
    /// The time of the threads' clock, in nanoseconds.
    clock: u64,
    /// Readings of the clock since the last call of [`pause`].
    readings: u64,
    /// Number of calls of [`pause`] and [`pause_between`] since a thread last handed the turn on.
    alone: u64,
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    seed: u64,
    state: Mutex<State>,
    /// The condition variable of each thread.
    turns: Box<[Condvar]>,
    /// Notified when all threads are done, or none can go on.
    idle: Condvar,
}

/// All schedulers that have threads, so that any thread of the process can wake these threads.
static SCHEDULERS: Mutex<Vec<Arc<Scheduler>>> = Mutex::new(Vec::new());

/// Number of schedulers. Written under the lock of `SCHEDULERS`. `SeqCst`: a thread that reads 0
/// does not search for scheduled threads to wake, so the 0 must not be out of date.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<(Arc<Scheduler>, usize)>> = const { RefCell::new(None) };
    /// True if the thread belongs to a scheduler and is not in the scheduler's own code.
    static SCHEDULED: Cell<bool> = const { Cell::new(false) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A guard: the calling thread is in the scheduler's own code until the guard is dropped.
struct Inside {
    was_inside: bool,
    was_scheduled: bool,
}

impl Inside {
    fn enter() -> Self {
        Inside { was_inside: INSIDE.replace(true), was_scheduled: SCHEDULED.replace(false) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.was_inside);
        SCHEDULED.set(self.was_scheduled);
    }
}

/// Outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Woken,
    TimedOut,
    /// The futex already had another value.
    Changed,
}

/// Returns whether the calling thread is in the scheduler's own code.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Runs `work` inside the calling thread's scheduler. Returns `None` if the thread belongs to no
/// scheduler.
pub(crate) fn within<R>(work: impl FnOnce(&Scheduler, usize) -> R) -> Option<R> {
    if !SCHEDULED.get() {
        return None;
    }
    let _inside = Inside::enter();
    Some(OWN.with_borrow(|own| {
        let (scheduler, own) = own.as_ref().expect("a thread of a scheduler");
        work(scheduler, *own)
    }))
}

/// Marks a place at which another thread may go on. Does nothing on a thread that [`run`] has not
/// started.
#[track_caller]
pub fn pause(place: &'static str) {
    let line = Location::caller();
    within(|scheduler, own| scheduler.pause(own, place, line, Kind::Common));
}

/// Marks a place between two steps whose order matters. The scheduler delays threads here more
/// often than at [`pause`].
#[track_caller]
pub fn pause_between(place: &'static str) {
    let line = Location::caller();
    within(|scheduler, own| scheduler.pause(own, place, line, Kind::Between));
}

/// Returns the number of the calling thread's task, or `None` on a thread that [`run`] has not
/// started.
pub fn number() -> Option<usize> {
    within(|_, own| own)
}

/// Wakes up to `count` threads of schedulers that wait for this address. Returns the number of
/// woken threads.
pub(crate) fn wake(address: usize, count: usize) -> usize {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return 0;
    }
    let _inside = Inside::enter();
    let mut woken = 0;
    for scheduler in lock(&SCHEDULERS).iter() {
        woken += scheduler.wake(address, count - woken);
    }
    woken
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scheduler {
    fn pause(&self, own: usize, place: &'static str, line: &'static Location<'static>, kind: Kind) {
        let mut state = self.event(own, place);
        state.order.last_mut().expect("an event").line = Some(line);
        state.clock += TICK;
        state.readings = 0;
        let event = state.order.len() as u64;
        state.alone += 1;
        if state.alone > ALONE_MAX {
            state.policy.fall(own);
        }
        if state.alone > ALONE_MAX || !state.policy.stays(own, event, line, kind) {
            self.hand_on(&mut state, None);
            drop(self.wait_for_turn(state, own));
        }
    }

    /// Hands the turn on, because the thread yields. Returns whether another thread had the turn
    /// meanwhile.
    pub(crate) fn yields(&self, own: usize) -> bool {
        let mut state = self.event(own, "yields");
        state.policy.fall(own);
        if state.threads.iter().enumerate().any(|(other, thread)| other != own && thread.is_ready()) {
            self.hand_on(&mut state, Some(own));
            drop(self.wait_for_turn(state, own));
            return true;
        }
        state.clock += ALONE;
        let clock = state.clock;
        for thread in &mut state.threads {
            if matches!(thread, Thread::Waits { limit: Some(limit), .. } if *limit <= clock) {
                *thread = Thread::TimedOut;
            }
        }
        false
    }

    /// Waits until the futex is woken, or for `nanos` nanoseconds. `futex` is `None` for a sleep.
    pub(crate) fn waits(&self, own: usize, futex: Option<(&AtomicU32, u32)>, nanos: Option<u64>) -> Wait {
        let limit = nanos.map(|nanos| self.now().saturating_add(nanos));
        self.waits_until(own, futex, limit)
    }

    /// Waits until the futex is woken, or until the threads' clock shows `limit`. `futex` is `None`
    /// for a sleep.
    pub(crate) fn waits_until(
        &self,
        own: usize,
        futex: Option<(&AtomicU32, u32)>,
        limit: Option<u64>,
    ) -> Wait {
        let mut state = self.event(own, "waits");
        let mut address = 0;
        if let Some((futex, expected)) = futex {
            // The load acquires what the thread that changed the futex has released, as the system
            // call does. No wake is missed, because a waker changes the futex before it takes
            // `state`.
            if futex.load(Ordering::SeqCst) != expected {
                return Wait::Changed;
            }
            address = std::ptr::from_ref(futex).addr();
        }
        state.threads[own] = Thread::Waits { address, limit };
        self.hand_on(&mut state, None);
        let mut state = self.wait_for_turn(state, own);
        let timed_out = state.threads[own] == Thread::TimedOut;
        state.threads[own] = Thread::Ready;
        if timed_out { Wait::TimedOut } else { Wait::Woken }
    }

    fn wake(&self, address: usize, count: usize) -> usize {
        let mut state = lock(&self.state);
        let mut woken = 0;
        for thread in &mut state.threads {
            if woken < count && matches!(thread, Thread::Waits { address: at, .. } if *at == address) {
                *thread = Thread::Ready;
                woken += 1;
            }
        }
        if woken > 0 && state.turn.is_none() {
            self.hand_on(&mut state, None);
        }
        woken
    }

    /// Reads the threads' clock, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        let mut state = lock(&self.state);
        state.readings += 1;
        if state.readings > READINGS {
            state.clock += TICK;
        }
        state.clock
    }

    /// Advances the clock to `clock`, at which a run inside of this run has ended.
    fn catch_up(&self, clock: u64) {
        let mut state = lock(&self.state);
        state.clock = state.clock.max(clock);
    }

    /// Returns the next random byte of the seed.
    pub(crate) fn random(&self) -> u8 {
        lock(&self.state).policy.random()
    }

    fn event(&self, task: usize, place: &'static str) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        debug_assert_eq!(state.turn, Some(task), "a thread runs that has not the turn");
        let clock = state.clock;
        state.order.push(Step { task, place, line: None, clock });
        if state.order.len() as u64 > EVENTS_MAX {
            self.give_up(&state, "goes round in a circle");
        }
        state
    }

    /// Gives the turn to a thread that can go on and is not `except`.
    fn hand_on(&self, state: &mut State, except: Option<usize>) {
        loop {
            let ready: Vec<usize> = (0..state.threads.len())
                .filter(|thread| state.threads[*thread].is_ready() && Some(*thread) != except)
                .collect();
            if !ready.is_empty() {
                let next = state.policy.choose(&ready);
                state.turn = Some(next);
                state.alone = 0;
                self.turns[next].notify_one();
                return;
            }
            let limits = state.threads.iter().enumerate().filter_map(|(number, thread)| match thread {
                Thread::Waits { limit: Some(limit), .. } => Some((*limit, number)),
                _ => None,
            });
            let Some((limit, number)) = limits.min() else {
                state.turn = None;
                self.idle.notify_one();
                return;
            };
            state.clock = state.clock.max(limit);
            state.threads[number] = Thread::TimedOut;
        }
    }

    fn wait_for_turn<'a>(&'a self, mut state: MutexGuard<'a, State>, own: usize) -> MutexGuard<'a, State> {
        while state.turn != Some(own) {
            state = self.turns[own].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn ends(&self, own: usize) {
        let mut state = self.event(own, "ends");
        state.threads[own] = Thread::Done;
        self.hand_on(&mut state, None);
        // Destructors at a thread's end run outside the scheduler and may take latches, so no
        // thread ends before all tasks have ended.
        while state.threads.iter().any(|thread| *thread != Thread::Done) {
            state = self.turns[own].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.turns.iter().for_each(Condvar::notify_one);
        self.idle.notify_one();
    }

    /// Waits until all tasks have ended.
    fn watch(&self) {
        let _inside = Inside::enter();
        let mut state = lock(&self.state);
        while state.threads.iter().any(|thread| *thread != Thread::Done) {
            let before = state.order.len();
            let timed_out;
            (state, timed_out) = match self.idle.wait_timeout(state, STUCK) {
                Ok((state, timed_out)) => (state, timed_out),
                Err(poisoned) => poisoned.into_inner(),
            };
            if timed_out.timed_out() && state.turn.is_none() && state.order.len() == before {
                self.give_up(&state, "is stuck: all threads wait");
            }
        }
    }

    fn give_up(&self, state: &State, why: &str) -> ! {
        let Scheduler { seed, .. } = self;
        let last = state.order.len().saturating_sub(2000);
        let order = Order(state.order[last..].to_vec());
        eprintln!("the run with seed {seed} {why}: {:?}\nthe last events: {order:?}", state.threads);
        std::process::abort();
    }
}

impl Thread {
    fn is_ready(self) -> bool {
        matches!(self, Thread::Ready | Thread::TimedOut)
    }
}

/// Runs the tasks, each on a thread of its own, in the order that `seed` names. Returns all events,
/// in order.
///
/// A task may call `run` too; the task's thread waits until the inner run has ended. If a test runs
/// as a whole in one task, its clock readings and hash seeds are equal in each run.
///
/// # Panics
/// If a task panics: `run` panics with the task's payload, after all other tasks have ended.
pub fn run(seed: u64, tasks: Vec<Task<'_>>) -> Order {
    if cfg!(not(target_os = "linux")) {
        tasks.into_iter().for_each(|task| task());
        return Order::default();
    }
    let count = tasks.len();
    let mut policy = Policy::new(seed, count);
    let all: Vec<usize> = (0..count).collect();
    let turn = (count > 0).then(|| policy.choose(&all));
    let clock = start_of_clock();
    let state = State {
        policy,
        threads: vec![Thread::Ready; count],
        turn,
        order: Vec::new(),
        clock,
        readings: 0,
        alone: 0,
    };
    let scheduler = Arc::new(Scheduler {
        seed,
        state: Mutex::new(state),
        turns: (0..count).map(|_| Condvar::new()).collect(),
        idle: Condvar::new(),
    });
    let _registered = Registered::new(&scheduler);
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .enumerate()
            .map(|(own, task)| {
                let scheduler = scheduler.clone();
                scope.spawn(move || {
                    let _turn = Turn::begin(scheduler, own);
                    task();
                })
            })
            .collect();
        scheduler.watch();
        let mut panics = threads.into_iter().filter_map(|thread| thread.join().err());
        if let Some(panic) = panics.next() {
            std::panic::resume_unwind(panic);
        }
    });
    // No thread may hold the `state` of two runs. `within` takes the outer run's `state`, so this
    // run's `state` is released first.
    let (order, clock) = {
        let _inside = Inside::enter();
        let mut state = lock(&scheduler.state);
        (std::mem::take(&mut state.order), state.clock)
    };
    within(|outer, _| outer.catch_up(clock));
    Order(order)
}

/// Returns the first time of the threads' clock, in nanoseconds. The value is greater than any
/// machine's clock, so no time that was read outside of the run lies in the future. A run inside of
/// a run continues the outer run's clock, and hands the clock back at its end.
fn start_of_clock() -> u64 {
    within(|scheduler, _| scheduler.now()).unwrap_or(1 << 60)
}

struct Registered<'a>(&'a Arc<Scheduler>);

impl<'a> Registered<'a> {
    fn new(scheduler: &'a Arc<Scheduler>) -> Self {
        let _inside = Inside::enter();
        let mut schedulers = lock(&SCHEDULERS);
        schedulers.push(scheduler.clone());
        COUNT.store(schedulers.len(), Ordering::SeqCst);
        Registered(scheduler)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        let mut schedulers = lock(&SCHEDULERS);
        schedulers.retain(|other| !Arc::ptr_eq(other, self.0));
        COUNT.store(schedulers.len(), Ordering::SeqCst);
    }
}

/// A guard: the thread's part in the run ends when the guard is dropped, also by a panic.
struct Turn {
    scheduler: Arc<Scheduler>,
    own: usize,
}

impl Turn {
    fn begin(scheduler: Arc<Scheduler>, own: usize) -> Self {
        let inside = Inside::enter();
        drop(scheduler.wait_for_turn(lock(&scheduler.state), own));
        OWN.set(Some((scheduler.clone(), own)));
        drop(inside);
        SCHEDULED.set(true);
        Turn { scheduler, own }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        SCHEDULED.set(false);
        let _inside = Inside::enter();
        self.scheduler.ends(self.own);
        OWN.set(None);
    }
}
