//! Atomics, fences, plain bytes, threads, parking and locks of the explorer's world, with the
//! interfaces of `std`.

use super::memory::ThreadViews;
use super::schedule::{Execution, Status, World, with};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
pub use std::sync::atomic::Ordering;
use std::sync::{Arc, LockResult, OnceLock, TryLockError, TryLockResult};

/// An atomic location of one execution. The execution gives it a number at its first use, so that
/// `new` can be a `const fn`.
#[derive(Debug)]
struct Atomic {
    initial: u64,
    number: OnceLock<usize>,
}

impl Atomic {
    const fn new(initial: u64) -> Self {
        Atomic { initial, number: OnceLock::new() }
    }

    fn number(&self, world: &mut World) -> usize {
        // The location was created before it was shared, so all threads see its first value.
        *self.number.get_or_init(|| world.memory.atomic(self.initial, &Default::default()))
    }

    fn load(&self, order: Ordering) -> u64 {
        with(|execution, me| {
            execution.step(me, "load", |world| {
                let number = self.number(world);
                let ages = world.memory.readable(number, &world.threads[me].views, order);
                let age = world.pick(ages);
                world.memory.load(number, age, &mut world.threads[me].views, order)
            })
        })
    }

    fn store(&self, value: u64, order: Ordering) {
        with(|execution, me| {
            execution.step(me, "store", |world| {
                let number = self.number(world);
                world.changed(me);
                world.memory.store(number, value, &mut world.threads[me].views, order);
            });
        });
    }

    fn modify(&self, order: Ordering, failure: Ordering, mut change: impl FnMut(u64) -> Option<u64>) -> u64 {
        with(|execution, me| {
            execution.step(me, "modify", |world| {
                let number = self.number(world);
                world.changed(me);
                world.memory.modify(number, &mut world.threads[me].views, order, failure, &mut change)
            })
        })
    }
}

macro_rules! atomic {
    ($name:ident, $type:ty) => {
        /// The explored form of the type that has this name in std.
        #[derive(Debug)]
        pub struct $name(Atomic);

        #[allow(clippy::unnecessary_cast, reason = "one macro for all widths")]
        #[allow(missing_docs, reason = "as in std")]
        impl $name {
            pub const fn new(value: $type) -> Self {
                $name(Atomic::new(value as u64))
            }
            pub fn load(&self, order: Ordering) -> $type {
                self.0.load(order) as $type
            }
            pub fn store(&self, value: $type, order: Ordering) {
                self.0.store(value as u64, order);
            }
            pub fn swap(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |_| Some(value as u64)) as $type
            }
            pub fn fetch_add(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some((old as $type).wrapping_add(value) as u64)) as $type
            }
            pub fn fetch_sub(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some((old as $type).wrapping_sub(value) as u64)) as $type
            }
            pub fn fetch_max(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some((old as $type).max(value) as u64)) as $type
            }
            pub fn fetch_min(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some((old as $type).min(value) as u64)) as $type
            }
            pub fn fetch_or(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some(old | value as u64)) as $type
            }
            pub fn fetch_and(&self, value: $type, order: Ordering) -> $type {
                self.0.modify(order, order, |old| Some(old & value as u64)) as $type
            }
            /// # Errors
            /// Returns an error with the value found if that value is not `current`.
            pub fn compare_exchange(
                &self,
                current: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                let old =
                    self.0.modify(success, failure, |old| (old == current as u64).then_some(new as u64));
                if old == current as u64 { Ok(old as $type) } else { Err(old as $type) }
            }
            /// # Errors
            /// Returns an error with the value found if that value is not `current`. Never fails
            /// spuriously here.
            pub fn compare_exchange_weak(
                &self,
                current: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicU32, u32);
atomic!(AtomicUsize, usize);

/// The explored form of the type that has this name in std.
#[derive(Debug)]
pub struct AtomicBool(Atomic);

#[allow(missing_docs, reason = "as in std")]
impl AtomicBool {
    pub const fn new(value: bool) -> Self {
        AtomicBool(Atomic::new(value as u64))
    }
    pub fn load(&self, order: Ordering) -> bool {
        self.0.load(order) != 0
    }
    pub fn store(&self, value: bool, order: Ordering) {
        self.0.store(u64::from(value), order);
    }
    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.modify(order, order, |_| Some(u64::from(value))) != 0
    }
    /// # Errors
    /// Returns an error with the value found if that value is not `current`.
    pub fn compare_exchange(
        &self,
        current: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        let old =
            self.0.modify(success, failure, |old| (old == u64::from(current)).then_some(u64::from(new))) != 0;
        if old == current { Ok(old) } else { Err(old) }
    }
}

/// A memory fence.
pub fn fence(order: Ordering) {
    with(|execution, me| {
        execution.step(me, "fence", |world| world.memory.fence(&mut world.threads[me].views, order));
    });
}

/// A mark for plain (not atomic) bytes. The mark reports each access, so that the explorer finds
/// data races. Bytes that are always accessed together may share a mark.
#[derive(Debug)]
pub struct PlainAccess(OnceLock<usize>);

impl Default for PlainAccess {
    fn default() -> Self {
        Self::new()
    }
}

impl PlainAccess {
    /// Makes the mark of bytes that no thread has accessed yet.
    pub const fn new() -> Self {
        PlainAccess(OnceLock::new())
    }

