//! Calls of a transaction that are made of its other calls, once for both engines.
//!
//! They run on the thread that uses the transaction. Each call they are made of locks, or has
//! validated, the keys it reads. So they need no rule of their own to be serializable.

use crate::error::Result;
use crate::key_range::{KeyRange, Prefix};
use crate::range::Range;
use crate::table::Table;
use crate::transaction::Transaction;
use std::ops::Bound;

/// Most keys that `delete_range` reads before it deletes them: as many as the paged engine fetches
/// at once.
const DELETED_AT_ONCE: usize = 128;

impl Transaction {
    /// The values of `keys`, in the order of `keys`; a key may occur twice. Errors and locks as
    /// [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        keys.into_iter().map(|key| self.get(table, key)).collect()
    }

    /// The keys that begin with `prefix` and their values: the [`Transaction::range`] of
    /// [`Prefix`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let users = database.table("users")?;
    /// let txn = database.begin()?;
    /// for name in ["de/anna", "de/karl", "fr/marie"] {
    ///     txn.put(&users, name, "")?;
    /// }
    /// let german: katydid::Result<Vec<_>> = txn.prefix(&users, "de/").map(|row| Ok(row?.0)).collect();
    /// assert_eq!(german?, [b"de/anna".to_vec(), b"de/karl".to_vec()]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix<'t>(&'t self, table: &Table, prefix: impl AsRef<[u8]>) -> Range<'t> {
        self.range(table, Prefix(prefix))
    }

    /// The least key and its value; `None` if the table is empty. Does what
    /// `range(table, ..).limit(1).next()` does, with its errors and locks: a lesser key of another
    /// transaction conflicts with this one.
    pub fn first(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next().transpose()
    }

    /// The greatest key and its value; `None` if the table is empty. Does what
    /// `range(table, ..).limit(1).next_back()` does, with its errors and locks: a greater key of
    /// another transaction conflicts with this one.
    pub fn last(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next_back().transpose()
    }

    /// Number of the keys in `keys`. It reads all of them. Errors and locks as
    /// [`Transaction::range`].
    pub fn count(&self, table: &Table, keys: impl KeyRange) -> Result<u64> {
        let mut range = self.range(table, keys);
        let mut count = 0;
        while range.next_ref()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Returns whether the table has no key. Reads at most one key. Errors and locks as
    /// [`Transaction::range`]. If there is none, a key that another transaction inserts conflicts
    /// with this transaction.
    pub fn is_empty(&self, table: &Table) -> Result<bool> {
        Ok(self.range(table, ..).limit(1).next_ref()?.is_none())
    }

    /// Sets `key` to what `change` makes of its value, and returns that. `change` is given the
    /// value of `key`, `None` if it has none; if it returns `None`, `key` has none afterwards. It
    /// runs once; [`Database::update`](crate::Database::update) runs it again after a conflict.
    /// Locks as [`Transaction::get_for_update`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let counters = database.table("counters")?;
    /// let txn = database.begin()?;
    /// for expected in 1..=3 {
    ///     let next = |old: Option<Vec<u8>>| Some(vec![old.map_or(1, |old| old[0] + 1)]);
    ///     assert_eq!(txn.update(&counters, "visits", next)?, Some(vec![expected]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ReadOnly`; `Error::ValueTooLong` if the new value is longer than 16 MiB; those of
    /// [`Transaction::get_for_update`]. The value is not changed then.
    pub fn update(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let old = self.get_for_update(table, key)?;
        let was_there = old.is_some();
        let new = change(old);
        self.set(table, key, was_there, new.as_deref())?;
        Ok(new)
    }

    /// Sets `key` to `new` if its value is `expected`. Returns whether it was. `None` stands for no
    /// value.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let locks = database.table("locks")?;
    /// let txn = database.begin()?;
    /// assert!(txn.compare_and_swap(&locks, "door", None, Some(b"me"))?);
    /// assert!(!txn.compare_and_swap(&locks, "door", None, Some(b"you"))?);
    /// assert!(txn.compare_and_swap(&locks, "door", Some(b"me"), None)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ReadOnly`; `Error::ValueTooLong` if `new` is longer than 16 MiB and `expected` was
    /// found; those of [`Transaction::get_for_update`]. The value is not changed then.
    pub fn compare_and_swap(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        let found = self.get_for_update(table, key)?;
        if found.as_deref() != expected {
            return Ok(false);
        }
        self.set(table, key, found.is_some(), new)?;
        Ok(true)
    }

    /// Removes the least key and returns it with its value; `None` if the table is empty. Errors as
    /// [`Transaction::delete`], locks as [`Transaction::range_for_update`]. If two transactions pop
    /// from one table at the same time, one waits; in the memory engine the commit of one meets a
    /// conflict.
    pub fn pop_first(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let first = self.range_for_update(table, ..).limit(1).next();
        let Some((key, value)) = first.transpose()? else { return Ok(None) };
        self.delete(table, &key)?;
        Ok(Some((key, value)))
    }

    /// Removes all keys in `keys` and returns their number. Locks as [`Transaction::range`] over
    /// all of `keys`. Each key is deleted and logged by itself, so a large range takes as much of
    /// the log as that many deletions. At most 128 keys are copied at a time.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let sessions = database.table("sessions")?;
    /// let txn = database.begin()?;
    /// for name in ["anna/1", "anna/2", "karl/1"] {
    ///     txn.put(&sessions, name, "")?;
    /// }
    /// assert_eq!(txn.delete_range(&sessions, katydid::Prefix("anna/"))?, 2);
    /// assert_eq!(txn.count(&sessions, ..)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Transaction::delete`]. The keys that were removed before the error are put back,
    /// unless the transaction can only roll back.
    pub fn delete_range(&self, table: &Table, keys: impl KeyRange) -> Result<u64> {
        self.check_access()?;
        let bounds = keys.into_bounds();
        let savepoint = self.savepoint();
        let outcome = self.delete_between(table, bounds);
        if outcome.is_err() {
            // If it cannot be undone, the transaction can only roll back.
            let _outcome = self.rollback_to(&savepoint);
        }
        outcome
    }

    /// Removes all keys of the table and returns their number. As [`Transaction::delete_range`] of
    /// `..`; unlike [`Database::drop_table`](crate::Database::drop_table) it is part of the
    /// transaction, and the table stays.
    pub fn clear(&self, table: &Table) -> Result<u64> {
        self.delete_range(table, ..)
    }

    fn delete_between(&self, table: &Table, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Result<u64> {
        let (mut low, high) = bounds;
        let mut deleted = 0;
        loop {
            let mut batch = Vec::new();
            let mut range = self.range(table, (low, high.clone())).limit(DELETED_AT_ONCE);
            while let Some((key, _value)) = range.next_ref()? {
                batch.push(key.to_vec());
            }
            for key in &batch {
                self.delete(table, key)?;
            }
            deleted += batch.len() as u64;
            match batch.pop() {
                Some(last) if batch.len() + 1 == DELETED_AT_ONCE => low = Bound::Excluded(last),
                _ => return Ok(deleted),
            }
        }
    }

    /// Sets the value of `key`, or removes it if `was_there`.
    fn set(&self, table: &Table, key: &[u8], was_there: bool, new: Option<&[u8]>) -> Result<()> {
        match new {
            Some(new) => self.put(table, key, new),
            None if was_there => self.delete(table, key).map(drop),
            None => Ok(()),
        }
    }
}
