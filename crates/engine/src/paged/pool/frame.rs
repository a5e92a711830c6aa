//! A frame: room for one page in memory, its latch, and what is known of it without the latch.
//!
//! Accesses:
//!
//! | field | written by | read by | ordering |
//! |---|---|---|---|
//! | `Body` | holder of the exclusive latch | holder of the latch | the latch |
//! | `PageMeta` | see [`page_meta`](katydid_kernels::page_meta) | see there | see there |
//! | `Frame::referenced` | every access: true; the clock: false | the clock | Relaxed: a hint. In the table's entry: a hit touches no other line for it |
//!
//! Invariants:
//!
//! 1. A page whose bytes differ from the device's is dirty or being written back (`PageMeta`).
//! 2. A page is dirty before the record of its first change is appended.
//! 3. A frame is pinned while a thread besides its table entry holds its latch's `Arc`; only
//!    unpinned frames are evicted, under the shard's exclusive latch, which every thread needs to
//!    get at the `Arc`.

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
    /// Frames with `rec_lsn` set. Relaxed: a gauge.
    pub(super) dirty: AtomicUsize,
}

/// The parts of a frame under its latch.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: AlignedBuffer,
    /// The exclusive end of the last record that changed the page since it was loaded.
    pub(super) change_end: Lsn,
    /// True if `bytes` are the page. False while it is being read from the device or made anew,
    /// after that failed, and if it is `torn`.
    pub(super) loaded: bool,
    /// A thread panicked in the middle of a change: `bytes` are neither what they were nor what the
    /// log says. Never unset.
    pub(super) torn: bool,
    pub(super) meta: Arc<PageMeta>,
    pub(super) shared: Arc<FrameShared>,
}

/// Reason for shutting the engine off after a panic.
pub(super) const TORN: &str = "a panic in the middle of a change of a page";

impl Body {
    /// The holder of the exclusive latch is about to append a record that changes the page.
    #[inline]
    pub(super) fn begin_change(&self) {
        if self.meta.begin_change(|| self.shared.wal.floor()) {
            self.shared.dirty.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The flusher has copied the page, and holds its latch.
    pub(super) fn begin_flush(&self) {
        if self.meta.begin_flush(|| pause::at(PausePoint::FlushBegun)) {
            self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The holder of the exclusive latch has changed nothing after `begin_change`, and takes the
    /// frame out of its table: the page is what it is on the device.
    pub(super) fn forget_change(&self) {
        if self.meta.forget_change() {
            self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Fails if a panic left the page half changed.
    pub(super) fn check_whole(&self) -> Result<()> {
        if self.torn { Err(self.shared.wal.poison(TORN)) } else { Ok(()) }
    }

    /// The holder of the exclusive latch panicked in the middle of a change. The page may be
    /// neither read nor written back.
    #[cold]
    pub(super) fn tear(&mut self) {
        self.torn = true;
        self.loaded = false;
        let _told = self.shared.wal.poison(TORN);
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
        // Load first: the line stays shared between cores when the bit is set already.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Clears the clock's bit and returns what it was.
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

    /// Returns whether only this table entry can reach the frame. Synchronises with the release of
    /// the last guard (`Arc::get_mut` acquires), so that its changes to `PageMeta` are seen after
    /// this returned true.
    pub(super) fn is_unpinned(&mut self) -> bool {
        Arc::get_mut(&mut self.latch).is_some()
    }
}
