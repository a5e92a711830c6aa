//! A transaction: reads, writes, and the ways to end it.
//!
//! Used by one thread at a time; it may move between threads. The engine isolates it. This file
//! decides what is refused before the engine is asked: sizes, writes of a transaction that only
//! reads, handles of another opening, and calls after the database was closed.
//!
//! Invariants:
//!
//! 1. No engine is given a table, session or savepoint of another opening.
//! 2. What may change the log or a file enters as a call ([`crate::opening`]): commits, rollbacks,
//!    and, inside the paged engine, writes. A transaction whose call is refused is abandoned: what
//!    it wrote is undone by the next opening.
//! 3. The user's code runs outside of calls: keys and values are asked for before, callbacks run
//!    later, on the thread that polls. No reference to the engine's transaction is held while it
//!    runs.

use crate::CommitStamp;
use crate::Durability;
use crate::commit::CommitFuture;
use crate::engine::{EngineTable, EngineTransaction, Purpose};
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::key_range::KeyRange;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::open::ChosenTransaction;
use crate::opening::{Call, Listed, Opened, OpeningId};
use crate::options::Access;
use crate::range::{Range, UnlockedRange};
use crate::session::Session;
use crate::table::Table;
use crate::ticket::Callback;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::time::Instant;

/// A transaction: its reads and writes happen all or not at all, and as if no other transaction
/// ran. Dropping it rolls it back.
///
/// The calls of a transaction take `&self`, so reads, writes and several ranges can take turns. A
/// transaction may move to another thread between two calls. Two threads cannot use it at once: it
/// is [`Send`] and not [`Sync`].
///
/// A transaction with [`Access::ReadOnly`] is a read view: it reads one state and takes no locks.
/// The remarks on locks below do not apply to it.
///
/// In the memory engine a transaction that may write validates its reads only when it commits.
/// Until then its reads may belong to two states; then its commit fails with `Error::Conflict`. So
/// act on what was read only after the commit, also if the transaction wrote nothing; or read with
/// [`Access::ReadOnly`]; or use [`Database::transact`](crate::Database::transact), which validates
/// the reads also before it returns an error.
pub struct Transaction {
    /// Borrowed for the length of one call, or of one step of a range (invariant 3), so a borrow
    /// never meets another one.
    of: RefCell<ChosenTransaction>,
    opening: OpeningId,
    access: Access,
    /// Its place in the list of open transactions, until it is dropped.
    listed: Listed,
}

/// A point in a transaction to roll back to.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    pub(crate) opening: OpeningId,
    pub(crate) txn: TxnId,
    pub(crate) serial: u64,
}

impl Transaction {
    #[inline]
    #[track_caller]
    pub(crate) fn new(of: ChosenTransaction, opening: OpeningId, access: Access) -> Self {
        let listed = of.opening().observed.begins(of.id(), Location::caller());
        Transaction { of: RefCell::new(of), opening, access, listed }
    }

    /// Begins the call that ends it. Fails if the database is being closed or was; then it is
    /// abandoned.
    fn enter_last(&mut self) -> Result<Call<&mut ChosenTransaction>> {
        Call::try_enter(self.of.get_mut()).map_err(|refused| {
            refused.abandon();
            Error::Closed
        })
    }

