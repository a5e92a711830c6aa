//! The latches of both engines: those of `parking_lot`, and the sharded lock of `crossbeam_utils`
//! for data that is rarely written.
//!
//! In the crate's own tests, each acquisition is a scheduling point, where the scheduler may let
//! another thread run (`pause`). While another thread holds a latch, a thread that wants the latch
//! yields. So the order in which threads get a latch does not depend on the queues of
//! `parking_lot`, which depend on addresses.
//!
//! A page latch has `parking_lot`'s type even in tests, because the pool needs owned guards. The
//! acquisition of a page latch need not be a scheduling point, because just before it the pool
//! takes the latch of the page's shard, and that acquisition is a scheduling point.

#[cfg(not(test))]
pub(crate) use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, RwLock};

#[cfg(test)]
pub(crate) use parking_lot::{
    RwLockReadGuard as ShardedLockReadGuard, RwLockWriteGuard as ShardedLockWriteGuard,
};
#[cfg(test)]
pub(crate) use with_places::{Condvar, Mutex, RwLock, ShardedLock};

use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock};
use std::sync::Arc;

/// Takes a page latch in shared mode.
pub(crate) fn read_arc<T>(latch: &Arc<parking_lot::RwLock<T>>) -> ArcRwLockReadGuard<RawRwLock, T> {
    #[cfg(test)]
    return with_places::take(|| latch.try_read_arc(), || latch.read_arc());
    #[cfg(not(test))]
    latch.read_arc()
}

/// Takes a page latch in exclusive mode.
pub(crate) fn write_arc<T>(latch: &Arc<parking_lot::RwLock<T>>) -> ArcRwLockWriteGuard<RawRwLock, T> {
    #[cfg(test)]
    return with_places::take(|| latch.try_write_arc(), || latch.write_arc());
    #[cfg(not(test))]
    latch.write_arc()
}

#[cfg(test)]
mod with_places {
    use crate::pause::{PausePoint, at};
    use katydid_interleave::number;
    use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, LockResult, PoisonError};
    use std::thread::{Thread, current, park, park_timeout, yield_now};
    use std::time::Instant;

    /// Reaches the scheduling point, then takes the latch.
    #[track_caller]
    fn take_at<G>(attempt: impl Fn() -> Option<G>, otherwise: impl FnOnce() -> G) -> G {
        at(PausePoint::Latch);
        take(attempt, otherwise)
    }

    /// Under the scheduler, tries to take the latch until it succeeds, and lets the other threads
    /// run meanwhile. Outside of the scheduler, calls `otherwise`.
    pub(super) fn take<G>(attempt: impl Fn() -> Option<G>, otherwise: impl FnOnce() -> G) -> G {
        if number().is_none() {
            return otherwise();
        }
        loop {
            if let Some(guard) = attempt() {
                return guard;
            }
            yield_now();
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Mutex(parking_lot::Mutex::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    impl<T: ?Sized> Mutex<T> {
        #[track_caller]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            take_at(|| self.0.try_lock(), || self.0.lock())
        }

        #[track_caller]
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            at(PausePoint::Latch);
            self.0.try_lock()
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            RwLock(parking_lot::RwLock::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    impl<T: ?Sized> RwLock<T> {
        #[track_caller]
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            take_at(|| self.0.try_read(), || self.0.read())
        }

        #[track_caller]
        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            take_at(|| self.0.try_write(), || self.0.write())
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }

    /// A lock with one shard, so that a run can be repeated. In `crossbeam_utils`, a thread's shard
    /// depends on how many threads the process has started before.
    #[derive(Debug, Default)]
    pub(crate) struct ShardedLock<T>(RwLock<T>);

    impl<T> ShardedLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            ShardedLock(RwLock::new(value))
        }

        #[track_caller]
        pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
            Ok(self.0.read())
        }

        #[track_caller]
        pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
            Ok(self.0.write())
        }
    }

    /// A condition variable. Threads of the scheduler are woken in the order in which they came.
    /// All other threads wait on `others`.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar {
        others: parking_lot::Condvar,
        asleep: std::sync::Mutex<VecDeque<Arc<Sleeper>>>,
    }

    #[derive(Debug)]
    struct Sleeper {
        thread: Thread,
        is_woken: AtomicBool,
    }

    /// Outcome of a wait with a limit.
    pub(crate) struct Ending {
        timed_out: bool,
    }

    impl Ending {
        pub(crate) fn timed_out(&self) -> bool {
            self.timed_out
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar::default()
        }

        pub(crate) fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
            match number() {
                None => self.others.wait(guard),
                Some(_) => drop(self.sleep(guard, None)),
            }
        }

        pub(crate) fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, limit: Instant) -> Ending {
            match number() {
                None => Ending { timed_out: self.others.wait_until(guard, limit).timed_out() },
                Some(_) => self.sleep(guard, Some(limit)),
            }
        }

        pub(crate) fn notify_one(&self) {
            match self.asleep.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
                Some(sleeper) => sleeper.wake(),
                None => drop(self.others.notify_one()),
            }
        }

        pub(crate) fn notify_all(&self) {
            let asleep = std::mem::take(&mut *self.asleep.lock().unwrap_or_else(PoisonError::into_inner));
            asleep.iter().for_each(|sleeper| sleeper.wake());
            self.others.notify_all();
        }

        fn sleep<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, limit: Option<Instant>) -> Ending {
            let own = Arc::new(Sleeper { thread: current(), is_woken: AtomicBool::new(false) });
            let asleep = || self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            asleep().push_back(own.clone());
            let latch = MutexGuard::mutex(guard);
            let timed_out = MutexGuard::unlocked(guard, || {
                let timed_out = own.wait_until(limit);
                // Under the scheduler no other thread runs between the end of this loop and the
                // locking that follows.
                while latch.is_locked() {
                    yield_now();
                }
                timed_out
            });
            asleep().retain(|sleeper| !Arc::ptr_eq(sleeper, &own));
            Ending { timed_out }
        }
    }

    impl Sleeper {
        fn wake(&self) {
            self.is_woken.store(true, Ordering::Release);
            self.thread.unpark();
        }

        /// Waits until woken; returns true if the limit came first.
        fn wait_until(&self, limit: Option<Instant>) -> bool {
            while !self.is_woken.load(Ordering::Acquire) {
                match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
                    None => park(),
                    Some(left) if left.is_zero() => return true,
                    Some(left) => park_timeout(left),
                }
            }
            false
        }
    }
}
