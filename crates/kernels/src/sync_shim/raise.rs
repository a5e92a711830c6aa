//! The atomic maximum, which hands over what was written before it.
//!
//! Any thread. ThreadSanitizer does not instrument `fetch_max`, and so takes what such a hand-over
//! orders for a race. Under `--cfg katydid_sanitized` the maximum is an exchange that is tried
//! again, which ThreadSanitizer sees.

use super::{AtomicU64, Ordering};

/// Raises the value to `to`, if it is below. Returns the value before.
#[inline(always)]
pub fn raise(value: &AtomicU64, to: u64, order: Ordering) -> u64 {
    #[cfg(not(katydid_sanitized))]
    return value.fetch_max(to, order);
    #[cfg(katydid_sanitized)]
    {
        let mut before = value.load(Ordering::Relaxed);
        while let Err(found) = value.compare_exchange(before, before.max(to), order, Ordering::Acquire) {
            before = found;
        }
        before
    }
}
