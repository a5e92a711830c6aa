//! The atomic maximum. Callers pass AcqRel or SeqCst, so each maximum passes on the earlier writes
//! of all threads that have raised the value.
//!
//! Any thread may call this code. ThreadSanitizer does not instrument `fetch_max`, so it reports a
//! race where only a maximum orders two accesses. Under `--cfg katydid_sanitized` the maximum is a
//! loop of compare-exchanges, which ThreadSanitizer instruments.

use super::{AtomicU64, Ordering};

/// Raises `value` to `to` if it is lower. Returns the previous value.
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
