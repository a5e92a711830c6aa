//! Counts allocated bytes, so that a test notices code that allocates by a length read from damaged
//! bytes.
//!
//! A test target makes [`Counting`] its `#[global_allocator]`. The counts are of all threads
//! together, so a measurement has to run alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes allocated now; `MOST` is their maximum since [`begin`]. Both are statistics, hence
/// relaxed: a test reads them when the measured threads have ended.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts allocated bytes.
#[derive(Debug)]
pub struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is; counting touches atomics
// only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

fn count(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    MOST.fetch_max(now, Ordering::Relaxed);
}

/// Begins to measure, and returns the bytes that are allocated now.
pub fn begin() -> usize {
    let now = NOW.load(Ordering::Relaxed);
    MOST.store(now, Ordering::Relaxed);
    now
}

/// Returns the maximum number of bytes allocated beyond `before` at any moment since the call of
/// [`begin`] that returned `before`.
pub fn most_since(before: usize) -> usize {
    MOST.load(Ordering::Relaxed).saturating_sub(before)
}
