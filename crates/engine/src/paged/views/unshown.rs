//! Commits that wait for the log before a view may see them, while their threads do not wait.
//!
//! With `LockRelease::AfterDurable` the thread of `durability_waiter` ends the transactions that
//! commit with a callback or a future, one after another. The program may see a commit acknowledged
//! before that thread ends the transaction. So before a thread opens a view, it makes visible to
//! views all commits that are or may be acknowledged. It does not wait for the thread of
//! `durability_waiter`.
//!
//! Threads: the committing thread adds a commit; the thread of `durability_waiter` takes it; each
//! thread that opens a view shows it. The latch `waiting` comes before the latch of a transaction's
//! images. Invariants:
//!
//! 1. A transaction is added before its callback is queued or its future is made. It holds all its
//!    locks until it is taken from the list.
//! 2. A transaction is shown to views at most once, under `waiting`, by the thread that removes it
//!    from the list. The memory of the transaction's images is reused for another transaction only
//!    after the removal.
//!
//! A crash discards the whole list.

use super::TxnImages;
use crate::latch::Mutex;
use crate::paged::committed::Committed;
use crate::{Durability, Lsn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The commits that wait.
#[derive(Debug, Default)]
pub(crate) struct Unshown {
    /// Number of commits that wait. Stored (Release) under `waiting`; loaded (Acquire) by a thread
    /// that opens a view. If that thread knows that a commit was acknowledged, it has learnt so
    /// after the store; otherwise it need not see the transaction.
    count: AtomicUsize,
    /// Commits that wait, by the ends of their records.
    waiting: Mutex<BTreeMap<Lsn, (Durability, Arc<TxnImages>)>>,
}

impl Unshown {
    /// Adds a commit that is about to wait for the log.
    pub(crate) fn add(&self, committed: &Committed, images: Arc<TxnImages>) {
        let mut waiting = self.waiting.lock();
        waiting.insert(committed.end, (committed.durability, images));
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Removes the commit that ends at `end`, which waits no more. Runs `show` with the commit's
    /// images, if views do not see the commit yet.
    pub(crate) fn take(&self, end: Lsn, show: impl FnOnce(&TxnImages)) {
        let mut waiting = self.waiting.lock();
        if let Some((_, images)) = waiting.remove(&end) {
            // A view that finds no commit waiting must see this one.
            show(&images);
            self.count.store(waiting.len(), Ordering::Release);
        }
    }

    /// Runs `show` for the commits for which `is_settled` returns true: those that have reached the
    /// durability that they asked for.
    #[inline]
    pub(crate) fn show_settled(
        &self,
        is_settled: impl Fn(Lsn, Durability) -> bool,
        show: impl Fn(&TxnImages, Lsn),
    ) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.retain(|end, (durability, images)| {
            let settled = is_settled(*end, *durability);
            if settled {
                show(images, *end);
            }
            !settled
        });
        self.count.store(waiting.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that opens a view takes no latch if no commit waits. So a commit must be shown
    /// before it counts as shown.
    #[test]
    fn a_commit_counts_until_it_is_shown() {
        let unshown = Unshown::default();
        let committed = Committed { end: Lsn::new(70), durability: Durability::Durable };
        unshown.add(&committed, Arc::default());
        let waiting = || unshown.count.load(Ordering::Acquire);
        unshown.take(Lsn::new(70), |_| assert_eq!(waiting(), 1));
        assert_eq!(waiting(), 0);
    }
}
