//! Rollbacks, and clean-ups after commits, that a device error interrupted. The engine tries them
//! again until they succeed.
//!
//! A rollback reads pages and appends to the log, and so does the freeing of long values after a
//! commit. Both can meet an error that does not shut the gate: a page that cannot be read at the
//! moment, or a lack of space. A transaction that meets such an error is set aside here. The engine
//! tries again to end it on the checkpoint thread and in `close`. Threads that acquire a lock, use
//! the catalog or need space in a full log try it, too.
//!
//! The transaction's own thread sets it aside. The threads named above try to end it, one at a
//! time. Invariants:
//!
//! 1. A transaction that is set aside keeps its slot, so a checkpoint captures it, and the log
//!    retains all records that its end needs. A transaction that is to be rolled back also keeps
//!    its locks, so no other transaction sees its changes.
//! 2. One thread at a time works on the transactions that are set aside. This thread holds `list`
//!    meanwhile (rank: after `ddl`, before `CheckpointSchedule::turn` and page latches), so a
//!    thread that finds the list empty knows that all of them have ended.
//! 3. A transaction leaves the list when it has ended, or when the gate has shut; in the second
//!    case its locks go to `Engine::leaked_locks`.
//!
//! After a crash, recovery ends the transactions that were set aside like all others that had not
//! ended.

use crate::body;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::lock::{Conflict, LockGrant, TxnLocks};
use crate::paged::engine::Engine;
use crate::paged::writer::Writer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Maximum number of lock requests that pass between two tries.
const CALLS_MAX: u32 = 1024;

/// Answer of the lock manager.
type Granted = std::result::Result<LockGrant, Conflict>;

/// Work that is left to end a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Undo the transaction.
    Rollback,
    /// Undo a transaction that has changed the catalog, which no transaction lock covers.
    CatalogRollback,
    /// Make the deferred frees of a committed transaction.
    CleanUp,
}

/// A transaction that is set aside.
#[derive(Debug)]
pub(crate) struct Unended {
    pub(crate) writer: Box<Writer>,
    pub(crate) locks: Option<TxnLocks>,
    pub(crate) ending: Ending,
    /// Error of the last try.
    pub(crate) cause: Error,
}

impl Unended {
    fn error(&self) -> Error {
        Error::Unended { txn: self.writer.txn, cause: Arc::new(self.cause.clone()) }
    }
}

/// All transactions that are set aside.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Number of entries of `list`. Written with `list` held; every lock request reads it. Relaxed,
    /// because it is a hint.
    count: AtomicUsize,
    /// Number of lock requests that pass before the next one tries to end transactions. `failures`
    /// counts the tries in a row that were in vain: while the device stays bad, lock requests try
    /// less and less often. `pass` and `failures` are relaxed hints.
    pass: AtomicU32,
    failures: AtomicU32,
    list: Mutex<Vec<Unended>>,
}

impl Unfinished {
    /// Returns whether any transaction is set aside. Costs one load.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Returns the error of a call that one of `holders` blocks, if that transaction is set aside.
    pub(crate) fn error_of(&self, holders: &[TxnId]) -> Option<Error> {
        if !self.is_any() {
            return None;
        }
        let list = self.list.lock();
        list.iter().find(|unended| holders.contains(&unended.writer.txn)).map(Unended::error)
    }

    /// The error of a call that needs the catalog, if a transaction that changed it is set aside.
    fn error_of_catalog(&self) -> Option<Error> {
        let list = self.list.lock();
        list.iter().find(|unended| unended.ending == Ending::CatalogRollback).map(Unended::error)
    }
}

impl Engine {
    /// Sets aside a transaction whose rollback or clean-up has failed. After the gate has shut, the
    /// transaction is left to recovery instead.
    pub(crate) fn set_aside(&self, unended: Unended) {
        self.hear_of_log();
        if self.gate.is_shut() || self.check_open().is_err() {
            unended.locks.into_iter().for_each(|locks| self.keep_locks(locks));
            return;
        }
        {
            let mut list = self.unfinished.list.lock();
            list.push(unended);
            self.unfinished.count.store(list.len(), Ordering::Relaxed);
            self.unfinished.pass.store(0, Ordering::Relaxed);
            self.unfinished.failures.store(0, Ordering::Relaxed);
        }
        self.schedule.worker.notify();
    }

