//! State of a page in memory that threads read without the page's latch: its number and its
//! recovery LSN.
//!
//! The holder of the page's latch, the flusher, checkpoints and eviction run this code.
//!
//! | field | written by | read by | ordering |
//! |---|---|---|---|
//! | `page` | sole owner of the frame (not in a table) | any thread that found the frame in a table | the shard's latch |
//! | `rec_lsn` | `begin_change` (exclusive latch): none -> LSN; redo: lowers it; flusher (shared latch and flusher mutex): LSN -> none | checkpoint, eviction, flusher | stores Release, loads Acquire |
//! | `flushing` | flusher (its mutex): LSN before it clears `rec_lsn`, none after the sync in place | checkpoint, eviction | stores Release, loads Acquire |
//!
//! Invariants:
//!
//! 1. A page whose bytes differ from the device's has `rec_lsn` or `flushing` set. The flusher sets
//!    `flushing` before it clears `rec_lsn`, and a reader loads `rec_lsn` first, so no reader finds
//!    both unset in between.
//! 2. `rec_lsn` is a lower bound of the LSN of the first change since the page was last clean.
//!    `begin_change` sets it before the record of that change is appended.
//!
//! The module `checks` runs this file under the explorer.

#[cfg(all(test, katydid_explore))]
mod checks;

use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Ordering};

/// No LSN: the page is clean (`rec_lsn`), or is not being written back (`flushing`).
const NONE: u64 = u64::MAX;

/// See the head of this file.
#[derive(Debug)]
pub struct PageMeta {
    page: AtomicU64,
    rec_lsn: AtomicU64,
    flushing: AtomicU64,
}

impl Default for PageMeta {
    fn default() -> Self {
        Self::new()
    }
}

impl PageMeta {
    /// State of a frame without a page.
    pub fn new() -> Self {
        PageMeta { page: AtomicU64::new(0), rec_lsn: AtomicU64::new(NONE), flushing: AtomicU64::new(NONE) }
    }

    /// The number of the page.
    pub fn page(&self) -> u64 {
        self.page.load(Ordering::Relaxed)
    }

    /// The recovery LSN, if the page is dirty or being written back.
    pub fn recovery_lsn(&self) -> Option<Lsn> {
        let rec_lsn = self.rec_lsn.load(Ordering::Acquire);
        let lowest = rec_lsn.min(self.flushing.load(Ordering::Acquire));
        (lowest != NONE).then(|| Lsn::new(lowest))
    }

    /// Marks a clean page as dirty, with the result of `floor` as its recovery LSN. Called by the
    /// holder of the exclusive latch before it appends a record that changes the page; the record
    /// will lie above that LSN. Returns whether the page was clean.
    #[inline]
    pub fn begin_change(&self, floor: impl FnOnce() -> Lsn) -> bool {
        let was_clean = self.rec_lsn.load(Ordering::Relaxed) == NONE;
        if was_clean {
            self.rec_lsn.store(floor().get(), Ordering::Release);
        }
        was_clean
    }

    /// Lowers the recovery LSN to `lsn` if it is higher. Called by the holder of the exclusive
    /// latch after `begin_change`, when it knows the start of the record.
    #[inline]
    pub fn lower_recovery_lsn(&self, lsn: Lsn) {
        debug_assert_ne!(self.rec_lsn.load(Ordering::Relaxed), NONE, "a change that was not begun");
        if self.rec_lsn.load(Ordering::Relaxed) > lsn.get() {
            self.rec_lsn.store(lsn.get(), Ordering::Release);
        }
    }

    /// Marks the page as clean. Called by the holder of the exclusive latch to take back a change
    /// that it has begun and not made, if the page was clean before. Returns whether the page was
    /// dirty.
    pub fn forget_change(&self) -> bool {
        self.rec_lsn.swap(NONE, Ordering::AcqRel) != NONE
    }

    /// Marks the page as being written back, calls `begun`, and marks the page as clean. Called by
    /// the flusher, which has copied the page and holds its latch. Returns whether the page was
    /// dirty.
    pub fn begin_flush(&self, begun: impl FnOnce()) -> bool {
        let rec_lsn = self.rec_lsn.load(Ordering::Acquire);
        self.flushing.fetch_min(rec_lsn, Ordering::AcqRel);
        // A checkpoint or eviction that looks between these two stores must find `flushing` set.
        begun();
        if rec_lsn != NONE {
            self.rec_lsn.store(NONE, Ordering::Release);
        }
        rec_lsn != NONE
    }

    /// Ends a write-back. Called by the flusher when the copy is durable in its place.
    pub fn finish_flush(&self) {
        self.flushing.store(NONE, Ordering::Release);
    }

    /// Gives the frame to another page. The frame is clean, unpinned and in no table.
    pub fn reassign(&self, page: u64) {
        debug_assert!(self.recovery_lsn().is_none());
        self.page.store(page, Ordering::Relaxed);
    }
}
