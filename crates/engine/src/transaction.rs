//! A transaction: reads, writes, and the ways to end it.
//!
//! One thread at a time uses a transaction, which may move between threads. The engine isolates
//! transactions. This file makes the checks that need no engine: sizes, writes in a read view,
//! handles of another opening, and calls after the database was closed.
//!
//! Invariants:
//!
//! 1. No engine is given a table, session or savepoint of another opening.
//! 2. Operations that may change the log or a file run inside of a call ([`crate::opening`]). This
//!    file enters the calls of commits and rollbacks. The paged engine itself enters the calls of
//!    its writes. A transaction whose call is refused is abandoned: the next opening undoes its
//!    writes.
//! 3. The user's code runs outside of calls: keys and values are converted to bytes before a call,
//!    and callbacks run after it, on the thread that polls. No reference to the engine's
//!    transaction is held while the user's code runs.

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
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::panic::Location;
use std::time::Instant;

/// A transaction: its reads and writes happen all or not at all, and as if no other transaction
/// ran. Dropping a transaction rolls it back.
///
/// The calls of a transaction take `&self`, so reads, writes and steps of several ranges can be
/// interleaved. A transaction may move to another thread between two calls. Two threads cannot use
/// it at once: it is [`Send`] and not [`Sync`].
///
/// A transaction with [`Access::ReadOnly`] is a read view: it reads one state and takes no locks.
/// The remarks on locks below do not apply to read views.
///
/// In the memory engine a transaction that may write validates its reads only when it commits.
/// Until then its reads may belong to two states; in that case its commit fails with
/// `Error::Conflict`. So wait until the commit has succeeded before you act on the values, even if
/// the transaction wrote nothing; or read with [`Access::ReadOnly`]; or use
/// [`Database::transact`](crate::Database::transact), which also validates the reads before it
/// returns an error.
pub struct Transaction {
    /// Borrowed for the length of one call, or of one step of a range (invariant 3), so a borrow
    /// never meets another one.
    of: RefCell<ChosenTransaction>,
    opening: OpeningId,
    access: Access,
    /// The transaction's entry in the list of open transactions, until the transaction is dropped.
    listed: Listed,
}