    /// Releases locks that the caller took over from `txn`, if `txn` has rolled back. If its
    /// rollback failed and `txn` is set aside, returns the locks to it.
    pub(crate) fn release_or_return(&self, txn: TxnId, locks: TxnLocks) {
        let mut list = self.unfinished.list.lock();
        match list.iter_mut().find(|unended| unended.writer.txn == txn) {
            Some(unended) => unended.locks = Some(locks),
            None => self.release_locks(locks, None),
        }
    }

    /// Tries to end the transactions that are set aside, unless lock requests have tried in vain
    /// lately. The caller holds no latch.
    #[cold]
    fn help_unended(&self) {
        let Unfinished { pass, failures, .. } = &self.unfinished;
        if pass.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        if !self.end_unended() {
            let failures = failures.fetch_add(1, Ordering::Relaxed);
            pass.store(1 << failures.min(CALLS_MAX.ilog2()), Ordering::Relaxed);
        }
    }

    /// Tries now to end the transactions that are set aside. Returns whether none is left. The
    /// caller holds no latch.
    pub(crate) fn end_unended(&self) -> bool {
        if !self.unfinished.is_any() {
            return true;
        }
        let mut list = self.unfinished.list.lock();
        self.hear_of_log();
        for mut unended in std::mem::take(&mut *list) {
            match self.try_to_end(&mut unended) {
                Ok(()) => self.give_back(unended),
                Err(_) if self.gate.is_shut() => {
                    unended.locks.into_iter().for_each(|locks| self.keep_locks(locks));
                }
                Err(cause) => list.push(Unended { cause, ..unended }),
            }
        }
        self.unfinished.count.store(list.len(), Ordering::Relaxed);
        list.is_empty()
    }

    fn try_to_end(&self, unended: &mut Unended) -> Result<()> {
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        match unended.ending {
            Ending::Rollback | Ending::CatalogRollback => self.roll_back_all(&mut unended.writer),
            Ending::CleanUp => self.finish_commit(&mut unended.writer),
        }
    }

    fn give_back(&self, unended: Unended) {
        if unended.ending != Ending::CleanUp {
            self.metrics.count_rollback();
        }
        self.give_writer(unended.writer);
        if let Some(locks) = unended.locks {
            self.release_locks(locks, None);
        }
    }

    /// Acquires a lock. If a transaction that is set aside held the lock until the wait timed out,
    /// and can be ended now, tries once more.
    #[inline]
    pub(crate) fn granted(&self, mut acquire: impl FnMut() -> Granted) -> Result<LockGrant> {
        if self.unfinished.is_any() {
            self.help_unended();
        }
        let granted = acquire();
        if let Some(time) = body::take_last_wait() {
            self.waits.count(time);
        }
        granted.or_else(|conflict| self.granted_after(conflict, acquire))
    }

    #[cold]
    fn granted_after(
        &self,
        mut conflict: Conflict,
        mut acquire: impl FnMut() -> Granted,
    ) -> Result<LockGrant> {
        let is_timeout = conflict.kind == ConflictKind::Timeout;
        if is_timeout && self.unfinished.error_of(&conflict.blockers).is_some() {
            self.end_unended();
            // If the transaction could not be ended, a second wait would be in vain.
            if self.unfinished.error_of(&conflict.blockers).is_none() && !self.gate.is_shut() {
                let again = acquire();
                if let Some(time) = body::take_last_wait() {
                    self.waits.count(time);
                }
                match again {
                    Ok(grant) => return Ok(grant),
                    Err(again) => conflict = again,
                }
            }
        }
        Err(self.conflict(conflict))
    }

    /// Ends the transactions that have changed the catalog and were set aside. The caller holds
    /// `ddl`, and may use the catalog if this succeeds.
    pub(crate) fn settle_catalog(&self) -> Result<()> {
        if self.end_unended() {
            return Ok(());
        }
        self.unfinished.error_of_catalog().map_or(Ok(()), Err)
    }
}
