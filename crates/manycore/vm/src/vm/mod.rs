//! The virtual machine: runs closures as threads of a simulated machine, and accounts for every
//! operation of these threads.
//!
//! The items of [`sync_shim`](crate::sync_shim) call the functions of this module. Outside of a
//! simulation these functions do nothing, so that the set-up of a test or run costs no simulated
//! time.
//!
//! Each thread is a coroutine on a stack of its own. All coroutines and the scheduler run on the
//! thread that called [`simulate`].

mod costs;
mod lines;
mod schedule;

use crate::machine::Machine;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use schedule::{Access, Machinery, Next};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::time::Duration;

/// Bytes of a thread's stack: enough for an insert, because the kernels do not recurse.
const STACK_BYTES: usize = 128 << 10;

/// A thread's body.
pub type Body = Box<dyn FnOnce()>;

/// Report of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Simulated time from the start to the end of the last thread, in picoseconds.
    pub picoseconds: u64,
    /// Number of accesses, fences, copies, waits and wake-ups.
    pub events: u64,
}

/// Reason why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// No thread can run, or no memory has changed for 1 s of simulated time. The text names each
    /// thread that has not ended, and its state.
    #[error("the threads wait for each other, or for nothing: {0}")]
    Deadlock(String),
    /// There is no memory for the threads' stacks.
    #[error("cannot make a stack for a virtual thread: {0}")]
    Stack(#[from] std::io::Error),
    /// The calling thread is already running a simulation.
    #[error("a simulation cannot run inside another one")]
    Nested,
}

thread_local! {
    static MACHINERY: RefCell<Option<Machinery>> = const { RefCell::new(None) };
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// A guard that removes the machinery when the simulation ends, even by a panic. Code that runs
/// afterwards, while coroutines are dropped, is not part of the simulation.
struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        MACHINERY.with_borrow_mut(|machinery| *machinery = None);
    }
}

/// Runs `bodies` as threads `0..` of `machine` until all have ended.
///
/// # Errors
/// A [`SimulationError`] if the threads would never end, or the simulation cannot start.
///
/// # Panics
/// If a body panics.
pub fn simulate(machine: &Machine, seed: u64, bodies: Vec<Body>) -> Result<Report, SimulationError> {
    if active() {
        return Err(SimulationError::Nested);
    }
    let mut machinery = Machinery::new(machine, bodies.len(), seed);
    let mut threads = Vec::new();
    for body in bodies {
        let stack = DefaultStack::new(STACK_BYTES)?;
        threads.push(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        }));
    }
    let first = machinery.next();
    MACHINERY.with_borrow_mut(|installed| *installed = Some(machinery));
    // The guard is dropped before the threads, so that the threads are unwound outside of the
    // simulation.
    let installed = Installed;
    let mut yielders = vec![ptr::null(); threads.len()];
    let mut next = first;
    while let Some(index) = next {
        YIELDER.set(yielders[index]);
        let ended = matches!(threads[index].resume(()), CoroutineResult::Return(()));
        yielders[index] = YIELDER.get();
        next = with(|machinery| {
            if ended {
                machinery.finish();
            }
            machinery.next()
        })
        .flatten();
    }
    let (report, unfinished) = with(|machinery| {
        let report = Report { picoseconds: machinery.latest(), events: machinery.events };
        (report, machinery.unfinished())
    })
    .unwrap_or((Report { picoseconds: 0, events: 0 }, Vec::new()));
    drop(installed);
    if unfinished.is_empty() {
        return Ok(report);
    }
    let words: Vec<String> =
        unfinished.iter().map(|(index, state)| format!("thread {index} {state:?}")).collect();
    Err(SimulationError::Deadlock(words.join(", ")))
}

fn with<R>(act: impl FnOnce(&mut Machinery) -> R) -> Option<R> {
    MACHINERY.with_borrow_mut(|machinery| machinery.as_mut().map(act))
}

/// Returns whether the caller is a virtual thread.
pub(crate) fn active() -> bool {
    MACHINERY.with_borrow(Option::is_some)
}

fn suspend() {
    let yielder = YIELDER.get();
    // SAFETY: only virtual threads call this function. The scheduler sets `YIELDER` to the yielder
    // of the thread that it resumes. That yielder lives on the thread's stack until the thread's
    // body has ended.
    unsafe { (*yielder).suspend(()) }
}

