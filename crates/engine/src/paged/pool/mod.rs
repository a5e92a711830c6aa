//! The buffer pool: a bounded number of pages in memory, written back under the write-ahead rule.
//!
//! Threads: every thread that calls the engine reads and changes pages here. The checkpoint thread,
//! threads that take a checkpoint themselves and threads that need room write pages back, one batch
//! at a time. Modules: `frame` (room for a page), `guard` (a latched page), `shard` (page tables
//! and clock), `load` (from the device), `evict` (making room), `flush` (to the device), `aside`
//! (memory besides the frames).
//!
//! Invariants:
//!
//! 1. A page is in at most one frame. A frame is in its shard's table from before its page is read
//!    from the device until that read fails or the frame is evicted. So no thread can read a page
//!    from the device while another thread has, or writes, a newer version.
//! 2. Only a clean, unpinned frame is evicted; a frame is clean when its bytes are durable in place
//!    (`frame`, invariant 1).
//! 3. Before any page goes to the device, the log is durable up to the end of the last record that
//!    changed it. `flush` is the one place that writes pages of the pool, and the one that calls
//!    [`WalBarrier::make_durable`].
//! 4. The pool itself holds only two latches across I/O: the exclusive latch of the page that is
//!    being read in, and the flusher mutex.
//! 5. A thread that makes room may hold page latches. So it never waits for the latch of a page to
//!    be written: it tries the latch, and leaves the page out if another thread holds the latch
//!    exclusively. Of the functions that write pages back, only [`Pool::flush_all`] waits for page
//!    latches, and its caller holds none. A thread takes page latches first, then the flusher
//!    mutex, then shard latches.
//! 6. When all frames are pinned or cannot be written back, the pool allocates one more. The pool
//!    then exceeds its limit, because waiting could deadlock.
//!
//! What a crash leaves is described in `double_write`.

mod aside;
mod barrier;
mod evict;
mod flush;
mod frame;
mod guard;
mod load;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use aside::Aside;
pub(crate) use barrier::WalBarrier;
pub(crate) use guard::{NewPage, PageRead, PageWrite};

use super::double_write::DoubleWrite;
use super::page::PageId;
use crate::Lsn;
use crate::error::Result;
use crate::latch::{Mutex, read_arc, write_arc};
use aside::AsideTotal;
use crossbeam_utils::CachePadded;
use frame::{Frame, FrameShared};
use katydid_device::{File, Slab};
use load::Exclusive;
use shard::Shard;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 64;

/// Minimum number of frames in a pool.
pub(crate) const PAGES_MIN: usize = 16;

/// The buffer pool of one database file.
#[derive(Debug)]
pub(crate) struct Pool {
    file: Arc<dyn File>,
    page_bytes: usize,
    capacity: usize,
    shards: Box<[CachePadded<Shard>]>,
    shared: Arc<FrameShared>,
    /// Number of frames allocated. Relaxed, because each change is a read-modify-write, and the
    /// number orders no other access.
    resident: AtomicUsize,
    /// Memory of the frames within the limit.
    slab: Mutex<Slab>,
    /// Frames that hold no page.
    spare: Mutex<Vec<Frame>>,
    /// Pages that were written back lately. Eviction tries them first, and skips those that threads
    /// have used since.
    ready: Mutex<VecDeque<PageId>>,
    /// Number of visits of shards, by eviction and by searches for cold pages. This number modulo
    /// `SHARDS` is the shard to visit next.
    turn: AtomicUsize,
    flusher: Mutex<flush::Flusher>,
    aside: Arc<AsideTotal>,
    counters: Counters,
}

/// Counters for reports. Relaxed, because nothing depends on them.
#[derive(Debug, Default)]
struct Counters {
    loaded: AtomicU64,
    evicted: AtomicU64,
    written: AtomicU64,
    batches: AtomicU64,
    forced: AtomicU64,
}