    /// Announces a read of the bytes.
    pub fn read(&self) {
        self.access("plain read", |world, cell, me| {
            world.memory.plain_read(cell, me, &mut world.threads[me].views)
        });
    }

    /// Announces a write of the bytes.
    pub fn write(&self) {
        self.access("plain write", |world, cell, me| {
            world.memory.plain_write(cell, me, &mut world.threads[me].views)
        });
    }

    fn access(
        &self,
        what: &'static str,
        access: impl FnOnce(&mut World, usize, usize) -> Result<(), String>,
    ) {
        with(|execution, me| {
            execution.step(me, what, |world| {
                let cell = *self.0.get_or_init(|| world.memory.cell());
                if let Err(race) = access(world, cell, me) {
                    world.fail(race);
                }
            });
        });
    }
}

/// Blocks the thread until another thread has changed something: one step of a spinning loop.
pub fn spin_loop() {
    yield_now();
}

/// Blocks the thread until another thread has changed something, like [`spin_loop`].
pub fn yield_now() {
    with(|execution, me| {
        let seen = execution.step(me, "yield", |world| world.spin(me));
        execution.block(me, "wait for a change", Status::Yielded(seen));
    });
}

/// A handle to a thread of the execution.
#[derive(Debug, Clone)]
pub struct Thread {
    execution: Arc<Execution>,
    id: usize,
}

/// The calling thread.
pub fn current() -> Thread {
    with(|execution, me| Thread { execution: Arc::clone(execution), id: me })
}

impl Thread {
    /// Lets the thread's present or next [`park`] return.
    pub fn unpark(&self) {
        with(|_, me| {
            self.execution.step(me, "unpark", |world| {
                let mut token = world.threads[self.id].token.take().unwrap_or_default();
                token.now.join(&world.threads[me].views.now);
                world.threads[self.id].token = Some(token);
                world.changed(me);
                if world.threads[self.id].status == Status::Parked {
                    world.threads[self.id].status = Status::Runnable;
                }
            });
        });
    }
}

/// Waits for [`Thread::unpark`]. The call never returns without a token.
pub fn park() {
    with(|execution, me| {
        if !execution.step(me, "park", |world| take_token(world, me)) {
            execution.block(me, "parked", Status::Parked);
            execution.step(me, "unparked", |world| take_token(world, me));
        }
    });
}

fn take_token(world: &mut World, me: usize) -> bool {
    let Some(ThreadViews { now, .. }) = world.threads[me].token.take() else { return false };
    world.threads[me].views.now.join(&now);
    true
}

/// A spawned thread.
#[derive(Debug)]
pub struct JoinHandle<T> {
    id: usize,
    result: Arc<std::sync::Mutex<Option<T>>>,
}

/// Starts a thread of the execution.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let result = Arc::new(std::sync::Mutex::new(None));
    let into = Arc::clone(&result);
    let id = with(|execution, me| {
        execution.spawn(me, Box::new(move || *into.lock().expect("not poisoned") = Some(body())))
    });
    JoinHandle { id, result }
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// Never: a panic of the thread fails the execution.
    pub fn join(self) -> std::thread::Result<T> {
        with(|execution, me| execution.block(me, "join", Status::Joining(self.id)));
        Ok(self.result.lock().expect("not poisoned").take().expect("the thread has ended"))
    }
}

/// The state of a lock: whether it is held, and the views of its last holder.
#[derive(Debug, Default)]
pub(super) struct MutexState {
    held: bool,
    views: ThreadViews,
}

/// The explored form of the type that has this name in std.
#[derive(Debug)]
pub struct Mutex<T> {
    number: OnceLock<usize>,
    value: UnsafeCell<T>,
}

// SAFETY: a guard exists only while the execution records the lock as held, by one thread at a
// time.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: a guard exists only while the execution records the lock as held, by one thread at a
// time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// A guard of a locked [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// Makes an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex { number: OnceLock::new(), value: UnsafeCell::new(value) }
    }

    fn number(&self, world: &mut World) -> usize {
        *self.number.get_or_init(|| {
            world.mutexes.push(MutexState::default());
            world.mutexes.len() - 1
        })
    }

    /// Takes the lock for `me` if it is free. Returns the lock's number, and whether `me` has taken
    /// it.
    fn take(&self, world: &mut World, me: usize) -> (usize, bool) {
        let number = self.number(world);
        let free = !world.mutexes[number].held;
        if free {
            world.mutexes[number].held = true;
            let theirs = world.mutexes[number].views.now.clone();
            world.threads[me].views.now.join(&theirs);
        }
        (number, free)
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// Never.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        with(|execution, me| {
            loop {
                let (number, taken) = execution.step(me, "lock", |world| self.take(world, me));
                if taken {
                    return Ok(MutexGuard(self));
                }
                execution.block(me, "wait for lock", Status::Blocked(number));
            }
        })
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// `WouldBlock` if another thread holds the lock.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let taken = with(|execution, me| execution.step(me, "try lock", |world| self.take(world, me)).1);
        if taken { Ok(MutexGuard(self)) } else { Err(TryLockError::WouldBlock) }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        with(|execution, me| {
            execution.step(me, "unlock", |world| {
                let number = self.0.number(world);
                world.mutexes[number].held = false;
                world.mutexes[number].views = ThreadViews::starting_from(&world.threads[me].views);
                world.changed(me);
                for thread in &mut world.threads {
                    if thread.status == Status::Blocked(number) {
                        thread.status = Status::Runnable;
                    }
                }
            });
        });
    }
}
