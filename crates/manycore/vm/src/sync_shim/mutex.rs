//! The mutex of the simulated machine: the algorithm of `std` on Linux, on simulated words.
//!
//! The word is 0 if the mutex is free, 1 if it is held, and 2 if it is held and another thread may
//! be asleep until it is free. A thread that finds the mutex held looks at the word for a while
//! before it stores 2 and sleeps. The value is in a mutex of `std`, which is never contended,
//! because the word lets only one thread in.

use super::{AtomicU32, Ordering};
use crate::vm;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

const FREE: u32 = 0;
const HELD: u32 = 1;
const SLEPT_ON: u32 = 2;

/// A mutex like that of `std`. Each mutex has a cache line of its own, so that costs do not depend
/// on where the allocator places it.
#[derive(Default)]
#[repr(align(64))]
pub struct Mutex<T> {
    word: AtomicU32,
    value: sync::Mutex<T>,
}

/// A guard like that of `std`.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    word: &'a AtomicU32,
    // `None` only in `drop`.
    value: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Makes a free mutex.
    pub const fn new(value: T) -> Self {
        Mutex { word: AtomicU32::new(FREE), value: sync::Mutex::new(value) }
    }

    /// Locks, as in std.
    ///
    /// # Errors
    /// An error if a holder has panicked.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
            && vm::active()
        {
            self.wait();
        }
        match self.value.lock() {
            Ok(value) => Ok(MutexGuard { word: &self.word, value: Some(value) }),
            Err(poisoned) => {
                let value = Some(poisoned.into_inner());
                Err(PoisonError::new(MutexGuard { word: &self.word, value }))
            }
        }
    }

    /// Tries to lock, as in std.
    ///
    /// # Errors
    /// An error if the mutex is held.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                let value = Some(self.value.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(MutexGuard { word: &self.word, value })
            }
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    fn look(&self) -> u32 {
        let until = vm::now() + vm::mutex_spinning();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let now = vm::now();
            if word != HELD || now >= until {
                return word;
            }
            vm::watch(until - now);
        }
    }

    fn wait(&self) {
        let mut word = self.look();
        if word == FREE {
            match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        loop {
            if word != SLEPT_ON && self.word.swap(SLEPT_ON, Ordering::Acquire) == FREE {
                return;
            }
            vm::sleep_on(ptr::from_ref(&self.word) as usize, || self.word.peek() == SLEPT_ON);
            word = self.look();
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        if self.word.swap(FREE, Ordering::Release) == SLEPT_ON {
            vm::wake_one(ptr::from_ref(self.word) as usize);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect("there is a value until the guard is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("there is a value until the guard is dropped")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}
