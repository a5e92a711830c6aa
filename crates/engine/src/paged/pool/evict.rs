//! Making room: a second-chance clock over clean unpinned frames.
//!
//! Order of preference: a spare frame; a new frame below the limit; the frame of a page that was
//! written back lately; a frame that the clock finds. When the clock meets mostly dirty pages, the
//! cold ones among them are written back in one batch, and their frames are tried next. If no frame
//! is found this way, the pool grows over its limit by one frame (invariant 6 of the pool). The
//! pool shrinks when frames can be given up again.

use super::frame::Frame;
use super::{Pool, SHARDS};
use crate::error::Result;
use crate::paged::double_write;
use katydid_device::AlignedBuffer;
use std::sync::atomic::Ordering;

/// Maximum number of frames examined in a clock step, which bounds how long a shard's latch is
/// held.
const STEP: usize = 32;
/// Number of examined frames from which on half a batch of cold dirty pages is enough to be written
/// back.
const PATIENCE: usize = 512;
/// Number of rounds of writing back before the pool grows.
const ROUNDS: usize = 3;

/// Urgency of the need for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Write pages back, or grow over the limit, to get a frame.
    Must,
    /// Take a frame only if nothing has to be written back.
    IfRoom,
}

impl Pool {
    /// Takes a frame that holds no page and that no other thread has. Returns `None` only with
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
                // The gate has shut for this failure, and every later write reports it. Reads go
                // on, with one more frame.
                Err(_) => break,
            }
        }
        self.resident.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Frame::new(AlignedBuffer::new_zeroed(self.page_bytes), &self.shared)))
    }

    /// Returns a clean frame, or adds the cold dirty pages that it has met to `dirty`.
    fn find_victim(&self, dirty: &mut Vec<crate::paged::page::PageId>) -> Option<Frame> {
        loop {
            // The call is not in the loop's condition, because the guard of `ready` would then be
            // held while the shard is latched.
            let next = self.ready.lock().pop_front();
            let Some(page) = next else { break };
            if let Some(frame) = self.shard(page).evict(page) {
                return Some(frame);
            }
        }
        let batch = double_write::batch_pages(self.page_bytes);
        let resident = self.resident.load(Ordering::Relaxed);
        let (mut examined, mut visits) = (0, 0);
        // The loop goes over the frames about twice: the first pass clears the `referenced` bits,
        // and the second finds a frame whose bit is still clear.
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
            // With pinned frames only, or an empty pool, `examined` alone would not end the loop.
            if visits >= 2 * SHARDS + 2 * resident / STEP {
                break;
            }
        }
        None
    }

    /// Gives up the frames that the pool has beyond its limit.
    fn shrink(&self) {
        while self.resident.load(Ordering::Relaxed) > self.capacity {
            let Some(frame) = self.find_victim(&mut Vec::new()) else { break };
            drop(frame);
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Writes up to `limit` cold dirty pages back, so that a thread that needs room finds clean
    /// frames. The worker that takes checkpoints calls this function while more than half of a full
    /// pool is dirty. Returns the number of pages written.
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
