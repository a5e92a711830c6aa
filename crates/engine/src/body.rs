//! The calls of `Database::transact` and the bulk loads that are under way on a thread: here
//! *calls*. A call refuses nested calls, and limits how long its thread waits for other
//! transactions.
//!
//! Each thread keeps its own list; other threads do not see it. Invariants:
//!
//! 1. A thread's list has at most one call for each database, because a second call would be nested
//!    in the first.
//! 2. While a call lasts, all waits of its thread for other transactions of its database share one
//!    time limit.

use crate::error::{Error, Result};
use crate::ids::TxnId;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::Duration;

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// Duration of the thread's last wait that has ended; `None` once the engine has taken it.
    static LAST_WAIT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Identity of an open database: an address that no two open databases have at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseKey(usize);

impl DatabaseKey {
    /// The key of the database that owns `of`. All calls for one database must pass the same
    /// object.
    pub(crate) fn of<T>(of: &T) -> Self {
        DatabaseKey(std::ptr::from_ref(of).addr())
    }
}

#[derive(Debug)]
struct Call {
    database: DatabaseKey,
    /// The transaction in which the body runs.
    txn: TxnId,
    /// Time for which the call may still wait for other transactions.
    left: Duration,
}

/// A call that is under way on this thread, until dropped.
#[derive(Debug)]
pub(crate) struct Body {
    database: DatabaseKey,
    /// A call is in the list of its thread, so the call must not move to another thread.
    _not_send: PhantomData<*const ()>,
}

impl Body {
    /// Begins a call that may wait for `lock_wait` in all.
    ///
    /// # Errors
    /// `Error::Nested` if this thread is inside another call for `database`.
    pub(crate) fn begin(database: DatabaseKey, lock_wait: Duration) -> Result<Body> {
        let begun = with_calls(|calls| {
            if let Some(outer) = calls.iter().find(|call| call.database == database) {
                return Err(Error::Nested { outer: outer.txn });
            }
            calls.push(Call { database, txn: TxnId::NONE, left: lock_wait });
            Ok(())
        });
        begun.unwrap_or(Ok(())).map(|()| Body { database, _not_send: PhantomData })
    }

    /// Notes that the body runs in transaction `txn`.
    pub(crate) fn runs_in(&self, txn: TxnId) {
        with_calls(|calls| {
            if let Some(call) = calls.iter_mut().find(|call| call.database == self.database) {
                call.txn = txn;
            }
        });
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        with_calls(|calls| calls.retain(|call| call.database != self.database));
    }
}

/// Fails if the calling thread is inside a call for `database`.
pub(crate) fn check_not_inside(database: DatabaseKey) -> Result<()> {
    let outer = with_calls(|calls| calls.iter().find(|call| call.database == database).map(|call| call.txn));
    outer.flatten().map_or(Ok(()), |outer| Err(Error::Nested { outer }))
}

/// The longest wait that the calling thread may begin now; `lock_wait` if the thread is in no call
/// for `database`.
pub(crate) fn patience(database: DatabaseKey, lock_wait: Duration) -> Duration {
    let left = with_calls(|calls| calls.iter().find(|call| call.database == database).map(|call| call.left));
    left.flatten().unwrap_or(lock_wait)
}

/// Notes that the calling thread has waited for `waited`, and takes this time from the call's
/// allowance.
pub(crate) fn has_waited(database: DatabaseKey, waited: Duration) {
    LAST_WAIT.set(Some(waited));
    with_calls(|calls| {
        if let Some(call) = calls.iter_mut().find(|call| call.database == database) {
            call.left = call.left.saturating_sub(waited);
        }
    });
}

/// Takes the duration of the calling thread's last wait. A duration is returned once, to the engine
/// in which the thread has waited.
#[inline]
pub(crate) fn take_last_wait() -> Option<Duration> {
    LAST_WAIT.get().inspect(|_| LAST_WAIT.set(None))
}

/// Runs `work` on the thread's list of calls. `None` while the thread's locals are being destroyed:
/// calls made by their destructors are not tracked.
fn with_calls<T>(work: impl FnOnce(&mut Vec<Call>) -> T) -> Option<T> {
    CALLS.try_with(|calls| work(&mut calls.borrow_mut())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn all_waits_of_a_call_share_one_allowance() {
        let (one, other) = (DatabaseKey(1), DatabaseKey(2));
        let body = Body::begin(one, 3 * SECOND).expect("the first");
        has_waited(one, SECOND);
        has_waited(other, SECOND);
        assert_eq!(patience(one, 9 * SECOND), 2 * SECOND);
        assert_eq!(patience(other, 9 * SECOND), 9 * SECOND);
        has_waited(one, 5 * SECOND);
        assert_eq!(patience(one, 9 * SECOND), Duration::ZERO);
        drop(body);
        assert_eq!(patience(one, 9 * SECOND), 9 * SECOND);
    }

    #[test]
    fn a_second_call_for_the_same_database_names_the_first() {
        let body = Body::begin(DatabaseKey(1), SECOND).expect("the first");
        body.runs_in(TxnId::new(7));
        let nested = Body::begin(DatabaseKey(1), SECOND).expect_err("it is nested");
        assert!(matches!(nested, Error::Nested { outer } if outer == TxnId::new(7)), "{nested}");
        let other = Body::begin(DatabaseKey(2), SECOND).expect("another database");
        // Calls may end in any order.
        drop(body);
        drop(Body::begin(DatabaseKey(1), SECOND).expect("it has ended"));
        drop(other);
    }
}
