//! The limit of the memory that the pool counts besides its frames, such as tables' maps to leaves:
//! a part of the cache's size.
//!
//! Any thread may run this code. Memory is counted from its allocation until its [`Aside`] is
//! dropped, which may be after the pool was dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All memory besides the frames takes at most this part of the cache's size.
const CACHE_PART: usize = 16;

/// Number of bytes besides the frames.
#[derive(Debug)]
pub(super) struct AsideTotal {
    /// Relaxed, because the number orders no other access.
    taken: AtomicUsize,
    max: usize,
}

impl AsideTotal {
    /// A total of no bytes, for a cache of `cache_bytes` bytes.
    pub(super) fn new(cache_bytes: usize) -> Self {
        AsideTotal { taken: AtomicUsize::new(0), max: cache_bytes / CACHE_PART }
    }
}

/// Bytes that are counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    bytes: usize,
    total: Arc<AsideTotal>,
}

impl Aside {
    pub(super) fn take(total: &Arc<AsideTotal>, bytes: usize) -> Option<Aside> {
        let add = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= total.max);
        total.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Aside { bytes, total: total.clone() })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.total.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_within_the_bound_are_counted_until_they_are_dropped() {
        let total = Arc::new(AsideTotal::new(1600));
        let first = Aside::take(&total, 60).expect("within the bound");
        assert!(Aside::take(&total, 41).is_none());
        assert!(Aside::take(&total, usize::MAX).is_none());
        let _second = Aside::take(&total, 40).expect("within the bound");
        assert!(Aside::take(&total, 1).is_none());
        drop(first);
        assert!(Aside::take(&total, 61).is_none());
        assert!(Aside::take(&total, 60).is_some());
    }
}
