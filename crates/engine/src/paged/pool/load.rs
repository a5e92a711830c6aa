//! Reading pages from the device into the pool.
//!
//! A page's frame enters the table with its latch held exclusively and `loaded` unset; then the
//! page is read. Other threads that want the page wait for the latch. If reading fails, the frame
//! leaves the table before its latch is released. A thread that waited finds `loaded` unset and
//! tries again itself, so that each thread gets an error of its own.

use super::Pool;
use super::evict::Need;
use super::frame::Body;
use crate::body_threads::while_blocked;
use crate::error::{Error, Result};
use crate::paged::page::{FaultReason, PageFault, PageId, check};
use katydid_device::{Advice, AlignedBuffer, ManyRead};
use parking_lot::{ArcRwLockWriteGuard, RawRwLock};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum bytes of one read of `prefetch`.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Maximum distance, in pages, between two wanted pages of one read. Reading the pages between them
/// is cheaper than another read.
const RUN_GAP_MAX: u64 = 4;

/// Maximum number of reads of `prefetch` that the system gets at once.
const RUNS_MAX: usize = 32;

pub(super) type Exclusive = ArcRwLockWriteGuard<RawRwLock, Body>;

/// Frames for pages that are about to be read.
type Frames = Vec<(PageId, Exclusive)>;

impl Pool {
    /// Puts a frame for `page` into a page table, latched exclusively and not loaded, and returns
    /// the frame. Returns `None` if the page got a frame from another thread in the meantime, or,
    /// with [`Need::IfRoom`], if there is no room.
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

    /// Returns whether the frame with this body is the page's frame.
    pub(super) fn holds(&self, page: PageId, body: &Exclusive) -> bool {
        self.shard(page).with(page, |frame| Arc::ptr_eq(&frame.meta, &body.meta)).unwrap_or(false)
    }

