//! A counter for metrics: a number that only grows.
//!
//! All accesses are relaxed, because no other data depends on the value.

use crate::sync_shim::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Counter(AtomicU64::new(0))
    }
}

impl Counter {
    /// Adds `amount`. Called by one thread at a time.
    #[inline]
    pub fn add_alone(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// Adds `amount`. May be called by any thread.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
