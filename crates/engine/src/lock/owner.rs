//! The thread that each open transaction is on, for a waiter that may be waiting for its own
//! thread.
//!
//! A thread that waits for a lock of a transaction which only it can end waits in vain. Nothing
//! says which thread will end a transaction; which one has used it last is known. So a waiter first
//! waits a while (`Locks::sleep`), and then looks whether what it waits for was last used by its
//! own thread.
//!
//! Any thread. The transaction's own thread writes its [`Owner`], waiters read it, relaxed: what
//! they learn decides which error ends a wait, nothing else. The list is behind a mutex that is
//! taken when a list of locks is made, which is then used again and again, and by a waiter that has
//! waited long. Rank: leaf, taken with nothing held.

use crate::coarse_clock;
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::shard::thread_number;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The transaction that uses a list of locks, and the thread that used it last.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// Zero: none, or its end is up to the database.
    txn: AtomicU64,
    thread: AtomicUsize,
    /// Time at which the transaction began, by the coarse clock. A transaction that began meanwhile
    /// may be given its predecessor's.
    begun: AtomicU64,
}

impl Owner {
    /// A transaction begins on the calling thread.
    pub(super) fn begin(&self, txn: TxnId) {
        self.thread.store(thread_number(), Relaxed);
        self.begun.store(coarse_clock::now(), Relaxed);
        self.txn.store(txn.get(), Relaxed);
    }

    /// The transaction is used by the calling thread.
    pub(super) fn used(&self) {
        let me = thread_number();
        if self.thread.load(Relaxed) != me {
            self.thread.store(me, Relaxed);
        }
    }

    /// No thread has to end it any more.
    pub(super) fn end(&self) {
        self.txn.store(TxnId::NONE.get(), Relaxed);
    }
}

/// Owners of all lists of locks in use.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<Vec<Arc<CachePadded<Owner>>>>);

impl Owners {
    /// Another one.
    pub(super) fn enlist(&self) -> Arc<CachePadded<Owner>> {
        let owner = Arc::<CachePadded<Owner>>::default();
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            // Those that only this list knows.
            all.retain(|owner| Arc::strong_count(owner) > 1);
        }
        all.push(owner.clone());
        owner
    }

    /// Time since `txn` began, if it has not ended.
    pub(super) fn age_of(&self, txn: TxnId) -> Option<Duration> {
        let all = self.0.lock();
        let owner = all.iter().find(|owner| owner.txn.load(Relaxed) == txn.get())?;
        Some(coarse_clock::since(owner.begun.load(Relaxed)))
    }

    /// Transactions that the calling thread has used last, but for `waiter`.
    pub(super) fn of_this_thread(&self, waiter: TxnId) -> Vec<TxnId> {
        let me = thread_number();
        let all = self.0.lock();
        let mine = all.iter().filter(|owner| owner.thread.load(Relaxed) == me);
        let mine = mine.map(|owner| TxnId::new(owner.txn.load(Relaxed)));
        mine.filter(|txn| *txn != TxnId::NONE && *txn != waiter).collect()
    }
}