    /// Removes from its table the frame of a page that could not be loaded. The caller holds the
    /// frame's latch, and releases it afterwards.
    pub(super) fn reject(&self, page: PageId, body: &Exclusive) {
        let latch = ArcRwLockWriteGuard::rwlock(body);
        // Other threads may wait for the frame's latch, so the last of them drops the frame, and
        // the pool does not reuse it.
        if self.shard(page).remove(page, latch).is_some() {
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads a page from the device. Returns `None` if another thread has read it, or is reading
    /// it, meanwhile.
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

    /// Reads a page from the device into `bytes`, without the pool, and checks it.
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

    /// Reads those of `pages` that are not in memory, with one read for several pages near each
    /// other. Stops when a frame could be had only by writing pages back. Returns the number of
    /// pages read. Several reads are under way together, if the file can do that. Leaves out a page
    /// that cannot be read or is corrupt; `read` will report it.
    ///
    /// Waits for the device, and for no latch. The caller should hold no latch.
    pub(crate) fn prefetch(&self, pages: &[PageId]) -> Result<usize> {
        let _visit = self.shared.wal.visit()?;
        let mut wanted = pages.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        // The buffer is allocated when there is something to read, and no larger than needed,
        // because zeroing it is most of a call's cost.
        let mut buffer = AlignedBuffer::new_zeroed(0);
        let (mut rest, mut loaded, mut is_full) = (wanted.as_slice(), 0, false);
        while !rest.is_empty() && !is_full {
            let mut runs: Vec<Frames> = Vec::new();
            while runs.len() < RUNS_MAX && !rest.is_empty() && !is_full {
                let (run, tail) = rest.split_at(self.run_length(rest));
                rest = tail;
                let mut frames = Frames::new();
                is_full = self.admit_run(run, &mut frames)?;
                if !frames.is_empty() {
                    runs.push(frames);
                }
            }
            let several = runs.len() > 1;
            let (single, longer): (Vec<Frames>, Vec<Frames>) =
                runs.into_iter().partition(|frames| frames.len() == 1);
            if several {
                // The reads of single pages need no advice, because one call makes all of them.
                for (offset, span) in longer.iter().filter_map(|frames| self.place_of(frames)) {
                    self.file.advise(Advice::Soon { offset, bytes: span as u64 });
                }
            }
            loaded += self.fill_single(single.into_iter().flatten().collect());
            for frames in longer {
                loaded += self.fill_run(&mut buffer, frames);
            }
        }
        self.counters.loaded.fetch_add(loaded as u64, Ordering::Relaxed);
        Ok(loaded)
    }

    /// Reads pages like [`Pool::prefetch`], if there are several. One page is read as quickly when
    /// it is needed.
    pub(crate) fn prefetch_several(&self, pages: &[PageId]) -> Result<()> {
        match pages {
            [] | [_] => Ok(()),
            several => self.prefetch(several).map(drop),
        }
    }

    /// Returns how many of these sorted pages, from the first one on, one read takes.
    fn run_length(&self, pages: &[PageId]) -> usize {
        let run_pages = (RUN_BYTES_MAX / self.page_bytes).max(1) as u64;
        let Some(first) = pages.first().copied() else { return 0 };
        let mut last = first;
        let near = pages.iter().take_while(|page| {
            let fits = page.get() - first.get() < run_pages && page.get() - last.get() <= RUN_GAP_MAX;
            last = if fits { **page } else { last };
            fits
        });
        near.count()
    }

    /// Adds frames for those pages of a run that are not in memory. Returns true if a page found no
    /// room for its frame.
    fn admit_run(&self, run: &[PageId], frames: &mut Frames) -> Result<bool> {
        for page in run.iter().copied() {
            if self.is_in_memory(page) {
                continue;
            }
            match self.admit(page, Need::IfRoom)? {
                Some(body) => frames.push((page, body)),
                None if !self.is_in_memory(page) => return Ok(true),
                None => {}
            }
        }
        Ok(false)
    }

    /// Offset in the file, and length in bytes, of a read from the first to the last page of
    /// `frames`.
    fn place_of(&self, frames: &[(PageId, Exclusive)]) -> Option<(u64, usize)> {
        let ((first, _), (last, _)) = (frames.first()?, frames.last()?);
        let span = (last.get() - first.get() + 1) as usize * self.page_bytes;
        Some((first.offset(self.page_bytes)?, span))
    }

    /// Reads the pages of `frames` with a read for each, all in one call of the file. Returns how
    /// many were loaded.
    fn fill_single(&self, frames: Frames) -> usize {
        let (mut frames, nowhere): (Frames, Frames) =
            frames.into_iter().partition(|(page, _)| page.offset(self.page_bytes).is_some());
        for (page, body) in &nowhere {
            self.reject(*page, body);
        }
        let mut reads: Vec<ManyRead<'_>> = frames
            .iter_mut()
            .filter_map(|(page, body)| Some(ManyRead::new(page.offset(self.page_bytes)?, &mut body.bytes)))
            .collect();
        while_blocked(|| self.file.read_many(&mut reads));
        // A failure counts as a read of no bytes. The page is then rejected, and a thread that
        // later reads it gets the error.
        let read: Vec<usize> = reads.into_iter().map(|read| read.outcome.unwrap_or(0)).collect();
        let mut loaded = 0;
        for ((page, mut body), read) in frames.into_iter().zip(read) {
            let bytes = body.bytes.get(..read);
            body.loaded = bytes.is_some_and(|bytes| check(bytes, page, self.page_bytes).is_ok());
            match body.loaded {
                true => loaded += 1,
                false => self.reject(page, &body),
            }
        }
        loaded
    }

    /// Reads the pages of `frames`, which are near each other, with one read into `buffer`, which
    /// grows to hold them. Returns how many were loaded.
    fn fill_run(&self, buffer: &mut AlignedBuffer, frames: Frames) -> usize {
        // A failure leaves `read` at 0. Each page is then rejected, and a thread that later reads
        // one of them gets the error.
        let (mut loaded, mut read) = (0, 0);
        let first = frames.first().map_or(0, |(page, _)| page.get());
        if let Some((offset, span)) = self.place_of(&frames) {
            if buffer.len() < span {
                *buffer = AlignedBuffer::new_zeroed(span);
            }
            read = while_blocked(|| self.file.read_at(&mut buffer[..span], offset)).unwrap_or(0);
        }
        for (page, mut body) in frames {
            let at = (page.get() - first) as usize * self.page_bytes;
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
        loaded
    }
}
