//! A hint: the leaf in which a thread last changed a table.
//!
//! A table has one hint for each shard of threads. A hint is used only after two changes in a row
//! have gone to its leaf. So changes all over the table seldom try a hint in vain. A stale hint
//! does no harm: see `shortcuts`, which keeps the hints.

use crate::paged::page::PageId;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bit that is set when the page was noted twice in a row.
const CONFIRMED: u64 = 1;

/// A page number, shifted left by one bit, and [`CONFIRMED`]; zero is no hint. Relaxed, because a
/// stale hint does no harm.
#[derive(Debug, Default)]
pub(super) struct LeafHint(AtomicU64);

impl LeafHint {
    /// Notes the leaf that a thread is about to change, and did not find by the hint.
    #[inline]
    pub(super) fn note(&self, leaf: PageId) {
        let before = self.0.load(Ordering::Relaxed);
        let page = leaf.get() << 1;
        let now = if before & !CONFIRMED == page { page | CONFIRMED } else { page };
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// Returns the leaf, if it was noted twice in a row.
    #[inline]
    pub(super) fn get(&self) -> Option<PageId> {
        let hint = self.0.load(Ordering::Relaxed);
        (hint & CONFIRMED != 0).then(|| PageId::new(hint >> 1))
    }

    /// Forgets the leaf. No thread changes the table meanwhile.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