/// Size of the pool, and its counters since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PoolStat {
    /// Number of frames that the pool may have.
    pub(crate) capacity: usize,
    /// Number of frames that the pool has.
    pub(crate) resident: usize,
    /// Number of pages changed since they were last copied to the device.
    pub(crate) dirty: usize,
    /// Number of pages read from the device.
    pub(crate) loaded: u64,
    /// Number of pages evicted to make room for other pages.
    pub(crate) evicted: u64,
    /// Number of pages written to the device. A page counts once, though it is written twice.
    pub(crate) written: u64,
    /// Number of batches in which pages were written.
    pub(crate) batches: u64,
    /// Number of batches that a thread in need of room had to write itself.
    pub(crate) forced: u64,
}

impl Pool {
    /// Creates a pool of `cache_bytes` (at least 16 pages) over the database file.
    pub(crate) fn new(
        file: Arc<dyn File>,
        double_write: DoubleWrite,
        page_bytes: usize,
        cache_bytes: usize,
        wal: Arc<dyn WalBarrier>,
    ) -> Self {
        let capacity = (cache_bytes / page_bytes).max(PAGES_MIN);
        Pool {
            page_bytes,
            capacity,
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            shared: Arc::new(FrameShared { wal, dirty: AtomicUsize::new(0) }),
            resident: AtomicUsize::new(0),
            slab: Mutex::new(Slab::new(page_bytes, capacity)),
            spare: Mutex::default(),
            ready: Mutex::default(),
            turn: AtomicUsize::new(0),
            flusher: Mutex::new(flush::Flusher::new(double_write, page_bytes, capacity)),
            aside: Arc::new(AsideTotal::new(capacity * page_bytes)),
            counters: Counters::default(),
            file,
        }
    }

    /// Number of frames that the pool may have.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Counts `bytes` of memory besides the frames, until the returned value is dropped. Returns
    /// `None` if all this memory would take more than 1/16 of the cache's size.
    pub(crate) fn set_aside(&self, bytes: usize) -> Option<Aside> {
        Aside::take(&self.aside, bytes)
    }

    /// Number of bytes in a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Maximum number of pages to read ahead at once. More pages would evict each other. Returns 0
    /// if the reads would run one after another anyway, as those of a direct file do.
    pub(crate) fn ahead_max(&self) -> usize {
        if self.file.overlaps_reads() { self.capacity / 4 } else { 0 }
    }

    /// The database file.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    #[inline]
    fn shard(&self, page: PageId) -> &Shard {
        // The shard is chosen by bits that the table inside the shard uses for neither bucket nor
        // tag.
        &self.shards[(shard::hash(page.get()) >> 40) as usize % SHARDS]
    }

    /// Returns the page with its latch held shared. Waits for the latch. Reads the page from the
    /// device if it is not in memory. If the page cannot be read, or is not what was written, the
    /// error names it.
    #[inline]
    pub(crate) fn read(&self, page: PageId) -> Result<PageRead> {
        loop {
            let found = self.shard(page).with(page, |frame| {
                frame.touch();
                frame.latch.try_read_arc().ok_or_else(|| frame.latch.clone())
            });
            let body = match found {
                Some(Ok(body)) => body,
                Some(Err(latch)) => read_arc(&latch),
                None => match self.load(page)? {
                    Some(body) => return Ok(PageRead { body: Exclusive::downgrade(body) }),
                    None => continue,
                },
            };
            if body.loaded {
                return Ok(PageRead { body });
            }
            body.check_whole()?;
        }
    }

    /// Returns the page with its latch held exclusively. In all else it works like [`Pool::read`].
    #[inline]
    pub(crate) fn write(&self, page: PageId) -> Result<PageWrite> {
        loop {
            let found = self.shard(page).with(page, |frame| {
                frame.touch();
                frame.latch.try_write_arc().ok_or_else(|| frame.latch.clone())
            });
            let body = match found {
                Some(Ok(body)) => body,
                Some(Err(latch)) => write_arc(&latch),
                None => match self.load(page)? {
                    Some(body) => return Ok(PageWrite::new(body)),
                    None => continue,
                },
            };
            if body.loaded {
                return Ok(PageWrite::new(body));
            }
            body.check_whole()?;
        }
    }

