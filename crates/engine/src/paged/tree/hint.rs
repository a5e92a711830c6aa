//! The leaf in which a thread last changed a table. A change first tries this leaf, and descends
//! from the root only if the leaf is not the right one.
//!
//! A table has one hint for each shard of threads. A hint is used only after two descents in a row
//! led to its leaf, so that changes all over the table seldom try a hint in vain.
//!
//! Why a stale hint does no harm: the page is taken only if, with its latch held exclusively, it is
//! a leaf of this table whose fences are around the key. Such a page is the leaf of the key: the
//! fences of a table's leaves do not overlap, a leaf that is merged away is formatted as a free
//! page under its latch, and table ids are never reused. A bulk load frees the leaves of the
//! table's former tree and does not format them, so it makes the table forget its hints. A page
//! that is not in memory, or whose latch is held, is left to the descent.
//!
//! A crash loses the hints.

use super::descend::expect_node;
use super::handle::Tree;
use crate::paged::page::PageId;
use crate::paged::pool::{PageWrite, Pool};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bit that is set when two descents in a row led to the page.
const CONFIRMED: u64 = 1;

/// A page number, shifted left by one bit, and [`CONFIRMED`]; zero is no hint. Relaxed: see the
/// head of this file.
#[derive(Debug, Default)]
pub(crate) struct LeafHint(AtomicU64);

/// The hints of one table.
pub(crate) struct LeafHints(Box<[CachePadded<LeafHint>]>);

impl LeafHints {
    pub(crate) fn new() -> Self {
        LeafHints((0..SHARDS).map(|_| CachePadded::default()).collect())
    }

    /// Returns the calling thread's hint.
    #[inline]
    pub(crate) fn mine(&self) -> &LeafHint {
        &self.0[shard_of_thread()]
    }

    /// Forgets all hints. The caller has the table's exclusive lock, so no thread changes the table
    /// meanwhile.
    pub(crate) fn forget(&self) {
        for hint in &self.0 {
            hint.0.store(0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for LeafHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafHints")
    }
}

impl LeafHint {
    /// Remembers the leaf to which a descent led.
    #[inline]
    fn note(&self, leaf: PageId) {
        let before = self.0.load(Ordering::Relaxed);
        let page = leaf.get() << 1;
        let now = if before & !CONFIRMED == page { page | CONFIRMED } else { page };
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    #[inline]
    fn get(&self) -> Option<PageId> {
        let hint = self.0.load(Ordering::Relaxed);
        (hint & CONFIRMED != 0).then(|| PageId::new(hint >> 1))
    }
}

impl Tree {
    /// Returns the leaf of `key`, latched exclusively. The hint's page is taken if it is that leaf;
    /// otherwise the thread descends from the root.
    #[inline]
    pub(super) fn leaf_by_hint(
        &self,
        pool: &Pool,
        hint: Option<&LeafHint>,
        key: &[u8],
    ) -> crate::Result<PageWrite> {
        let Some(hint) = hint else { return self.leaf_for_write(pool, key) };
        if let Some(page) = hint.get().and_then(|page| pool.try_write(page))
            && expect_node(&page, self.table, 0).is_ok()
            && page.leaf()?.covers(key)
        {
            return Ok(page);
        }
        let page = self.leaf_for_write(pool, key)?;
        hint.note(page.id());
        Ok(page)
    }
}
