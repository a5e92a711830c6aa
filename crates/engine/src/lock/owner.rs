//! The thread that used each open transaction last, for a waiter that may be waiting for its own
//! thread.
//!
//! A thread waits in vain for a lock if only this thread can end the transaction that holds the
//! lock. The lock manager does not know which thread will end a transaction, only which thread has
//! used it last. So a waiter first waits for a while (`Locks::sleep`), and then checks whether its
//! own thread was the last to use a transaction for which it waits. A transaction that locks a
//! table exclusively checks at once.
//!
//! Any thread runs this code. The transaction's thread writes its [`Owner`] and waiters read it.
//! Both accesses are relaxed, because the value only decides when a wait is given up and which
//! error the waiter gets. A mutex guards the list of all owners. A thread takes the mutex when it
//! makes a list of locks, which many transactions then use one after another; a waiter takes the
//! mutex for this check, and when it reports a conflict. The mutex is taken with no latch held, and
//! no latch is taken under it.

use crate::coarse_clock;
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::shard::thread_number;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The transaction that uses a list of locks, and the thread that used this transaction last.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The id of the transaction. Zero if the list has no transaction, or if the database will end
    /// the transaction.
    txn: AtomicU64,
    thread: AtomicUsize,
    /// Time at which the transaction began, by the coarse clock. A reader that runs during `begin`
    /// may combine the id of one transaction with the time of another.
    begun: AtomicU64,
}

impl Owner {
    /// Notes that transaction `txn` begins on the calling thread.
    pub(super) fn begin(&self, txn: TxnId) {
        self.thread.store(thread_number(), Relaxed);
        self.begun.store(coarse_clock::now(), Relaxed);
        self.txn.store(txn.get(), Relaxed);
    }

    /// Notes that the calling thread uses the transaction.
    pub(super) fn used(&self) {
        let me = thread_number();
        if self.thread.load(Relaxed) != me {
            self.thread.store(me, Relaxed);
        }
    }

    /// Notes that no thread of the program has to end the transaction any more.
    pub(super) fn end(&self) {
        self.txn.store(TxnId::NONE.get(), Relaxed);
    }
}

/// Owners of all lists of locks in use.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<Vec<Arc<CachePadded<Owner>>>>);

impl Owners {
    /// Makes an owner and adds it to the list.
    pub(super) fn enlist(&self) -> Arc<CachePadded<Owner>> {
        let owner = Arc::<CachePadded<Owner>>::default();
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            // Removes the owners that no list of locks uses any more.
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

    /// The transactions other than `waiter` that the calling thread was the last to use.
    pub(super) fn of_this_thread(&self, waiter: TxnId) -> Vec<TxnId> {
        let me = thread_number();
        let all = self.0.lock();
        let mine = all.iter().filter(|owner| owner.thread.load(Relaxed) == me);
        let mine = mine.map(|owner| TxnId::new(owner.txn.load(Relaxed)));
        mine.filter(|txn| *txn != TxnId::NONE && *txn != waiter).collect()
    }
}
