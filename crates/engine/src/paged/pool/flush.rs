//! Writing the pool's pages back. Only [`Pool::flush_some`] writes pages of the pool to the
//! database file, so only this function enforces the write-ahead rule. Other code writes the
//! database file too: `double_write` puts torn pages back when the database is opened,
//! `first_pages` writes the first pages of a new file, and `space` writes empty maps for the pages
//! by which the file grows. None of these pages contains a change whose record is not durable.
//!
//! The flusher mutex lets one thread at a time write a batch, in three steps:
//!
//! - (1) copy each page under its shared latch, leaving out pages whose latch is held exclusively,
//!   and mark the copied pages as being written back;
//! - (2) make the log durable up to the end of the last record that changed any of these pages;
//! - (3) write the copies by way of the double-write area, and unmark the pages.
//!
//! A page that is changed again between (1) and (3) is dirty again, with a recovery LSN of its own.
//!
//! After a failure the batch's pages stay marked: they are dirty for checkpoints and are never
//! evicted. The device's gate has shut by then, and the caller gets the error.

use super::Pool;
use crate::Lsn;
use crate::error::Result;
use crate::latch::read_arc;
use crate::paged::double_write::{Batch, DoubleWrite};
use crate::paged::page::PageId;
use katydid_kernels::page_meta::PageMeta;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(super) struct Flusher {
    double_write: DoubleWrite,
    batch: Batch,
}

impl Flusher {
    pub(super) fn new(double_write: DoubleWrite, page_bytes: usize, capacity: usize) -> Self {
        Flusher { double_write, batch: Batch::new(page_bytes, capacity) }
    }
}

impl Pool {
    /// Returns the dirty pages whose recovery LSN is below `older_than`, in the order of their
    /// numbers. Walks over all frames once.
    pub(crate) fn dirty_before(&self, older_than: Lsn) -> Vec<PageId> {
        let mut dirty = Vec::new();
        for shard in &self.shards {
            shard.each(|meta| {
                if meta.recovery_lsn().is_some_and(|rec_lsn| rec_lsn < older_than) {
                    dirty.push(PageId::new(meta.page()));
                }
            });
        }
        dirty.sort_unstable();
        dirty
    }

    /// Writes back the dirty pages whose recovery LSN is below `older_than`, except those whose
    /// latch is held exclusively. Returns the number of pages written.
    pub(crate) fn flush_older(&self, older_than: Lsn) -> Result<usize> {
        self.flush_pages(self.dirty_before(older_than))
    }

    /// Writes back every page that is dirty now. Returns the number of pages written. Waits for
    /// page latches, so the caller must hold none.
    ///
    /// With the `chunked` inserter a page may be written more than once. A change that another
    /// thread makes meanwhile may go to a chunk that was opened before the call. The page's new
    /// recovery LSN is then not above `reserved`. Each session has at most one such chunk
    /// (`chunk_bytes`), so the loop ends. While three threads wrote, a checkpoint took two to three
    /// times as long with `chunked` as with `mutex`.
    pub(crate) fn flush_all(&self) -> Result<usize> {
        // Every page dirtied so far has a recovery LSN of at most `reserved`.
        let reserved = self.shared.wal.reserved();
        let older_than = Lsn::new(reserved.get().saturating_add(1));
        let mut written = 0;
        loop {
            let round = self.flush_older(older_than)?;
            written += round;
            let left = self.dirty_before(older_than);
            let Some(page) = left.first().copied() else { return Ok(written) };
            if round == 0
                && let Some(latch) = self.shard(page).with(page, |frame| frame.latch.clone())
            {
                // Waits for the thread that holds the latch.
                drop(read_arc(&latch));
            }
        }
    }

    /// Writes back those of `pages` that are in memory, dirty, and not latched exclusively. Returns
    /// the number of pages written.
    pub(crate) fn flush_pages(&self, mut pages: Vec<PageId>) -> Result<usize> {
        pages.sort_unstable();
        pages.dedup();
        let mut written = 0;
        let mut rest = pages.into_iter().peekable();
        while rest.peek().is_some() {
            written += self.flush_some(&mut rest)?;
        }
        Ok(written)
    }

    /// Writes one batch from `pages`, which are sorted.
    fn flush_some(&self, pages: &mut impl Iterator<Item = PageId>) -> Result<usize> {
        let mut flusher = self.flusher.lock();
        let Flusher { double_write, batch } = &mut *flusher;
        batch.clear();
        let mut marked: Vec<Arc<PageMeta>> = Vec::new();
        let mut log_end = Lsn::ZERO;
        while !batch.is_full() {
            let Some(page) = pages.next() else { break };
            let latched = self.shard(page).with(page, |frame| {
                frame.meta.recovery_lsn()?;
                frame.latch.try_read_arc()
            });
            let Some(body) = latched.flatten() else { continue };
            if !body.loaded || body.meta.recovery_lsn().is_none() {
                body.check_whole()?;
                continue;
            }
            batch.push(&body.bytes);
            log_end = log_end.max(body.change_end);
            body.begin_flush();
            marked.push(body.meta.clone());
        }
        if batch.is_empty() {
            return Ok(0);
        }
        // This call enforces the write-ahead rule.
        self.shared.wal.make_durable(log_end)?;
        batch.needs_log(log_end);
        double_write.write(batch, self.file.as_ref())?;
        for meta in &marked {
            meta.finish_flush();
        }
        self.counters.written.fetch_add(marked.len() as u64, Ordering::Relaxed);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        // Eviction will skip the pages that threads have used in the meantime.
        let mut ready = self.ready.lock();
        let room = self.capacity.saturating_sub(ready.len());
        ready.extend(marked.iter().take(room).map(|meta| PageId::new(meta.page())));
        Ok(marked.len())
    }
}
