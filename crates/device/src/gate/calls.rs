//! Counts the calls inside a gate, so that closing the gate can refuse new calls and wait for the
//! calls inside.
//!
//! Any thread may call this code. A call enters before it reaches the device and leaves when it has
//! returned or panicked.
//!
//! Invariants:
//!
//! 1. After [`Calls::close`] was called, no call is let in. [`Calls::close`] waits for calls that
//!    entered before.
//! 2. The directory locks handed to [`Calls::close`] are released only when no call is inside, and
//!    before any [`Calls::close`] that waits returns. So a call that was let in ends before another
//!    opening can take the lock.
//! 3. A thread that is inside a call of this gate does not wait in [`Calls::close`], because it
//!    would wait for itself. The thread hands over its lock, and the last call that leaves releases
//!    the lock. Such a thread is in foreign code that the call runs: a program's own directory, a
//!    logger, a panic hook. Each thread has a list of the gates that it is inside of. Threads that
//!    make calls for a caller (`stripes/helpers.rs`) take over the caller's list during these
//!    calls. A thread inside more than [`DEPTH_MAX`] calls counts as inside every gate.
//! 4. The holder of `end` waits for nothing, except inside the drop of a directory lock.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `state`: bit 0 is set once closed, the rest counts calls inside in steps of [`CALL`] | each call when it enters and when it leaves; `close` sets bit 0, for good | the same operations: each is one read-modify-write, and acts on what it found; `is_closed` | acquire and release: the thread that finds the count at 0 sees everything that the calls did |
//!
//! Why no call slips through: the operations on `state` have one order. A call whose addition comes
//! before `close`'s bit is in the count that `close` finds, so `close` waits for it. A call whose
//! addition comes later finds the bit, and is refused. The steps that can meet:
//!
//! | step of a call | before `close`'s bit | after it |
//! |---|---|---|
//! | enters | let in and counted | refused; counted until it leaves, which lets nothing in and delays `close` by a few instructions |
//! | leaves while other calls are inside | - | - |
//! | leaves as the last call | - | finds exactly bit 0 and itself, takes `end`, releases the locks, notifies |
//! | `close` finds the count at 0 | - | releases the locks itself |
//! | `close` finds calls inside | - | holds `end` from before the bit until it waits for `drained`, and has put its lock into `end`: the last call cannot notify in between |
//!
//! `end` is a leaf latch. A crash leaves nothing: the kernel releases the locks of a process that
//! ends.

use crate::directory::DirectoryLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

const CLOSED: u64 = 1;
const CALL: u64 = 2;

/// Maximum number of calls in a thread's list: enough for gates in series, and for a few logs whose
/// directories use one another.
const DEPTH_MAX: usize = 8;

thread_local! {
    // The list has no destructor, so that it can be used while a thread ends.
    /// The gates that this thread is inside of, by their addresses.
    static INSIDE: [Cell<usize>; DEPTH_MAX] = const { [const { Cell::new(0) }; DEPTH_MAX] };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counter of the calls inside a gate: see the head of this file.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: AtomicU64,
    end: Mutex<End>,
    drained: Condvar,
}

#[derive(Debug, Default)]
struct End {
    /// Locks to release when the last call has returned.
    locks: Vec<Box<dyn DirectoryLock>>,
    drained: bool,
}

/// A call that was let in; dropping it lets the call leave.
pub(super) struct Call<'a> {
    // The fields drop in this order, so the gate is off the thread's list before `close` returns.
    _thread: Inside,
    _counted: Counted<'a>,
}

struct Counted<'a>(&'a Calls);

