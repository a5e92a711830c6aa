//! The buffer pool: a bounded number of pages in memory, written back by the write-ahead rule.
//!
//! Threads: every caller of the store reads and changes pages here. A thread that needs room, the
//! page writer and the checkpointer write them back, one batch at a time. Parts: `frame` (room for
//! a page), `guard` (a latched page), `shard` (page tables and clock), `load` (from the device),
//! `evict` (making room), `flush` (to the device).
//!
//! Invariants:
//!
//! 1. A page is in at most one frame, and a frame is in its shard's table from before its page is
//!    read from the device until it is evicted: no thread can read a page from the device while
//!    another thread has, or writes, a newer version.
//! 2. Only a clean, unpinned frame is evicted; a frame is clean when its bytes are durable in place
//!    (`frame`, rule 1).
//! 3. Before any page goes to the device, the log is durable up to the end of the last record that
//!    changed it. `flush` is the one place that writes pages, and the one that calls
//!    [`WalBarrier::make_durable`].
//! 4. No latch is held across I/O, except the exclusive latch of the very page that is being read
//!    in.
//! 5. The thread that makes room may hold page latches; so flushing never waits for a page latch:
//!    it tries, and leaves the page out. Rank: page latches, then the flusher mutex, then shard
//!    latches.
//! 6. When all frames are pinned or cannot be written, one more is allocated: the pool is over its
//!    limit for as long as that lasts, rather than in a deadlock.
//!
//! What a crash leaves is the business of `double_write`.

mod barrier;
mod evict;
mod flush;
mod frame;
mod guard;
mod load;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use barrier::WalBarrier;
pub(crate) use guard::{NewPage, PageRead, PageWrite};

use super::double_write::DoubleWrite;
use super::page::PageId;
use crate::Lsn;
use crate::error::Result;
use crate::latch::{Mutex, read_arc, write_arc};
use crossbeam_utils::CachePadded;
use frame::{Frame, FrameShared};
use katydid_device::{File, Method, Slab};
use load::Exclusive;
use shard::Shard;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 64;

/// The fewest frames a pool has.
pub(crate) const PAGES_MIN: usize = 16;

/// The buffer pool of one database file.
#[derive(Debug)]
pub(crate) struct Pool {
    file: Arc<dyn File>,
    page_bytes: usize,
    capacity: usize,
    shards: Box<[CachePadded<Shard>]>,
    shared: Arc<FrameShared>,
    /// Frames allocated. Relaxed: each change is a read-modify-write, and it orders nothing.
    resident: AtomicUsize,
    /// The memory of frames that are not over the limit.
    slab: Mutex<Slab>,
    /// Frames that belong to no page.
    spare: Mutex<Vec<Frame>>,
    /// Pages just written back because they were cold: where eviction looks first.
    ready: Mutex<VecDeque<PageId>>,
    /// The shard whose turn it is.
    turn: AtomicUsize,
    flusher: Mutex<flush::Flusher>,
    counters: Counters,
}

/// Relaxed throughout: they are reported, nothing depends on them.
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
    /// Frames it may have.
    pub(crate) capacity: usize,
    /// Frames it has.
    pub(crate) resident: usize,
    /// Pages changed since they were last copied to the device.
    pub(crate) dirty: usize,
    /// Pages read from the device.
    pub(crate) loaded: u64,
    /// Pages given up for others.
    pub(crate) evicted: u64,
    /// Pages written to the device (counted once, though each is written twice).
    pub(crate) written: u64,
    /// Batches they were written in.
    pub(crate) batches: u64,
    /// Batches that a thread in need of room had to write itself.
    pub(crate) forced: u64,
}

impl Pool {
    /// A pool of `cache_bytes` (at least 16 pages) over the database file.
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
            counters: Counters::default(),
            file,
        }
    }

    /// Bytes in a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Pages that are worth reading ahead at once: more would push each other out. None past the
    /// page cache, where the reads would follow each other as they do anyway.
    pub(crate) fn ahead_max(&self) -> usize {
        match self.file.method() {
            Method::Buffered => self.capacity / 4,
            _ => 0,
        }
    }

    /// The database file.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    #[inline]
    fn shard(&self, page: PageId) -> &Shard {
        // Bits that the table inside the shard uses for neither bucket nor tag.
        &self.shards[(shard::hash(page.get()) >> 40) as usize % SHARDS]
    }

    /// The page with its latch held shared; read from the device if it is not in memory. Waits for
    /// the latch. A page that cannot be read, or is not what was written, is an error that names
    /// it.
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

    /// The page with its latch held exclusively; otherwise as [`Pool::read`].
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

    /// True if the page has a frame at the moment.
    pub(crate) fn is_in_memory(&self, page: PageId) -> bool {
        self.shard(page).with(page, |_| ()).is_some()
    }

    /// The page with its latch held shared, if it is in memory and that takes no waiting.
    #[inline]
    pub(crate) fn try_read(&self, page: PageId) -> Option<PageRead> {
        let body = self.shard(page).with(page, |frame| {
            frame.touch();
            frame.latch.try_read_arc()
        })??;
        body.loaded.then_some(PageRead { body })
    }

    /// The page with its latch held exclusively, if it is in memory and that takes no waiting.
    #[inline]
    pub(crate) fn try_write(&self, page: PageId) -> Option<PageWrite> {
        let body = self.shard(page).with(page, |frame| {
            frame.touch();
            frame.latch.try_write_arc()
        })??;
        body.loaded.then(|| PageWrite::new(body))
    }

    /// A page about to be made anew, its latch held exclusively: not read from the device, whatever
    /// is there. The caller sets all of its bytes, between `begin_change` and `finish_change`.
    /// Until then the page keeps what it held: what freed it may not be durable yet, and after a
    /// crash those bytes are wanted again.
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
                    // A frame whose load failed is out of the table: what is done to it would be
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
            // For a caller that asks for its LSN and kind. Not `loaded`: so it is not written back,
            // and `NewPage` drops the frame.
            super::page::header::format_free(&mut body.bytes, page);
            return Ok(NewPage::new(self, body));
        }
    }

    /// The dirty pages, each with a lower bound of the LSN of its first change that may not be
    /// durable in place. For a checkpoint: call it after the checkpoint's begin record was appended
    /// and a barrier of the log was passed; then every page changed by a record before that, and
    /// not durable in place, is among them.
    pub(crate) fn dirty_pages(&self) -> Vec<(PageId, Lsn)> {
        // Acquires the appends of all records below the reserved frontier, hence the `begin_change`
        // before each; where records are appended below it, the barrier did.
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

    /// Shuts the engine off: the calling thread panics in the middle of a change.
    #[cold]
    pub(crate) fn poison_torn(&self) {
        let _told = self.shared.wal.poison(frame::TORN);
    }

    /// Size and counters of the pool.
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
