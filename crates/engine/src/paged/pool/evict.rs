//! Making room: a second-chance clock over clean unpinned frames.
//!
//! Order of preference: a spare frame; a new one below the limit; a page that was written back
//! because it was cold; the clock. When the clock meets mostly dirty pages, the cold ones among
//! them are written back in one batch, and those are tried next. When nothing helps, the pool grows
//! over its limit by one frame (rule 6 of the pool); it shrinks when frames can be given up again.

use super::frame::Frame;
use super::{Pool, SHARDS};
use crate::error::Result;
use crate::paged::double_write;
use katydid_device::AlignedBuffer;
use std::sync::atomic::Ordering;

/// Frames looked at per clock step: bounds how long a shard's latch is held.
const STEP: usize = 32;
/// Number of frames that are looked at before cold dirty ones are written back.
const PATIENCE: usize = 512;
/// Rounds of writing back before the pool grows.
const ROUNDS: usize = 3;

/// Urgency of the need for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Write pages back, or grow over the limit.
    Must,
    /// Only if nothing has to be written.
    IfRoom,
}

impl Pool {
    /// Takes a frame that belongs to no page and to no other thread. `None` only with
    /// [`Need::IfRoom`].
    pub(super) fn take_frame(&self, need: Need) -> Result<Option<Frame>> {
        if let Some(frame) = self.spare.lock().pop() {
            return Ok(Some(frame));
        }
        let below = |resident: usize| (resident < self.capacity).then_some(resident + 1);
        if self.resident.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).is_ok() {
            let bytes = self.slab.lock().take();
            return Ok(Some(Frame::new(bytes, &self.shared)));
        }
        for _ in 0..ROUNDS {
            let mut dirty = Vec::new();
            if let Some(frame) = self.find_victim(&mut dirty) {
                self.counters.evicted.fetch_add(1, Ordering::Relaxed);
                self.shrink();
                return Ok(Some(frame));
            }
            if need == Need::IfRoom {
                return Ok(None);
            }
            if dirty.is_empty() {
                break;
            }
            self.counters.forced.fetch_add(1, Ordering::Relaxed);
            let asked = dirty.len();
            match self.flush_pages(dirty) {
                Ok(0) if asked > 0 => continue,
                Ok(_) => {}
                // The gate has latched this failure, and every later write reports it. Reads go on:
                // with one frame more.
                Err(_) => break,
            }
        }
        self.resident.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Frame::new(AlignedBuffer::new_zeroed(self.page_bytes), &self.shared)))
    }

    /// A clean frame, or else, in `dirty`, the cold dirty pages met on the way.
    fn find_victim(&self, dirty: &mut Vec<crate::paged::page::PageId>) -> Option<Frame> {
        loop {
            // Not in the loop's head: the guard would be held while the shard is latched.
            let next = self.ready.lock().pop_front();
            let Some(page) = next else { break };
            if let Some(frame) = self.shard(page).evict(page) {
                return Some(frame);
            }
        }
        let batch = double_write::batch_pages(self.page_bytes);
        let resident = self.resident.load(Ordering::Relaxed);
        let (mut examined, mut visits) = (0, 0);
        // Twice around: once to take marks away, once to find the frame without.
        while examined < 2 * resident + 2 * STEP || visits < 2 * SHARDS {
            let shard = &self.shards[self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS];
            let sweep = shard.sweep(STEP, dirty);
            if sweep.victim.is_some() {
                return sweep.victim;
            }
            examined += sweep.examined;
            visits += 1;
            if dirty.len() >= batch || (examined >= PATIENCE && dirty.len() >= batch / 2) {
                break;
            }
            // Pinned frames only, or an empty pool: `examined` alone would not end this.
            if visits >= 2 * SHARDS + 2 * resident / STEP {
                break;
            }
        }
        None
    }

    /// Gives up frames that the pool has beyond its limit.
    fn shrink(&self) {
        while self.resident.load(Ordering::Relaxed) > self.capacity {
            let Some(frame) = self.find_victim(&mut Vec::new()) else { break };
            drop(frame);
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Writes up to `limit` cold dirty pages back, so that a thread that needs room finds clean
    /// frames. For the page writer: call it while `stat().dirty` is a large part of the pool.
    /// Returns the number of written pages.
    pub(crate) fn flush_cold(&self, limit: usize) -> Result<usize> {
        let mut dirty = Vec::new();
        let mut visits = 0;
        while dirty.len() < limit && visits < 2 * SHARDS {
            let shard = &self.shards[self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS];
            shard.collect_cold(STEP, &mut dirty);
            visits += 1;
        }
        dirty.truncate(limit);
        self.flush_pages(dirty)
    }
}
