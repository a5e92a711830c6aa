//! One of the pool's page tables: the frame of each page, and the clock that picks a frame to give
//! up.
//!
//! The shard's latch (rank: after page latches) is held for one operation on the table, such as a
//! lookup or a clock step, never across I/O or a wait.

use super::frame::{Frame, Latch};
use crate::latch::RwLock;
use crate::paged::page::PageId;
use katydid_kernels::page_meta::PageMeta;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Hashes by a folded multiplication, because ids are small and dense, and no attacker picks them.
#[derive(Default, Clone, Copy)]
pub(super) struct PageHasher(u64);

/// The hash of a page id.
#[inline]
pub(super) fn hash(id: u64) -> u64 {
    let product = u128::from(id ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = hash(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        self.0 = hash(id);
    }
}

#[derive(Default, Debug)]
struct Table {
    index: HashMap<u64, usize, BuildHasherDefault<PageHasher>>,
    frames: Vec<Frame>,
    hand: usize,
}

/// Result of a clock step.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The frame that was taken out of the table.
    pub(super) victim: Option<Frame>,
    /// Number of frames examined.
    pub(super) examined: usize,
}

#[derive(Default, Debug)]
pub(super) struct Shard {
    table: RwLock<Table>,
}

impl Shard {
    /// Runs `take` on the frame of a page, under the shard's latch. `take` must not wait.
    #[inline]
    pub(super) fn with<R>(&self, page: PageId, take: impl FnOnce(&Frame) -> R) -> Option<R> {
        let table = self.table.read();
        let index = *table.index.get(&page.get())?;
        Some(take(&table.frames[index]))
    }

    /// Inserts a frame for its page. Returns `frame` if the table already has a frame for the page.
    pub(super) fn insert(&self, page: PageId, frame: Frame) -> Result<(), Frame> {
        let mut table = self.table.write();
        if table.index.contains_key(&page.get()) {
            return Err(frame);
        }
        let index = table.frames.len();
        table.index.insert(page.get(), index);
        table.frames.push(frame);
        Ok(())
    }

    /// Removes the frame with this latch, if it is still in the table.
    pub(super) fn remove(&self, page: PageId, latch: &Latch) -> Option<Frame> {
        let mut table = self.table.write();
        let index = *table.index.get(&page.get())?;
        Arc::ptr_eq(&table.frames[index].latch, latch).then(|| table.take(index))
    }

    /// Removes the frame of a page if it is clean, unpinned and not referenced since the clock
    /// passed it.
    pub(super) fn evict(&self, page: PageId) -> Option<Frame> {
        let mut table = self.table.write();
        let index = *table.index.get(&page.get())?;
        let frame = &mut table.frames[index];
        let free = frame.is_unpinned() && frame.meta.recovery_lsn().is_none() && !frame.is_referenced();
        free.then(|| table.take(index))
    }

    /// Examines up to `steps` frames from the clock's hand on, each at most once. An unpinned frame
    /// that is marked as referenced loses this mark. The first clean, unpinned, unreferenced frame
    /// is taken. Dirty frames that are unpinned and unreferenced are added to `dirty`.
    pub(super) fn sweep(&self, steps: usize, dirty: &mut Vec<PageId>) -> Sweep {
        let mut sweep = Sweep::default();
        let mut table = self.table.write();
        let steps = steps.min(table.frames.len());
        while sweep.examined < steps {
            sweep.examined += 1;
            let index = table.hand % table.frames.len();
            table.hand = index + 1;
            let frame = &mut table.frames[index];
            if !frame.is_unpinned() || frame.clear_referenced() {
                continue;
            }
            if frame.meta.recovery_lsn().is_some() {
                dirty.push(PageId::new(frame.meta.page()));
                continue;
            }
            sweep.victim = Some(table.take(index));
            break;
        }
        sweep
    }

    /// Examines up to `steps` frames after the clock's hand, and adds to `dirty` the dirty pages
    /// that were not referenced since the hand passed them. Leaves the hand and the marks as they
    /// are.
    pub(super) fn collect_cold(&self, steps: usize, dirty: &mut Vec<PageId>) {
        let table = self.table.read();
        let count = table.frames.len();
        for step in 0..steps.min(count) {
            let frame = &table.frames[(table.hand + step) % count];
            if !frame.is_referenced() && frame.meta.recovery_lsn().is_some() {
                dirty.push(PageId::new(frame.meta.page()));
            }
        }
    }

    /// Calls `see` with every frame's `PageMeta`.
    pub(super) fn each(&self, mut see: impl FnMut(&PageMeta)) {
        for frame in &self.table.read().frames {
            see(&frame.meta);
        }
    }
}

impl Table {
    fn take(&mut self, index: usize) -> Frame {
        let frame = self.frames.swap_remove(index);
        self.index.remove(&frame.meta.page());
        if let Some(moved) = self.frames.get(index) {
            self.index.insert(moved.meta.page(), index);
        }
        frame
    }
}