fn wait(act: impl FnOnce(&mut Machinery) -> Next) {
    if with(act) == Some(Next::Suspend) {
        suspend();
    }
}

/// Waits until the running thread has the smallest clock of all threads that run.
pub(crate) fn turn() {
    while with(Machinery::turn) == Some(Next::Suspend) {
        suspend();
    }
}

fn access(address: usize, access: Access) {
    loop {
        let next = with(|machinery| {
            let next = machinery.turn();
            if next == Next::GoOn {
                machinery.access(address, access);
            }
            next
        });
        if next != Some(Next::Suspend) {
            return;
        }
        suspend();
    }
}

pub(crate) fn load(address: usize) {
    access(address, Access::Load);
}

pub(crate) fn store(address: usize, strong: bool) {
    access(address, if strong { Access::StrongStore } else { Access::Store });
}

pub(crate) fn modify(address: usize) {
    access(address, Access::Modify { changed: true });
}

/// Accounts for a read-modify-write that the thread did right after [`turn`]. `changed` says
/// whether the value changed.
pub(crate) fn modified(address: usize, changed: bool) {
    with(|machinery| machinery.access(address, Access::Modify { changed }));
}

pub(crate) fn fence() {
    turn();
    with(Machinery::fence);
}

/// Spends the time in which the running thread copies `bytes` bytes. The cores of a socket share
/// its memory's bandwidth.
pub fn copy(bytes: u64) {
    turn();
    with(|machinery| machinery.copy(bytes));
}

pub(crate) fn sum(bytes: u64) {
    with(|machinery| machinery.spend(machinery.costs.sum(bytes)));
}

/// Spends the time of the part of an insert that no other call accounts for.
pub fn insert() {
    with(|machinery| machinery.spend(machinery.costs.insert));
}

/// Lets the running thread compute for `picoseconds`.
pub fn work(picoseconds: u64) {
    with(|machinery| machinery.spend(picoseconds));
}

/// The running thread's clock, in picoseconds.
pub fn now() -> u64 {
    with(|machinery| machinery.now()).unwrap_or(0)
}

/// A moment, like `std::time::Instant`. Reading the clock costs simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Instant(u64);

impl Instant {
    /// Cost of reading the machine's monotonic clock, in picoseconds.
    const READING: u64 = 25_000;

    /// Spends the time of a clock reading, then returns the moment.
    pub fn now() -> Instant {
        work(Self::READING);
        Instant(now())
    }

    /// Spends the time of a clock reading, then returns the simulated time since this moment.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos((Instant::now().0 - self.0) / 1000)
    }
}

pub(crate) fn spin_loop() {
    with(|machinery| machinery.spend(machinery.costs.pause));
}

pub(crate) fn pause(step: u32) {
    turn();
    wait(|machinery| machinery.pause(step));
}

pub(crate) fn rest(step: u32) {
    turn();
    wait(|machinery| machinery.rest(step));
}

/// Watches the line that the thread read last until it changes, for at most `picoseconds`.
pub(crate) fn watch(picoseconds: u64) {
    turn();
    wait(|machinery| machinery.watch(picoseconds));
}

pub(crate) fn yield_now() {
    turn();
    wait(Machinery::yield_now);
}

pub(crate) fn current() -> usize {
    with(|machinery| machinery.current).unwrap_or(0)
}

pub(crate) fn park() {
    turn();
    wait(Machinery::park);
}

pub(crate) fn unpark(thread: usize) {
    turn();
    with(|machinery| machinery.unpark(thread));
}

/// Time in picoseconds for which a thread looks at a held mutex before it sleeps.
pub(crate) fn mutex_spinning() -> u64 {
    with(|machinery| u64::from(machinery.mutex_spins) * machinery.costs.pause).unwrap_or(0)
}

/// Sleeps on the word if `still` returns true. No other thread runs between the check and the
/// sleep.
pub(crate) fn sleep_on(address: usize, still: impl FnOnce() -> bool) {
    load(address);
    if still() {
        wait(|machinery| machinery.sleep_on(address));
    }
}

pub(crate) fn wake_one(address: usize) {
    turn();
    with(|machinery| machinery.wake_one(address));
}