    /// Fails if the transaction was begun to read only.
    pub(crate) fn check_access(&self) -> Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Error::ReadOnly),
        }
    }

    /// Its number. `Error::Conflict` names transactions by this number.
    pub fn id(&self) -> TxnId {
        self.of.borrow().id()
    }

    /// Returns the value of `key`.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        table.check(self.opening)?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().get(&table.of, key)
    }

    /// Returns whether `key` has a value. Copies no value, and reads no pages of a long value.
    /// Errors and locks as [`Transaction::get`].
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        table.check(self.opening)?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().contains(&table.of, key)
    }

    /// Returns the value of `key`, and locks the key so that no other transaction can lock it for
    /// update or write it. Fails with `Error::ReadOnly` if this transaction cannot write; it may go
    /// on after that. The memory engine takes no locks: there it is the same as
    /// [`Transaction::get`], and if two transactions write a key that both have read, the commit of
    /// one fails with `Error::Conflict`.
    pub fn get_for_update(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().get_for_update(&table.of, key)
    }

    /// Returns the first entry in `keys` that no other transaction has locked for update or
    /// written, and locks it for update, like SQL's `FOR UPDATE SKIP LOCKED` with a limit of one
    /// row. Returns `None` if there is none. It waits for no other transaction.
    ///
    /// Several consumers of one queue get different entries. Each deletes its own, and a consumer
    /// that rolls back leaves its entry to the others. The keys that were passed over are not
    /// locked: other transactions may add and change entries there, so this call is not
    /// serializable. The memory engine takes no locks: there the call returns the first entry of
    /// the range, and if two transactions take one entry, the commit of one fails with
    /// `Error::Conflict`.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let jobs = database.table("jobs")?;
    /// for job in ["1 mail", "2 print"] {
    ///     database.put(&jobs, job, "")?;
    /// }
    /// let (one, other) = (database.begin()?, database.begin()?);
    /// let (first, _) = one.first_unlocked(&jobs, ..)?.expect("two jobs");
    /// one.delete(&jobs, &first)?;
    /// let (second, _) = other.first_unlocked(&jobs, ..)?.expect("one job");
    /// assert_eq!(second, b"2 print");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ReadOnly` if the transaction cannot write.
    pub fn first_unlocked(&self, table: &Table, keys: impl KeyRange) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range_unlocked(table, keys).next().transpose()
    }

    /// Sets the value of `key`, whether or not it has one.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        let value = check_value(table, key, value.as_ref())?;
        self.of.borrow_mut().put(&table.of, key, value)
    }

    /// Sets the value of `key`, which must have none: otherwise fails with `Error::KeyExists`,
    /// after which the transaction may go on. Before that error the memory engine validates
    /// everything that the transaction has read, and returns `Error::Conflict` if it did not hold
    /// at one time.
    pub fn insert(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        let value = check_value(table, key, value.as_ref())?;
        self.of.borrow_mut().insert(&table.of, key, value)
    }

    /// Removes `key`, and returns whether it was there.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().delete(&table.of, key)
    }

    /// Returns the keys in `keys` and their values, in order, from either end. The keys and gaps
    /// that it has passed are locked: no other transaction can add, change or remove a key there
    /// before this one ends. (A little more than was returned may be locked.) In the memory engine
    /// another transaction can; then the commit of this one fails with `Error::Conflict` if its
    /// place in the order of commits is after that of the other.
    ///
    /// Any [`KeyRange`] will do: `..` for the whole table, `"a".."b"`, a pair of bounds,
    /// [`Prefix`](crate::Prefix).
    pub fn range<'t>(&'t self, table: &Table, keys: impl KeyRange) -> Range<'t> {
        self.walk(table, keys, Purpose::Read)
    }

    /// Reads a range like [`Transaction::range`], and locks each entry for update before it is
    /// returned. So transactions that change the entries of a range wait for each other in line.
    /// With `range` all of them would share the locks, and all but one would be rolled back when
    /// they write. (Without [`Range::limit`], up to 128 entries more than were returned may be
    /// locked.) In the memory engine it is the same as `range`.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let jobs = database.table("jobs")?;
    /// for job in ["1 mail", "2 print", "3 scan"] {
    ///     database.put(&jobs, job, "")?;
    /// }
    /// let taken = database.transact(|txn| {
    ///     let batch: Vec<_> = txn.range_for_update(&jobs, ..).limit(2).collect::<katydid::Result<_>>()?;
    ///     for (job, _) in &batch {
    ///         txn.delete(&jobs, job)?;
    ///     }
    ///     Ok(batch.len())
    /// })?;
    /// assert_eq!(taken, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ReadOnly` if the transaction cannot write.
    pub fn range_for_update<'t>(&'t self, table: &Table, keys: impl KeyRange) -> Range<'t> {
        if let Err(error) = table.check(self.opening).and_then(|()| self.check_access()) {
            return Range::new(&self.of, Err(error));
        }
        self.walk(table, keys, Purpose::Update)
    }

    fn walk<'t>(&'t self, table: &Table, keys: impl KeyRange, purpose: Purpose) -> Range<'t> {
        let (low, high) = keys.into_bounds();
        if let Err(foreign) = table.check(self.opening) {
            return Range::new(&self.of, Err(foreign));
        }
        Range::new(&self.of, Ok(ChosenTransaction::range(&table.of, low, high, purpose)))
    }

    /// Returns the entries in `keys` that no other transaction has locked for update or written, in
    /// order, and locks each for update when it is returned, like SQL's `FOR UPDATE SKIP LOCKED`.
    /// It waits for no other transaction. [`Transaction::first_unlocked`] has the consequences.
    ///
    /// The range looks at each entry once, also at one that another transaction has locked. A
    /// consumer begins its next transaction behind the last entry that it got, and begins from the
    /// start when it finds no more.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let jobs = database.table("jobs")?;
    /// for job in ["1 mail", "2 print", "3 scan", "4 mail"] {
    ///     database.put(&jobs, job, "")?;
    /// }
    /// let (one, other) = (database.begin()?, database.begin()?);
    /// let batch: Vec<_> = one.range_unlocked(&jobs, ..).take(2).collect::<katydid::Result<_>>()?;
    /// # for (job, _) in &batch {
    /// #     one.delete(&jobs, job)?;
    /// # }
    /// assert_eq!(batch[1].0, b"2 print");
    /// assert_eq!(other.range_unlocked(&jobs, ..).count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ReadOnly` if the transaction cannot write.
    pub fn range_unlocked<'t>(&'t self, table: &Table, keys: impl KeyRange) -> UnlockedRange<'t> {
        let (low, high) = keys.into_bounds();
        let allowed = table.check(self.opening).and_then(|()| self.check_access());
        let of = allowed.map(|()| ChosenTransaction::range_unlocked(&table.of, low, high));
        UnlockedRange::new(&self.of, of)
    }

    /// Returns a point in the transaction to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        let (txn, opening) = (self.id(), self.opening);
        Savepoint { opening, txn, serial: self.of.borrow_mut().savepoint() }
    }

    /// Undoes everything written since `savepoint`. The savepoint stays valid, and later ones do
    /// not. Locks are kept.
    ///
    /// # Errors
    /// `Error::Savepoint` if it belongs to another transaction, also if that is one of another
    /// database with the same number.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        if (savepoint.opening, savepoint.txn) != (self.opening, self.id()) {
            return Err(Error::Savepoint);
        }
        Call::enter(self.of.borrow_mut())?.rollback_to(savepoint.serial)
    }

    /// Commits, and returns the stamp of the commit when it is as durable as the transaction asks.
    /// Stamps order the commits of this database that wrote something. The stamp of a transaction
    /// that wrote nothing has no place in that order.
    ///
    /// # Errors
    /// `Error::Poisoned`: the transaction may be committed or not; the next opening of the database
    /// decides. After any other error it is rolled back; in the memory engine `Error::Conflict` is
    /// one of these.
    pub fn commit(mut self) -> Result<CommitStamp> {
        let txn = self.of.get_mut();
        if !txn.has_changes() {
            // It waits in the log at most, whose own end it may wait for.
            txn.opening().check()?;
            return txn.commit();
        }
        let begun = self.commit_begins();
        let mut call = self.enter_last()?;
        let stamp = call.commit()?;
        if let Some(begun) = begun {
            call.opening().observed.committed(begun, Instant::now());
        }
        Ok(stamp)
    }

    /// The time from which its commit is measured: none if it wrote nothing, or waits for nothing.
    /// Two readings of the clock would be a tenth of a buffered commit.
    fn commit_begins(&mut self) -> Option<Instant> {
        let txn = self.of.get_mut();
        (txn.has_changes() && txn.durability() != Durability::Buffered).then(Instant::now)
    }

    /// Commits. The future is ready when the commit is as durable as the transaction asks. Dropping
    /// the future does not change the outcome. Errors as [`Transaction::commit`].
    pub fn commit_async(mut self) -> CommitFuture {
        let begun = self.commit_begins();
        match self.enter_last() {
            Ok(mut txn) => CommitFuture::new(txn.keeps_open(), txn.submit(), begun),
            Err(closed) => CommitFuture::refused(closed),
        }
    }

    /// Commits like [`Transaction::commit_async`], but returns at once an error that occurs before
    /// the transaction has its place in the log.
    pub(crate) fn submit_async(mut self) -> Result<CommitFuture> {
        let begun = self.commit_begins();
        let mut txn = self.enter_last()?;
        let ticket = txn.submit()?;
        Ok(CommitFuture::new(txn.keeps_open(), Ok(ticket), begun))
    }

    /// Commits like [`Transaction::commit_with`], but returns at once an error that occurs before
    /// the transaction has its place in the log; then `done` stays.
    pub(crate) fn submit_with(mut self, session: &Session, done: &mut Option<Callback>) -> Result<()> {
        let begun = self.commit_begins();
        let mut txn = self.enter_last()?;
        let ticket = txn.submit()?;
        if let Some(done) = done.take() {
            session.push(Ok(ticket), done, begun);
        }
        Ok(())
    }

    /// Commits. When the commit is as durable as the transaction asks, the thread that polls
    /// `session` calls `done` with what [`Transaction::commit`] would return. A session of another
    /// database, or of another opening of this one, waits for another log: then the transaction is
    /// rolled back at once, and that session later calls `done` with `Error::ForeignSession`.
    pub fn commit_with(mut self, session: &Session, done: impl FnOnce(Result<CommitStamp>) + Send + 'static) {
        let done: Callback = Box::new(done);
        let begun = self.commit_begins();
        let refused = if session.opening == self.opening {
            match self.enter_last() {
                Ok(mut txn) => return session.push(txn.submit(), done, begun),
                Err(closed) => closed,
            }
        } else {
            Error::ForeignSession
        };
        // The transaction is rolled back before the session runs the callback.
        drop(self);
        session.push(Err(refused), done, None);
    }

    /// Rolls back because the caller gives up, and checks that the caller may say why: its reads
    /// hold, and are as durable as a commit would be.
    ///
    /// # Errors
    /// The caller returns this error in place of its own: the conflict that the transaction met, if
    /// it met one; a conflict if its reads do not hold any more; `Error::Poisoned` if its reads may
    /// not survive; `Error::Closed`.
    pub(crate) fn conclude(mut self) -> Result<()> {
        let txn = self.of.get_mut();
        if let Some(failure) = txn.failure()
            && (failure.is_retryable() || failure.is_poisoned())
        {
            return Err(failure.clone());
        }
        if !txn.has_changes() {
            txn.opening().check()?;
            return txn.conclude();
        }
        self.enter_last()?.conclude()
    }

    /// Undoes everything the transaction wrote.
    ///
    /// # Errors
    /// `Error::Closed` if the database is closed or is being closed: then the next opening undoes
    /// the transaction. An error of the device: in the paged engine the transaction keeps its
    /// locks, and each call that needs them tries again to undo it (`Error::Unended`).
    pub fn rollback(mut self) -> Result<()> {
        let txn = self.of.get_mut();
        if !txn.has_changes() {
            txn.opening().check()?;
            return txn.rollback();
        }
        self.enter_last()?.rollback()
    }
}

impl Drop for Transaction {
    /// Rolls it back, if it has not ended. The next opening undoes what cannot be undone now.
    fn drop(&mut self) {
        if self.of.get_mut().has_changes()
            && let Ok(mut call) = self.enter_last()
        {
            let _outcome = call.rollback();
        }
        self.of.get_mut().opening().observed.ends(self.listed);
    }
}

pub(crate) fn check_key<'k>(table: &Table, key: &'k [u8]) -> Result<&'k [u8]> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::key_too_long(key, KEY_BYTES_MAX).in_table(&table.of.name()));
    }
    Ok(key)
}

pub(crate) fn check_value<'v>(table: &Table, key: &[u8], value: &'v [u8]) -> Result<&'v [u8]> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::value_too_long(key, value.len(), VALUE_BYTES_MAX).in_table(&table.of.name()));
    }
    Ok(value)
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt(f)
    }
}