/// A point in a transaction, for [`Transaction::rollback_to`].
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

    /// Begins the call that ends the transaction. If the database is closed or being closed,
    /// abandons the transaction and fails.
    fn enter_last(&mut self) -> Result<Call<&mut ChosenTransaction>> {
        Call::try_enter(self.of.get_mut()).map_err(|refused| {
            refused.abandon();
            Error::Closed
        })
    }

    /// Returns `Error::ForeignTable` if the table belongs to another opening.
    pub(crate) fn check_table(&self, table: &Table) -> Result<()> {
        table.check(self.opening)
    }

    /// Borrows the engine's transaction for one call.
    pub(crate) fn borrow(&self) -> RefMut<'_, ChosenTransaction> {
        self.of.borrow_mut()
    }

    /// Returns `Error::ReadOnly` if the transaction was begun for reading only.
    pub(crate) fn check_access(&self) -> Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Error::ReadOnly),
        }
    }

    /// Returns the transaction's number, by which `Error::Conflict` names transactions.
    pub fn id(&self) -> TxnId {
        self.of.borrow().id()
    }

    /// Returns the value of `key`; `None` if it has none. In the paged engine the call locks the
    /// key, present or not: another transaction that writes the key waits until this transaction
    /// drops its locks at its end.
    ///
    /// # Errors
    /// `Error::Conflict` if another transaction is in the way, `Error::WaitsForItself` if that
    /// transaction belongs to the calling thread; `Error::ViewTooOld` in a read view;
    /// `Error::KeyTooLong`, `Error::ForeignTable`, `Error::TableDropped`, `Error::Closed`; failures
    /// of the device; `Error::MustRollBack` after an earlier error.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        table.check(self.opening)?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().get(&table.of, key)
    }

    /// Calls `see` with the value of `key`, and returns its result; `None` if the key has no value.
    /// Errors and locks are those of [`Transaction::get`].
    ///
    /// The memory engine lends its own value, without a copy. The paged engine copies the value, as
    /// [`Transaction::get`] does. `see` runs while the call holds no latch, so it may use this
    /// transaction and the database.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let letters = database.table("letters")?;
    /// database.put(&letters, "anna", "Dear Karl")?;
    /// let txn = database.begin_read_only()?;
    /// let is_polite = txn.get_with(&letters, "anna", |letter| letter.starts_with(b"Dear"))?;
    /// assert_eq!(is_polite, Some(true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_with<R>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        table.check(self.opening)?;
        let key = check_key(table, key.as_ref())?;
        let lent = self.of.borrow_mut().lend(&table.of, key)?;
        Ok(lent.map(|value| see(&value)))
    }

    /// Returns whether `key` has a value. The call copies no value, and reads no pages of a long
    /// value. Errors and locks are those of [`Transaction::get`].
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        table.check(self.opening)?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().contains(&table.of, key)
    }

    /// Returns the value of `key`, and locks the key so that no other transaction can lock it for
    /// update or write it. Fails with `Error::ReadOnly` if this transaction cannot write; the
    /// transaction may go on after this error. Other errors are those of [`Transaction::get`]. The
    /// memory engine takes no locks: there the call is the same as [`Transaction::get`], and if two
    /// transactions write a key that both have read, the commit of one fails with
    /// `Error::Conflict`.
    pub fn get_for_update(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().get_for_update(&table.of, key)
    }

    /// Returns the first entry in `keys` that no other transaction has locked for update or
    /// written, and locks it for update. This is like SQL's `FOR UPDATE SKIP LOCKED` with a limit
    /// of one row. Returns `None` if there is no such entry. The call waits for no other
    /// transaction.
    ///
    /// Several consumers of one queue get different entries. Each consumer deletes its own entry,
    /// and a consumer that rolls back leaves its entry to the others. The keys that the call has
    /// passed over are not locked: other transactions may add and change entries there, so this
    /// call is not serializable. The memory engine takes no locks: there the call returns the first
    /// entry of the range, and if two transactions take one entry, the commit of one fails with
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
    /// `Error::ReadOnly` if the transaction cannot write; the errors of [`Transaction::get`].
    pub fn first_unlocked(&self, table: &Table, keys: impl KeyRange) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range_unlocked(table, keys).next().transpose()
    }

    /// Sets the value of `key`, whether or not it has one. In the paged engine the call locks the
    /// key: another transaction that reads or writes the key waits until this transaction drops its
    /// locks at its end. Read views do not wait.
    ///
    /// # Errors
    /// `Error::ReadOnly` if the transaction cannot write; `Error::ValueTooLong`; `Error::LogFull`,
    /// `Error::MemoryFull` or `Error::NoSpace` if there is no room; the errors of
    /// [`Transaction::get`].
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        let value = check_value(table, key, value.as_ref())?;
        self.of.borrow_mut().put(&table.of, key, value)
    }

    /// Sets the value of `key`, which must have none. If it has one, the call fails with
    /// `Error::KeyExists`, and the transaction may go on. Before that error the memory engine
    /// validates all reads of the transaction, and returns `Error::Conflict` if they were not all
    /// valid at one time. Other errors are those of [`Transaction::put`].
    pub fn insert(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        let value = check_value(table, key, value.as_ref())?;
        self.of.borrow_mut().insert(&table.of, key, value)
    }

    /// Removes `key`, and returns whether it was there. Errors and locks are those of
    /// [`Transaction::put`].
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        table.check(self.opening)?;
        self.check_access()?;
        let key = check_key(table, key.as_ref())?;
        self.of.borrow_mut().delete(&table.of, key)
    }

    /// Returns an iterator over the keys in `keys` and their values, in order, from either end. In
    /// the paged engine the keys and gaps that the iterator has passed are locked: no other
    /// transaction can add, change or remove a key there before this transaction ends. (Without
    /// [`Range::limit`], up to 128 entries more than were returned may be locked.) In the memory
    /// engine another transaction can change keys there. If that transaction comes before this one
    /// in the order of commits, the commit of this one fails with `Error::Conflict`. A step returns
    /// the errors of [`Transaction::get`].
    ///
    /// `keys` may be any [`KeyRange`]: `..` for the whole table, `"a".."b"`, a pair of bounds, or a
    /// [`Prefix`](crate::Prefix).
    pub fn range<'t>(&'t self, table: &Table, keys: impl KeyRange) -> Range<'t> {
        self.walk(table, keys, Purpose::Read)
    }

    /// Reads a range like [`Transaction::range`], and locks each entry for update before it is
    /// returned. So transactions that change the entries of a range run one after the other. With
    /// `range` these transactions would share the locks, and all but one would be rolled back when
    /// they write. (Without [`Range::limit`], up to 128 entries more than were returned may be
    /// locked.) In the memory engine the call is the same as `range`.
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
    /// The first step returns `Error::ReadOnly` if the transaction cannot write. Each step may
    /// return the errors of [`Transaction::get`].
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

    /// Returns an iterator over the entries in `keys` that no other transaction has locked for
    /// update or written, in order. Each entry is locked for update when it is returned, like SQL's
    /// `FOR UPDATE SKIP LOCKED`. The iterator waits for no other transaction.
    /// [`Transaction::first_unlocked`] describes the consequences.
    ///
    /// The range looks at each entry once: it does not return to an entry that another transaction
    /// had locked. A new range looks at the skipped entries again. To avoid this, begin the range
    /// of the consumer's next transaction behind the last entry that it got, and begin at the start
    /// when no more entries are found.
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
    /// The first step returns `Error::ReadOnly` if the transaction cannot write. Each step may
    /// return the errors of [`Transaction::get`].
    pub fn range_unlocked<'t>(&'t self, table: &Table, keys: impl KeyRange) -> UnlockedRange<'t> {
        let (low, high) = keys.into_bounds();
        let allowed = table.check(self.opening).and_then(|()| self.check_access());
        let of = allowed.map(|()| ChosenTransaction::range_unlocked(&table.of, low, high));
        UnlockedRange::new(&self.of, of)
    }

    /// Returns a savepoint: the current point in the transaction, for [`Transaction::rollback_to`].
    pub fn savepoint(&self) -> Savepoint {
        let (txn, opening) = (self.id(), self.opening);
        Savepoint { opening, txn, serial: self.of.borrow_mut().savepoint() }
    }

    /// Forgets a savepoint of this transaction and all later ones.
    pub(crate) fn forget_savepoint(&self, savepoint: &Savepoint) {
        self.of.borrow_mut().forget_savepoint(savepoint.serial);
    }

    /// Undoes everything that the transaction has written since `savepoint`. The savepoint stays
    /// valid; later savepoints do not. The transaction keeps its locks.
    ///
    /// # Errors
    /// `Error::Savepoint` if the savepoint belongs to another transaction, even one with the same
    /// number in another database, or was undone by a rollback to an earlier savepoint;
    /// `Error::Closed`; `Error::MustRollBack` after an earlier error; failures of the device.
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
    /// After `Error::Poisoned` the transaction may be committed or not; the next opening of the
    /// database decides. After any other error the transaction is rolled back. The memory engine
    /// returns `Error::Conflict` if the reads of the transaction are not valid.
    pub fn commit(mut self) -> Result<CommitStamp> {
        let txn = self.of.get_mut();
        if !txn.has_changes() {
            // No call is needed: the commit can wait only in the log, and closing the log ends that
            // wait.
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

    /// Returns the time from which the commit's latency is measured; `None` if the transaction
    /// wrote nothing, or its commit waits for nothing. Two readings of the clock would take a tenth
    /// of the time of a buffered commit.
    fn commit_begins(&mut self) -> Option<Instant> {
        let txn = self.of.get_mut();
        (txn.has_changes() && txn.durability() != Durability::Buffered).then(Instant::now)
    }

    /// Commits, and returns a future that is ready when the commit is as durable as the transaction
    /// asks. Dropping the future does not change the outcome. Errors are those of
    /// [`Transaction::commit`].
    pub fn commit_async(mut self) -> CommitFuture {
        let begun = self.commit_begins();
        match self.enter_last() {
            Ok(mut txn) => CommitFuture::new(txn.keeps_open(), txn.submit(), begun),
            Err(closed) => CommitFuture::refused(closed),
        }
    }

    /// Commits like [`Transaction::commit_async`], but returns at once an error that occurs before
    /// the commit record is in the log.
    pub(crate) fn submit_async(mut self) -> Result<CommitFuture> {
        let begun = self.commit_begins();
        let mut txn = self.enter_last()?;
        let ticket = txn.submit()?;
        Ok(CommitFuture::new(txn.keeps_open(), Ok(ticket), begun))
    }

    /// Commits like [`Transaction::commit_with`], but returns at once an error that occurs before
    /// the commit record is in the log; `done` then still holds the callback.
    pub(crate) fn submit_with(mut self, session: &Session, done: &mut Option<Callback>) -> Result<()> {
        let begun = self.commit_begins();
        let mut txn = self.enter_last()?;
        let ticket = txn.submit()?;
        if let Some(done) = done.take() {
            session.push(Ok(ticket), done, begun);
        }
        Ok(())
    }

    /// Commits, and reports the outcome to a callback. When the commit is as durable as the
    /// transaction asks, the thread that polls `session` calls `done` with the result that
    /// [`Transaction::commit`] would return. A session of another database, or of another opening
    /// of this one, cannot wait for this commit: the transaction is rolled back at once, and that
    /// session later calls `done` with `Error::ForeignSession`.
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

    /// Rolls back a transaction whose body has failed, and checks that the body's error may be
    /// returned: the transaction's reads are valid, and the commits that it has read from are as
    /// durable as its own commit would have to be.
    ///
    /// # Errors
    /// The caller returns this error in place of its own: the conflict that the transaction has
    /// met, if it met one; a conflict if its reads are not valid; `Error::Poisoned` if its reads
    /// may not survive; `Error::Closed`.
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

    /// Undoes all writes of the transaction, and ends it.
    ///
    /// # Errors
    /// `Error::Closed` if the database is closed or is being closed: then the next opening undoes
    /// the transaction. After an error of the device a transaction of the paged engine keeps its
    /// locks. Each call that needs one of these locks tries again to undo the transaction
    /// (`Error::Unended`).
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
    /// Rolls the transaction back, if it has not ended. The next opening undoes writes that cannot
    /// be undone now.
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
