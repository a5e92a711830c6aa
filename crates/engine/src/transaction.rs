//! A transaction.

use crate::Lsn;
use crate::commit::CommitFuture;
use crate::error::{Error, Result};
use crate::range::Range;
use crate::session::Session;
use crate::table::Table;
use std::ops::RangeBounds;

const ABSENT: Error = Error::Internal("the engine is not part of this build");

/// Reads and writes that happen all or not at all, as if alone. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction {}

/// A point in a transaction to roll back to.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {}

impl Transaction {
    /// The value of `key`.
    pub fn get(&mut self, _table: &Table, _key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Err(ABSENT)
    }

    /// The value of `key`, locked so that no other transaction can lock it for update or write it.
    pub fn get_for_update(&mut self, _table: &Table, _key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Err(ABSENT)
    }

    /// Sets the value of `key`, whether or not it has one.
    pub fn put(&mut self, _table: &Table, _key: impl AsRef<[u8]>, _value: impl AsRef<[u8]>) -> Result<()> {
        Err(ABSENT)
    }

    /// Sets the value of `key`; `Error::KeyExists` if it has one, and the transaction may go on.
    pub fn insert(&mut self, _table: &Table, _key: impl AsRef<[u8]>, _value: impl AsRef<[u8]>) -> Result<()> {
        Err(ABSENT)
    }

    /// Removes `key`; whether it was there.
    pub fn delete(&mut self, _table: &Table, _key: impl AsRef<[u8]>) -> Result<bool> {
        Err(ABSENT)
    }

    /// The keys in `bounds` and their values, in order, from either end. What has been passed over is locked: no other
    /// transaction can add, change or remove a key there before this one ends.
    pub fn range<'t, K: AsRef<[u8]>>(
        &'t mut self,
        _table: &Table,
        _bounds: impl RangeBounds<K>,
    ) -> Range<'t> {
        Range { transaction: std::marker::PhantomData }
    }

    /// A point to come back to.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint {}
    }

    /// Undoes everything written since `savepoint`, which stays valid. Locks are kept.
    pub fn rollback_to(&mut self, _savepoint: &Savepoint) -> Result<()> {
        Err(ABSENT)
    }

    /// Commits, and returns when the commit is as durable as the transaction asks. The end of its commit record, or of
    /// what it has read if it wrote nothing.
    pub fn commit(self) -> Result<Lsn> {
        Err(ABSENT)
    }

    /// Commits; the future is ready when the commit is as durable as the transaction asks. Dropping the future changes
    /// nothing about the outcome.
    pub fn commit_async(self) -> CommitFuture {
        CommitFuture {}
    }

    /// Commits; `done` runs on the thread that polls `session`, once the commit is as durable as the transaction asks.
    pub fn commit_with(self, _session: &Session, done: impl FnOnce(Result<Lsn>) + Send + 'static) {
        done(Err(ABSENT));
    }

    /// Undoes everything the transaction wrote.
    pub fn rollback(self) -> Result<()> {
        Err(ABSENT)
    }
}
