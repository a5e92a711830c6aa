//! Calls of a transaction that are built from its other calls. Both engines share this code.
//!
//! These calls run on the thread that uses the transaction. Each of the inner calls locks the keys
//! that it reads, or lets the commit validate them. So the outer calls need no rule of their own to
//! be serializable.

use crate::engine::EngineTransaction;
use crate::error::Result;
use crate::key_range::{KeyRange, Prefix};
use crate::range::Range;
use crate::table::Table;
use crate::transaction::{Transaction, check_key, check_value};
use std::ops::Bound;

/// Maximum number of keys that `delete_range` reads before it deletes them: as many as the paged
/// engine fetches at once.
const DELETED_AT_ONCE: usize = 128;

impl Transaction {
    /// Returns the values of `keys`, in the order of `keys`. A key may occur twice. Errors and
    /// locks are those of [`Transaction::get`]; the keys are locked in ascending order. For up to
    /// 64 keys at a time, the paged engine reads all leaves that are not in memory by one batch of
    /// reads, unless [`page_method`](crate::PagedOptions::page_method) is `Direct`.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        self.check_table(table)?;
        let mut sorted = Vec::with_capacity(keys.len());
        for (place, key) in keys.iter().enumerate() {
            sorted.push((check_key(table, key.as_ref())?, place));
        }
        sorted.sort_unstable();
        let equal = || sorted.chunk_by(|(one, _), (other, _)| one == other);
        let different: Vec<&[u8]> = equal().map(|places| places[0].0).collect();
        let found = self.borrow().multi_get(&table.of, &different)?;
        let mut values = vec![None; keys.len()];
        for (places, value) in equal().zip(found) {
            for (_, place) in &places[1..] {
                values[*place].clone_from(&value);
            }
            values[places[0].1] = value;
        }
        Ok(values)
    }

    /// Sets the values of several keys. If a key occurs twice, its last value counts. The keys are
    /// locked and written in ascending order, whatever the order of `entries`, so that keys of one
    /// leaf are written one after the other. For up to 64 keys at a time, the paged engine reads
    /// all leaves that are not in memory by one batch of reads, unless
    /// [`page_method`](crate::PagedOptions::page_method) is `Direct`. If leaves come from the
    /// device, the call is faster than single puts of keys in random order, such as hashes. Locks
    /// are those of [`Transaction::put`].
    ///
    /// Two transactions cannot deadlock with each other if each of them locks keys only by a single
    /// `put_all`, and both write to the same table: they lock their keys in the same order.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let users = database.table("users")?;
    /// let txn = database.begin()?;
    /// txn.put_all(&users, [("marie", "fr"), ("anna", "de"), ("anna", "at")])?;
    /// assert_eq!(txn.get(&users, "anna")?, Some(b"at".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Transaction::put`]. No value is set if a key or value is too long. After any
    /// other error, the keys that were already set have their former values again, unless the
    /// transaction can only roll back.
    pub fn put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let entries: Vec<(K, V)> = entries.into_iter().collect();
        self.check_table(table)?;
        self.check_access()?;
        let mut sorted = Vec::with_capacity(entries.len());
        for (key, value) in &entries {
            let key = check_key(table, key.as_ref())?;
            sorted.push((key, check_value(table, key, value.as_ref())?));
        }
        // The sort is stable: the values of one key stay in their order.
        sorted.sort_by_key(|(key, _)| *key);
        let equal = sorted.chunk_by(|(one, _), (other, _)| one == other);
        let last: Vec<(&[u8], &[u8])> = equal.map(|values| values[values.len() - 1]).collect();
        self.wholly(|| self.borrow().put_all(&table.of, &last))
    }

    /// Returns an iterator over the keys that begin with `prefix` and their values: the
    /// [`Transaction::range`] of [`Prefix`].
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

    /// Returns the least key and its value; `None` if the table is empty. Errors and locks are
    /// those of `range(table, ..).limit(1).next()`: a lesser key that another transaction inserts
    /// conflicts with this transaction.
    pub fn first(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next().transpose()
    }

    /// Returns the greatest key and its value; `None` if the table is empty. Errors and locks are
    /// those of `range(table, ..).limit(1).next_back()`: a greater key that another transaction
    /// inserts conflicts with this transaction.
    pub fn last(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next_back().transpose()
    }

    /// Returns the number of the table's keys in `keys`, by reading all of them. Errors and locks
    /// are those of [`Transaction::range`].
    pub fn count(&self, table: &Table, keys: impl KeyRange) -> Result<u64> {
        let mut range = self.range(table, keys);
        let mut count = 0;
        while range.next_ref()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Returns whether the table has no key, by reading at most one key. Errors and locks are those
    /// of [`Transaction::range`]: if the table is empty, a key that another transaction inserts
    /// conflicts with this transaction.
    pub fn is_empty(&self, table: &Table) -> Result<bool> {
        Ok(self.range(table, ..).limit(1).next_ref()?.is_none())
    }

    /// Replaces the value of `key` by the result of `change`, and returns the new value. `change`
    /// gets the old value, or `None` if `key` has no value. If `change` returns `None`, `key` is
    /// deleted. `change` runs once; [`Database::update`](crate::Database::update) runs it again
    /// after a conflict. Locks are those of [`Transaction::get_for_update`].
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
    /// `Error::ReadOnly`; `Error::ValueTooLong` if the new value is longer than 16 MiB; the errors
    /// of [`Transaction::get_for_update`]. After an error the value is unchanged.
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

    /// Sets `key` to `new` if its value is `expected`, and returns whether the value was
    /// `expected`. For both values, `None` means that the key has no value.
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
    /// found; the errors of [`Transaction::get_for_update`]. After an error the value is unchanged.
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

    /// Removes the least key and returns it with its value; `None` if the table is empty. Errors
    /// are those of [`Transaction::delete`], locks those of [`Transaction::range_for_update`]. If
    /// two transactions pop from one table at the same time, one waits for the other (paged
    /// engine), or the commit of one fails with a conflict (memory engine).
    pub fn pop_first(&self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let first = self.range_for_update(table, ..).limit(1).next();
        let Some((key, value)) = first.transpose()? else { return Ok(None) };
        self.delete(table, &key)?;
        Ok(Some((key, value)))
    }

    /// Removes all keys in `keys` and returns their number. Locks are those of
    /// [`Transaction::range`] over all of `keys`, and for each deleted key those of
    /// [`Transaction::put`]. Each key is deleted and logged by itself, so the log grows by one
    /// deletion for each key. The call holds copies of at most 128 keys at a time.
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
    /// The errors of [`Transaction::delete`]. The keys that were removed before the error are put
    /// back, unless the transaction can only roll back.
    pub fn delete_range(&self, table: &Table, keys: impl KeyRange) -> Result<u64> {
        self.check_access()?;
        let bounds = keys.into_bounds();
        self.wholly(|| self.delete_between(table, bounds))
    }

    /// Runs `change`. If `change` fails, undoes its writes.
    pub(crate) fn wholly<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let savepoint = self.savepoint();
        let outcome = change();
        if outcome.is_err() {
            // If the writes cannot be undone, the transaction can only roll back.
            let _outcome = self.rollback_to(&savepoint);
        }
        self.forget_savepoint(&savepoint);
        outcome
    }

    /// Removes all keys of the table and returns their number. The call works as
    /// [`Transaction::delete_range`] of `..` does. Unlike
    /// [`Database::drop_table`](crate::Database::drop_table), this call is part of the transaction,
    /// and the table stays.
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

    /// Sets the value of `key` to `new`. If `new` is `None`, deletes the key. `was_there` says
    /// whether the key has a value.
    fn set(&self, table: &Table, key: &[u8], was_there: bool, new: Option<&[u8]>) -> Result<()> {
        match new {
            Some(new) => self.put(table, key, new),
            None if was_there => self.delete(table, key).map(drop),
            None => Ok(()),
        }
    }
}
