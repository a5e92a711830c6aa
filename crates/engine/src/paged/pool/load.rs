//! Bringing pages in from the device.
//!
//! A page's frame enters the table with its latch held exclusively and `loaded` unset, then the page is read: others who want
//! it wait for the latch. If reading fails the frame leaves the table before its latch is released; who waited finds `loaded`
//! unset and tries again by itself, so that everybody gets an error of their own.

use super::Pool;
use super::evict::Need;
use super::frame::Body;
use crate::body_threads::while_blocked;
use crate::error::{Error, Result};
use crate::paged::page::{FaultReason, PageFault, PageId, check};
use katydid_device::AlignedBuffer;
use parking_lot::{ArcRwLockWriteGuard, RawRwLock};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that one read of `prefetch` asks for at most.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Pages not asked for that one read may pass over: cheaper than another read.
const RUN_GAP_MAX: u64 = 4;

pub(super) type Exclusive = ArcRwLockWriteGuard<RawRwLock, Body>;

impl Pool {
    /// A frame for `page`, in its table, latched exclusively, not loaded. `None` if the page got a frame from somebody else
    /// in the meantime, or, with [`Need::IfRoom`], if there is no room.
    pub(super) fn admit(&self, page: PageId, need: Need) -> Result<Option<Exclusive>> {
        let Some(frame) = self.take_frame(need)? else { return Ok(None) };
        frame.meta.reassign(page.get());
        frame.touch();
        let Some(mut body) = frame.latch.try_write_arc() else {
            return Err(Error::Internal("an unpinned frame was latched"));
        };
        body.loaded = false;
        body.change_end = crate::Lsn::ZERO;
        match self.shard(page).insert(page, frame) {
            Ok(()) => Ok(Some(body)),
            Err(frame) => {
                drop(body);
                self.spare.lock().push(frame);
                Ok(None)
            }
        }
    }

    /// Whether the frame with this body is the page's frame.
    pub(super) fn holds(&self, page: PageId, body: &Exclusive) -> bool {
        self.shard(page).with(page, |frame| Arc::ptr_eq(&frame.meta, &body.meta)).unwrap_or(false)
    }

    /// Takes a frame that has not got its page out of its table. The caller holds its latch, and lets it go afterwards.
    pub(super) fn reject(&self, page: PageId, body: &Exclusive) {
        let latch = ArcRwLockWriteGuard::rwlock(body);
        // Others may wait for its latch: the frame is theirs to drop, not ours to use again.
        if self.shard(page).remove(page, latch).is_some() {
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads a page from the device. `None` if somebody else did, or does, at the same time.
    #[cold]
    pub(super) fn load(&self, page: PageId) -> Result<Option<Exclusive>> {
        let _visit = self.shared.wal.visit()?;
        let Some(mut body) = self.admit(page, Need::Must)? else { return Ok(None) };
        match self.read_page(page, &mut body.bytes) {
            Ok(()) => {
                body.loaded = true;
                self.counters.loaded.fetch_add(1, Ordering::Relaxed);
                Ok(Some(body))
            }
            Err(error) => {
                self.reject(page, &body);
                Err(error)
            }
        }
    }

    /// Reads a page from the device, past the pool, and checks it.
    fn read_page(&self, page: PageId, bytes: &mut [u8]) -> Result<()> {
        let Some(offset) = page.offset(self.page_bytes) else {
            return Err(PageFault { page, reason: FaultReason::Short(0) }.into());
        };
        let read = while_blocked(|| self.file.read_at(bytes, offset)).map_err(|mut error| {
            error.subject = format!("page {page} of {}", error.subject);
            Error::Device(error)
        })?;
        check(&bytes[..read], page, self.page_bytes)?;
        Ok(())
    }

    /// Reads those of `pages` that are not in memory, with few large reads, as far as there is room for them without writing
    /// anything back. Returns how many. For restart: a page that cannot be read here, or is corrupt, is left out, and
    /// `read` will say so.
    pub(crate) fn prefetch(&self, pages: &[PageId]) -> Result<usize> {
        let mut wanted = pages.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        // Made when there is something to read, and not larger than needed: zeroing it is most of a call's cost.
        let mut buffer = AlignedBuffer::new_zeroed(0);
        let run_pages = (RUN_BYTES_MAX / self.page_bytes).max(1) as u64;
        let mut loaded = 0;
        let mut frames: Vec<(PageId, Exclusive)> = Vec::new();
        let mut rest = wanted.as_slice();
        while let Some(first) = rest.first().copied() {
            let mut last = first;
            let near = rest.iter().take_while(|page| {
                let fits = page.get() - first.get() < run_pages && page.get() - last.get() <= RUN_GAP_MAX;
                last = if fits { **page } else { last };
                fits
            });
            let (run, tail) = rest.split_at(near.count());
            rest = tail;
            let mut full = false;
            for page in run.iter().copied() {
                if self.shard(page).with(page, |_| ()).is_some() {
                    continue;
                }
                match self.admit(page, Need::IfRoom)? {
                    Some(body) => frames.push((page, body)),
                    None => full = self.shard(page).with(page, |_| ()).is_none(),
                }
                if full {
                    break;
                }
            }
            loaded += self.fill_run(&mut buffer, &mut frames);
            if full {
                break;
            }
        }
        Ok(loaded)
    }

    /// Reads the pages of `frames`, neighbours, with one read into `buffer`, which grows to hold them, and empties `frames`.
    fn fill_run(&self, buffer: &mut AlignedBuffer, frames: &mut Vec<(PageId, Exclusive)>) -> usize {
        let (Some((first, _)), Some((last, _))) = (frames.first(), frames.last()) else { return 0 };
        let first = *first;
        let span = (last.get() - first.get() + 1) as usize * self.page_bytes;
        if buffer.len() < span {
            *buffer = AlignedBuffer::new_zeroed(span);
        }
        // A failure leaves `read` at 0: each page is then refused here and reported by whoever asks for it by itself.
        let read = first
            .offset(self.page_bytes)
            .and_then(|at| self.file.read_at(&mut buffer[..span], at).ok())
            .unwrap_or(0);
        let mut loaded = 0;
        for (page, mut body) in frames.drain(..) {
            let at = (page.get() - first.get()) as usize * self.page_bytes;
            let bytes = buffer[..read].get(at..at + self.page_bytes);
            match bytes.filter(|bytes| check(bytes, page, self.page_bytes).is_ok()) {
                Some(bytes) => {
                    body.bytes.copy_from_slice(bytes);
                    body.loaded = true;
                    loaded += 1;
                }
                None => self.reject(page, &body),
            }
        }
        self.counters.loaded.fetch_add(loaded as u64, Ordering::Relaxed);
        loaded
    }
}