impl Calls {
    /// Lets a call in, unless the gate was closed.
    pub(super) fn enter(&self) -> Option<Call<'_>> {
        let before = self.state.fetch_add(CALL, Ordering::AcqRel);
        let counted = Counted(self);
        (before & CLOSED == 0).then(|| Call { _thread: Inside::of(self.address()), _counted: counted })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Refuses calls from now on, waits for the calls inside (but see invariant 3), and then
    /// releases `lock`. May be called more than once.
    pub(super) fn close(&self, lock: Option<Box<dyn DirectoryLock>>) {
        let mut end = self.end();
        end.locks.extend(lock);
        if self.state.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED == 0 {
            return self.drain(end);
        }
        if self.is_inside() {
            return;
        }
        while !end.drained {
            end = self.drained.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
        // Releases a second caller's own lock. Refused calls, which count until they leave, may
        // have made that caller wait.
        self.drain(end);
    }

    /// Returns whether this thread is inside a call of this gate.
    pub(super) fn is_inside(&self) -> bool {
        let depth = DEPTH.get();
        depth > DEPTH_MAX
            || INSIDE.with(|gates| gates[..depth].iter().any(|gate| gate.get() == self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Releases the locks and ends all waits. To be called once no call is inside and none ever
    /// will be.
    #[cold]
    fn drain(&self, mut end: MutexGuard<'_, End>) {
        end.locks.clear();
        end.drained = true;
        self.drained.notify_all();
    }

    fn end(&self) -> MutexGuard<'_, End> {
        // A panic of a lock's drop leaves nothing half changed.
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let Counted(calls) = self;
        if calls.state.fetch_sub(CALL, Ordering::AcqRel) == CLOSED | CALL {
            calls.drain(calls.end());
        }
    }
}

/// The newest entry in the calling thread's list of gates, removed on drop.
struct Inside(());

impl Inside {
    fn of(gate: usize) -> Inside {
        let depth = DEPTH.replace(DEPTH.get() + 1);
        if depth < DEPTH_MAX {
            INSIDE.with(|gates| gates[depth].set(gate));
        }
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Calls nest, so the thread leaves the last gate that it entered.
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The gates that a thread is inside of, for threads that make calls for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    gates: [usize; DEPTH_MAX],
    depth: usize,
}

impl Caller {
    pub(crate) fn this_thread() -> Caller {
        Caller { gates: INSIDE.with(|gates| gates.each_ref().map(Cell::get)), depth: DEPTH.get() }
    }

    /// Runs `call` with the caller's list of gates as the calling thread's own. The calling thread
    /// must be inside no gate, and `call` must not unwind.
    pub(crate) fn lend<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = Caller::this_thread();
        self.take_on();
        let outcome = call();
        before.take_on();
        outcome
    }

    fn take_on(&self) {
        INSIDE.with(|gates| gates.iter().zip(self.gates).for_each(|(gate, address)| gate.set(address)));
        DEPTH.set(self.depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};
    use std::thread;

    /// A lock that sets a flag when it is released.
    #[derive(Debug)]
    struct ReleaseFlag(Arc<AtomicBool>);

    impl DirectoryLock for ReleaseFlag {}

    impl Drop for ReleaseFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn lock() -> (Arc<AtomicBool>, Option<Box<dyn DirectoryLock>>) {
        let released = Arc::new(AtomicBool::new(false));
        (released.clone(), Some(Box::new(ReleaseFlag(released))))
    }

    #[test]
    fn a_closed_gate_lets_nothing_in_and_may_be_closed_again() {
        let calls = Calls::default();
        drop(calls.enter().expect("open"));
        for _ in 0..2 {
            let (released, lock) = lock();
            calls.close(lock);
            assert!(released.load(Ordering::SeqCst), "nothing is inside");
            assert!(calls.is_closed() && calls.enter().is_none());
        }
        calls.close(None);
    }

    #[test]
    fn a_thread_that_is_inside_does_not_wait_for_itself() {
        let calls = Calls::default();
        let other = Calls::default();
        let (outer, _between) = (calls.enter().expect("open"), other.enter().expect("open"));
        let inner = calls.enter().expect("open");
        assert!(calls.is_inside() && other.is_inside() && !Calls::default().is_inside());
        let (released, lock) = lock();
        calls.close(lock);
        drop(inner);
        assert!(!released.load(Ordering::SeqCst), "a call is inside");
        drop(outer);
        assert!(released.load(Ordering::SeqCst), "the last one has released it");
    }

    #[test]
    fn a_thread_inside_more_calls_than_are_listed_counts_as_inside_all() {
        let calls = Calls::default();
        let mut deep: Vec<_> = (0..=DEPTH_MAX).map(|_| calls.enter().expect("open")).collect();
        assert!(Calls::default().is_inside());
        while deep.pop().is_some() {}
        assert!(!calls.is_inside() && !Calls::default().is_inside());
    }

    /// For Miri, whose schedules and weak memory stand in for many runs: the plain writes of calls
    /// are visible after `close`, and no call writes later.
    #[test]
    fn miri_no_call_is_inside_after_any_close_returned() {
        for _ in 0..if cfg!(miri) { 20 } else { 200 } {
            let (calls, start) = (Calls::default(), Barrier::new(4));
            let (under_way, locked) = (AtomicU64::new(0), AtomicBool::new(true));
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        start.wait();
                        while let Some(_call) = calls.enter() {
                            under_way.fetch_add(1, Ordering::Relaxed);
                            assert!(locked.load(Ordering::Relaxed), "the directory is another opening's");
                            under_way.fetch_sub(1, Ordering::Relaxed);
                        }
                    });
                }
                for _ in 0..2 {
                    scope.spawn(|| {
                        start.wait();
                        calls.close(None);
                        assert_eq!(under_way.load(Ordering::Relaxed), 0);
                        locked.store(false, Ordering::Relaxed);
                    });
                }
            });
        }
    }

    #[test]
    fn the_lock_is_released_when_the_last_call_has_left_and_every_close_waits_for_that() {
        for _ in 0..if cfg!(miri) { 5 } else { 100 } {
            let calls = Calls::default();
            let (released, lock) = lock();
            let inside = calls.enter().expect("open");
            thread::scope(|scope| {
                let closers = [scope.spawn(|| calls.close(lock)), scope.spawn(|| calls.close(None))];
                while !calls.is_closed() {
                    thread::yield_now();
                }
                assert!(calls.enter().is_none());
                assert!(!released.load(Ordering::SeqCst));
                drop(inside);
                for closer in closers {
                    closer.join().expect("no panic");
                }
            });
            assert!(released.load(Ordering::SeqCst));
        }
    }
}
