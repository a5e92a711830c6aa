//! A number that only grows, counted where that costs nothing.
//!
//! Relaxed: each stands for itself.

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
    /// Adds `amount`. For a single writer at a time.
    #[inline]
    pub fn add_alone(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// Adds `amount`. May be called by any thread.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The number.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
