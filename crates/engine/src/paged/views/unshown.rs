//! Commits that wait for the log before a view may see them, and whose threads do not wait with
//! them.
//!
//! With `LockRelease::AfterDurable` a transaction that commits with a callback or a future is ended
//! by the thread of `durability_waiter`, one after another. The program may see the commit
//! acknowledged before that thread ends the transaction. So a thread that opens a view first shows
//! to the view all commits that are acknowledged or may be, and does not wait for the other thread.
//!
//! Threads: the committing one adds; that of `durability_waiter` takes; each that opens a view
//! shows. `waiting` comes before the latch of a transaction's images. Invariants:
//!
//! 1. A transaction is added before its callback is queued or its future is made, and holds all its
//!    locks until it is taken.
//! 2. It is shown to views once, under `waiting`, and its images are its own until it is taken.
//!
//! A crash ends all of it.

use super::TxnImages;
use crate::latch::Mutex;
use crate::paged::committed::Committed;
use crate::{Durability, Lsn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Unshown {
    /// Number of those that wait. Stored (Release) under `waiting`; loaded (Acquire) by a thread
    /// that opens a view. That thread has learnt of an acknowledgement after the store, or need not
    /// see the transaction.
    count: AtomicUsize,
    /// By the ends of the commit records.
    waiting: Mutex<BTreeMap<Lsn, (Durability, Arc<TxnImages>)>>,
}

impl Unshown {
    /// A commit is about to wait for the log.
    pub(crate) fn add(&self, committed: &Committed, images: Arc<TxnImages>) {
        let mut waiting = self.waiting.lock();
        waiting.insert(committed.end, (committed.durability, images));
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// The commit that ends at `end` waits no more. Runs `show` with its images if it was not
    /// shown.
    pub(crate) fn take(&self, end: Lsn, show: impl FnOnce(&TxnImages)) {
        let mut waiting = self.waiting.lock();
        if let Some((_, images)) = waiting.remove(&end) {
            self.count.store(waiting.len(), Ordering::Release);
            show(&images);
        }
    }

    /// Runs `show` for those that have come as far as they asked, as `is_settled` tells.
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
