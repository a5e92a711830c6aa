//! A frame: memory for one page, the page's latch, and facts about the page that threads read
//! without the latch.
//!
//! Threads access the fields as follows:
//!
//! - `Body`: the holder of the exclusive latch writes it, and a holder of the latch reads it.
//! - `PageMeta`: see [`page_meta`](katydid_kernels::page_meta).
//! - `Frame::referenced`: every access to the page sets it; the clock reads and clears it. Relaxed,
//!   because it is a hint. The bit lies in the page table's entry, so a hit touches no further
//!   cache line.
//!
//! Invariants:
//!
//! 1. A page whose bytes differ from the device's is dirty or being written back (`PageMeta`).
//! 2. A page is dirty before the record of its first change is appended.
//! 3. A frame is pinned while a thread holds an `Arc` of its latch in addition to the one in the
//!    table's entry. Only unpinned frames are evicted, with the shard's latch held exclusively. A
//!    thread gets such an `Arc` only with the shard's latch held.

use super::barrier::WalBarrier;
use crate::Lsn;
use crate::error::Result;
use crate::pause::{self, PausePoint};
use katydid_device::AlignedBuffer;
use katydid_kernels::page_meta::PageMeta;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// State that all frames of a pool share.
#[derive(Debug)]
pub(super) struct FrameShared {
    pub(super) wal: Arc<dyn WalBarrier>,
    /// Number of dirty frames. Relaxed, because it is only a gauge.
    pub(super) dirty: AtomicUsize,
}

/// The part of a frame that the frame's latch guards.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: AlignedBuffer,
    /// The exclusive end of the last record that changed the page since it was loaded.
    pub(super) change_end: Lsn,
    /// True if `bytes` have the page's contents. False while the page is being read from the device
    /// or made anew, after reading the page failed, and if the page is `torn`.
    pub(super) loaded: bool,
    /// True after a thread panicked in the middle of a change: `bytes` are neither the former page
    /// nor what the log says. Never becomes false again.
    pub(super) torn: bool,
    pub(super) meta: Arc<PageMeta>,
    pub(super) shared: Arc<FrameShared>,
}

/// Reason for shutting the engine off after a panic.
pub(super) const TORN: &str = "a panic in the middle of a change of a page";

impl Body {
    /// Notes that the holder of the exclusive latch is about to append a record that changes the
    /// page.
    #[inline]
    pub(super) fn begin_change(&self) {
        if self.meta.begin_change(|| self.shared.wal.floor()) {
            self.shared.dirty.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the flusher, which holds the page's latch, has copied the page.
    pub(super) fn begin_flush(&self) {
        if self.meta.begin_flush(|| pause::at(PausePoint::FlushBegun)) {
            self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes `begin_change` back, because the holder of the exclusive latch has changed nothing.
    /// The holder then removes the frame from its table, and the page is again as it is on the
    /// device.
    pub(super) fn forget_change(&self) {
        if self.meta.forget_change() {
            self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Fails if a panic left the page half changed.
    pub(super) fn check_whole(&self) -> Result<()> {
        if self.torn { Err(self.shared.wal.poison(TORN)) } else { Ok(()) }
    }

    /// Marks the page as torn, because the holder of the exclusive latch panicked in the middle of
    /// a change. A torn page may be neither read nor written back.
    #[cold]
    pub(super) fn tear(&mut self) {
        self.torn = true;
        self.loaded = false;
        let _error = self.shared.wal.poison(TORN);
    }
}

pub(super) type Latch = Arc<RwLock<Body>>;

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) meta: Arc<PageMeta>,
    pub(super) latch: Latch,
    referenced: AtomicBool,
}

impl Frame {
    pub(super) fn new(bytes: AlignedBuffer, shared: &Arc<FrameShared>) -> Self {
        let meta = Arc::new(PageMeta::new());
        let body = Body {
            bytes,
            change_end: Lsn::ZERO,
            loaded: false,
            torn: false,
            meta: meta.clone(),
            shared: shared.clone(),
        };
        Frame { meta, latch: Arc::new(RwLock::new(body)), referenced: AtomicBool::new(true) }
    }

    #[inline]
    pub(super) fn touch(&self) {
        // The load comes first, so that the cache line stays shared between cores if the bit is set
        // already.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Clears the clock's bit and returns its former value.
    pub(super) fn clear_referenced(&self) -> bool {
        let was = self.referenced.load(Ordering::Relaxed);
        if was {
            self.referenced.store(false, Ordering::Relaxed);
        }
        was
    }

    pub(super) fn is_referenced(&self) -> bool {
        self.referenced.load(Ordering::Relaxed)
    }

    /// Returns whether only this table entry can reach the frame. If so, the guards' changes to
    /// `PageMeta` are visible: a guard drops its `Arc` by a Release decrement of the count, which
    /// `Arc::get_mut` loads with Acquire.
    pub(super) fn is_unpinned(&mut self) -> bool {
        Arc::get_mut(&mut self.latch).is_some()
    }
}
