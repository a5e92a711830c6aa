//! The calls of `Database::transact` that a thread is inside of: what is refused there, and how
//! long they may still wait.
//!
//! Each thread keeps its own list; other threads do not see it. Invariants:
//!
//! 1. A database has at most one call in a thread's list that runs a body: a second one would be
//!    nested in it.
//! 2. All waits of the thread for other transactions of that database, while the call lasts, take
//!    from the call's one allowance.

use crate::error::{Error, Result};
use crate::ids::TxnId;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::Duration;

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// A wait that has ended and that its engine has not asked about.
    static LAST_WAIT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Identity of an open database: an address that no two have at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseKey(usize);

impl DatabaseKey {
    /// The database whose part `of` is, the same part each time.
    pub(crate) fn of<T>(of: &T) -> Self {
        DatabaseKey(std::ptr::from_ref(of).addr())
    }
}

#[derive(Debug)]
struct Call {
    database: DatabaseKey,
    /// The transaction that its body is running in.
    txn: TxnId,
    /// Time that it may still wait for other transactions.
    left: Duration,
}

/// A call that is under way on this thread, until dropped.
#[derive(Debug)]
pub(crate) struct Body {
    database: DatabaseKey,
    /// It belongs to the thread's list.
    _not_send: PhantomData<*const ()>,
}

impl Body {
    /// Begins a call that may wait for `lock_wait` in all.
    ///
    /// # Errors
    /// `Error::Nested` if this thread is inside another one for the same database.
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

    /// The body is run in transaction `txn`.
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

/// The longest wait that the calling thread may begin now; `lock_wait` where no call limits it.
pub(crate) fn patience(database: DatabaseKey, lock_wait: Duration) -> Duration {
    let left = with_calls(|calls| calls.iter().find(|call| call.database == database).map(|call| call.left));
    left.flatten().unwrap_or(lock_wait)
}

/// Takes note that the calling thread has waited for `waited`.
pub(crate) fn has_waited(database: DatabaseKey, waited: Duration) {
    LAST_WAIT.set(Some(waited));
    with_calls(|calls| {
        if let Some(call) = calls.iter_mut().find(|call| call.database == database) {
            call.left = call.left.saturating_sub(waited);
        }
    });
}

/// The time of the last wait of the calling thread, given once: for the engine in which it has
/// waited.
#[inline]
pub(crate) fn take_last_wait() -> Option<Duration> {
    LAST_WAIT.get().inspect(|_| LAST_WAIT.set(None))
}

/// `None` while the thread's locals are being destroyed: a call from there is not kept track of.
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
        // In whatever order they end.
        drop(body);
        drop(Body::begin(DatabaseKey(1), SECOND).expect("it has ended"));
        drop(other);
    }
}