    /// Returns whether the page has a frame at the moment.
    pub(crate) fn is_in_memory(&self, page: PageId) -> bool {
        self.shard(page).with(page, |_| ()).is_some()
    }

    /// Returns the page with its latch held shared, if it is in memory and its latch is free.
    #[inline]
    pub(crate) fn try_read(&self, page: PageId) -> Option<PageRead> {
        let body = self.shard(page).with(page, |frame| {
            frame.touch();
            frame.latch.try_read_arc()
        })??;
        body.loaded.then_some(PageRead { body })
    }

    /// Returns the page with its latch held exclusively, if it is in memory and its latch is free.
    #[inline]
    pub(crate) fn try_write(&self, page: PageId) -> Option<PageWrite> {
        let body = self.shard(page).with(page, |frame| {
            frame.touch();
            frame.latch.try_write_arc()
        })??;
        body.loaded.then(|| PageWrite::new(body))
    }

    /// Returns a page that is about to be made anew, with its latch held exclusively. The pool does
    /// not read the page from the device, whatever is there. The caller sets all of its bytes
    /// between `begin_change` and `finish_change`. Until then the page's former bytes are kept, in
    /// its frame or on the device: the record that freed the page may not be durable yet, and after
    /// a crash those bytes are needed again.
    pub(crate) fn create(&self, page: PageId) -> Result<NewPage<'_>> {
        loop {
            let found = self.shard(page).with(page, |frame| {
                frame.touch();
                frame.latch.clone()
            });
            let mut body = match found {
                Some(latch) => {
                    let body = write_arc(&latch);
                    if body.loaded {
                        return Ok(NewPage::new(self, body));
                    }
                    body.check_whole()?;
                    // A frame whose load failed is out of the table, so changes to it would be
                    // lost.
                    if !self.holds(page, &body) {
                        continue;
                    }
                    body
                }
                None => match self.admit(page, evict::Need::Must)? {
                    Some(body) => body,
                    None => continue,
                },
            };
            // Gives the page an LSN and a kind, for callers that ask. The frame is not `loaded`
            // before `finish_change`. Until then the flusher does not write the frame back, and
            // dropping the `NewPage` removes the frame.
            super::page::header::format_free(&mut body.bytes, page);
            return Ok(NewPage::new(self, body));
        }
    }

    /// Returns the dirty pages, each with a lower bound of the LSN of its first change that may not
    /// be durable in place. A checkpoint calls this method after the checkpoint's begin record was
    /// appended and a barrier of the log was passed. Then the result has every page that was
    /// changed by a record below the begin record and is not durable in place.
    pub(crate) fn dirty_pages(&self) -> Vec<(PageId, Lsn)> {
        // This load synchronizes with the append of each record below the reserved frontier, so the
        // `begin_change` before each of these appends is visible here. With open chunks below the
        // frontier, the caller's barrier has synchronized with the appends into these chunks.
        self.shared.wal.reserved();
        let mut dirty = Vec::new();
        for shard in &self.shards {
            shard.each(|meta| {
                if let Some(rec_lsn) = meta.recovery_lsn() {
                    dirty.push((PageId::new(meta.page()), rec_lsn));
                }
            });
        }
        dirty
    }

    /// Shuts the engine off, because the calling thread panics in the middle of a change.
    #[cold]
    pub(crate) fn poison_torn(&self) {
        let _error = self.shared.wal.poison(frame::TORN);
    }

    /// Returns the size and the counters of the pool.
    pub(crate) fn stat(&self) -> PoolStat {
        let counters = &self.counters;
        PoolStat {
            capacity: self.capacity,
            resident: self.resident.load(Ordering::Relaxed),
            dirty: self.shared.dirty.load(Ordering::Relaxed),
            loaded: counters.loaded.load(Ordering::Relaxed),
            evicted: counters.evicted.load(Ordering::Relaxed),
            written: counters.written.load(Ordering::Relaxed),
            batches: counters.batches.load(Ordering::Relaxed),
            forced: counters.forced.load(Ordering::Relaxed),
        }
    }
}
