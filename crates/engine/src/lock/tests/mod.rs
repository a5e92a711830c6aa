//! Tests of the lock manager through its interface, with real threads. A test waits for a state by
//! polling the number of waiting transactions, never by sleeping.

mod deadlocks;
mod own;
mod points;
mod ranges;
mod stress;

use super::*;
use std::ops::Bound;
use std::thread;

/// Lock wait that is longer than any test takes: a lost wake-up or an unseen deadlock shows as a
/// timeout instead of a hang.
const LONG: Duration = Duration::from_secs(60);

/// One table and its locks.
struct Rig {
    locks: Locks,
    space: Arc<LockSpace>,
}

impl Rig {
    fn new(lock_wait: Duration) -> Self {
        // The seed is fixed, because keys that share a bucket have greater dependencies than the
        // tests expect.
        let locks = Locks::seeded(lock_wait, 1);
        let space = locks.space(TableId::new(7));
        Rig { locks, space }
    }

    fn txn(&self, id: u64) -> TxnLocks {
        TxnLocks::new(TxnId::new(id))
    }

    fn point(&self, txn: &mut TxnLocks, key: &str, mode: PointMode) -> Result<Lsn, Conflict> {
        self.locks.acquire_point(txn, &self.space, key.as_bytes(), mode).map(|grant| grant.depends_on)
    }

    fn range(&self, txn: &mut TxnLocks, low: Bound<&str>, high: Bound<&str>) -> Result<LockGrant, Conflict> {
        self.locks.acquire_range(txn, &self.space, low.map(str::as_bytes), high.map(str::as_bytes))
    }

    fn end(&self, txn: &mut TxnLocks) {
        self.locks.release_all(txn, None);
    }

    /// Returns when `transactions` transactions wait.
    fn until_waiting(&self, transactions: usize) {
        while self.locks.stat().waiting != transactions {
            thread::yield_now();
        }
    }

    /// Returns whether a request has to wait. A new thread makes the request, for a transaction
    /// that ends as soon as it is granted. `unblock` has to remove whatever blocks the request.
    fn waits(&self, id: u64, key: &str, mode: PointMode, unblock: impl FnOnce()) -> bool {
        let before = self.locks.stat();
        thread::scope(|scope| {
            let request = scope.spawn(|| {
                let mut txn = self.txn(id);
                self.point(&mut txn, key, mode).unwrap();
                self.end(&mut txn);
            });
            while self.locks.stat().waiting == before.waiting && !request.is_finished() {
                thread::yield_now();
            }
            unblock();
        });
        self.locks.stat().waits != before.waits
    }

    /// Asserts that no lock and no waiter is left.
    fn assert_vacant(&self) {
        assert_eq!(self.locks.stat().waiting, 0);
        assert!(self.space.is_vacant() && self.locks.tables.is_vacant(), "{:?}", self.space);
    }
}
