//! Indexes: an index is a table with the keys of another table, ordered by terms that a function
//! finds in the rows of that other table.
//!
//! Invariant: for each row, an index has one entry for each term that its function finds in the
//! row, and no other entries. [`IndexedTable`] changes the row and its entries in one transaction.
//! So no crash and no other transaction finds a row without its entries, or entries without their
//! row.

use super::key::{AsKey, Key, encoded};
use super::value::{AsValue, Value};
use super::{TypedRange, TypedTable};
use crate::error::Result;
use crate::key_range::Prefix;
use crate::table::Table;
use crate::transaction::Transaction;
use std::fmt;
use std::sync::Arc;

type KeyExtractor<K, V, I> = dyn Fn(&K, &V) -> Vec<I> + Send + Sync;

/// An index over the rows of a table with keys `K` and values `V`, ordered by `I`. See
/// [`IndexedTable`].
pub struct Index<K, V, I> {
    entries: TypedTable<(I, K), ()>,
    finds: Arc<KeyExtractor<K, V, I>>,
}

/// A table with indexes. Every write of a row updates the indexes in the same transaction. After an
/// error the row and the indexes are unchanged.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// use katydid::typed::{Index, IndexedTable, TypedTable};
///
/// # let database = katydid::Database::in_memory()?;
/// // Users by number; found by the town that is their value.
/// let users = TypedTable::<u64, String>::new(database.table("users")?);
/// let towns = Index::new(database.table("users by town")?, |_, town: &String| Some(town.clone()));
/// let users = IndexedTable::new(users).with(&towns);
/// database.transact(|txn| {
///     users.put(txn, 1u64, "Bern")?;
///     users.put(txn, 2u64, "Basel")?;
///     users.put(txn, 3u64, "Bern")?;
///     users.put(txn, 1u64, "Basel")
/// })?;
/// let txn = database.begin()?;
/// let of_basel: katydid::Result<Vec<u64>> = towns.keys(&txn, "Basel").collect();
/// assert_eq!(of_basel?, [1, 2]);
/// let last = users.find(&txn, &towns, "Basel").next_back().transpose()?;
/// assert_eq!(last, Some((2, "Basel".to_owned())));
/// # Ok(())
/// # }
/// ```
pub struct IndexedTable<K, V> {
    rows: TypedTable<K, V>,
    indexes: Vec<Arc<dyn RowIndex<K, V>>>,
}

/// An index with terms of any type.
trait RowIndex<K, V>: Send + Sync {
    /// Replaces the entries of a row's old value by the entries of its new value.
    fn replace(&self, txn: &Transaction, key: &K, old: Option<&V>, new: Option<&V>) -> Result<()>;
}

impl<K: Key, V: Value, I: Key> Index<K, V, I> {
    /// Makes an index that is stored in `table`, which must be used for nothing else. `finds`
    /// returns the terms by which the index finds a row: an `Option`, a `Vec` or the like, so that
    /// a row may have no entry or several. `finds` must return the same terms for the same row each
    /// time.
    pub fn new<J: IntoIterator<Item = I>>(
        table: Table,
        finds: impl Fn(&K, &V) -> J + Send + Sync + 'static,
    ) -> Self {
        let finds = move |key: &K, value: &V| finds(key, value).into_iter().collect();
        Index { entries: TypedTable::new(table), finds: Arc::new(finds) }
    }

    /// Returns an iterator over the keys of the rows that have the term `what`, in the order of the
    /// keys. Errors and locks are those of [`Transaction::range`]. [`IndexedTable::find`] returns
    /// the rows.
    pub fn keys<'t>(&self, txn: &'t Transaction, what: impl AsKey<I>) -> Keys<'t, K, I> {
        Keys { entries: self.entries.range(txn, Prefix((what,))) }
    }

    /// Returns the table of entries: pairs of a term and the key of its row. Do not write to this
    /// table.
    pub fn entries(&self) -> &TypedTable<(I, K), ()> {
        &self.entries
    }

    /// Deletes all entries and makes them again from the rows, for an index that is added to a
    /// table with rows, or whose function has changed. All changes belong to `txn`, which must fit
    /// into the log. After an error the entries are unchanged.
    pub fn rebuild(&self, txn: &Transaction, rows: &TypedTable<K, V>) -> Result<()> {
        txn.wholly(|| {
            self.entries.delete_range(txn, ..)?;
            for row in rows.range(txn, ..) {
                let (key, value) = row?;
                self.replace(txn, &key, None, Some(&value))?;
            }
            Ok(())
        })
    }

    fn found(&self, key: &K, value: Option<&V>) -> Vec<Vec<u8>> {
        let found = value.map(|value| (self.finds)(key, value)).unwrap_or_default();
        let mut entries: Vec<_> = found.iter().map(|what| encoded::<(I, K)>((what, key))).collect();
        entries.sort_unstable();
        entries.dedup();
        entries
    }
}

impl<K: Key, V: Value, I: Key> RowIndex<K, V> for Index<K, V, I> {
    fn replace(&self, txn: &Transaction, key: &K, old: Option<&V>, new: Option<&V>) -> Result<()> {
        let (old, new) = (self.found(key, old), self.found(key, new));
        for entry in old.iter().filter(|entry| new.binary_search(entry).is_err()) {
            txn.delete(self.entries.table(), entry)?;
        }
        for entry in new.iter().filter(|entry| old.binary_search(entry).is_err()) {
            txn.put(self.entries.table(), entry, b"")?;
        }
        Ok(())
    }
}

impl<K: Key + 'static, V: Value + 'static> IndexedTable<K, V> {
    /// Makes an indexed table without indexes.
    pub fn new(rows: TypedTable<K, V>) -> Self {
        IndexedTable { rows, indexes: Vec::new() }
    }

    /// Adds an index. If the table has rows already, the index must have been updated by every
    /// write of a row, or be made by [`Index::rebuild`].
    #[must_use]
    pub fn with<I: Key + 'static>(mut self, index: &Index<K, V, I>) -> Self {
        self.indexes.push(Arc::new(index.clone()));
        self
    }

    /// Returns the table of rows, for reading. Writing to that table directly does not update the
    /// indexes.
    pub fn rows(&self) -> &TypedTable<K, V> {
        &self.rows
    }

    /// Returns an iterator over the keys and values of the rows that have the term `what` in
    /// `index`, in the order of the keys. The iterator reads the index as [`Transaction::range`]
    /// does, and each row as [`Transaction::get`] does, with their errors and locks. It passes over
    /// an entry whose row does not exist, which only a write past the index can leave.
    pub fn find<'t, I: Key>(
        &self,
        txn: &'t Transaction,
        index: &Index<K, V, I>,
        what: impl AsKey<I>,
    ) -> Rows<'t, K, V, I> {
        Rows { keys: index.keys(txn, what), rows: self.rows.clone(), txn }
    }

    /// Sets the value of `key`, and updates the indexes. See [`Transaction::put`]. The call reads
    /// the old value for update.
    pub fn put(&self, txn: &Transaction, key: impl AsKey<K>, value: impl AsValue<V>) -> Result<()> {
        self.set(txn, key, |_| Some(value.encode_value().into_owned())).map(drop)
    }

    /// Deletes `key` and its entries in the indexes, and returns whether the key was there. See
    /// [`Transaction::delete`]. The call reads the old value for update.
    pub fn delete(&self, txn: &Transaction, key: impl AsKey<K>) -> Result<bool> {
        self.set(txn, key, |_| None)
    }

    /// Replaces the value of `key` by the result of `change`, and updates the indexes. Returns
    /// whether the key had a value before. See [`TypedTable::update`].
    pub fn update(
        &self,
        txn: &Transaction,
        key: impl AsKey<K>,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<bool> {
        self.set(txn, key, |old| change(old).map(|new| new.encode_value().into_owned()))
    }

    fn set(
        &self,
        txn: &Transaction,
        key: impl AsKey<K>,
        change: impl FnOnce(Option<&V>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let bytes = encoded(key);
        let key = self.rows.key(&bytes)?;
        let old = txn.get_for_update(self.rows.table(), &bytes)?;
        let old = old.map(|value| self.rows.value(&bytes, &value)).transpose()?;
        let new = change(old.as_ref());
        let value = new.as_deref().map(|new| self.rows.value(&bytes, new)).transpose()?;
        let write = || -> Result<bool> {
            for index in &self.indexes {
                index.replace(txn, &key, old.as_ref(), value.as_ref())?;
            }
            match new {
                Some(new) => txn.put(self.rows.table(), &bytes, new)?,
                None if old.is_some() => _ = txn.delete(self.rows.table(), &bytes)?,
                None => {}
            }
            Ok(old.is_some())
        };
        if self.indexes.is_empty() { write() } else { txn.wholly(write) }
    }
}

/// An iterator over the keys of the rows that have a term of an index, from either end.
pub struct Keys<'t, K, I> {
    entries: TypedRange<'t, (I, K), ()>,
}

impl<K: Key, I: Key> Iterator for Keys<'_, K, I> {
    type Item = Result<K>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.entries.next()?.map(|((_, key), ())| key))
    }
}

impl<K: Key, I: Key> DoubleEndedIterator for Keys<'_, K, I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.entries.next_back()?.map(|((_, key), ())| key))
    }
}

impl<K: Key, I: Key> std::iter::FusedIterator for Keys<'_, K, I> {}

impl<K, I> fmt::Debug for Keys<'_, K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.entries)
    }
}

/// An iterator over the keys and values of the rows that have a term of an index, from either end.
/// See [`IndexedTable::find`].
pub struct Rows<'t, K, V, I> {
    keys: Keys<'t, K, I>,
    rows: TypedTable<K, V>,
    txn: &'t Transaction,
}

impl<K: Key, V: Value, I: Key> Rows<'_, K, V, I> {
    /// Returns the row of `key`, or `None` if it does not exist.
    fn row(&self, key: Result<K>) -> Option<Result<(K, V)>> {
        let row = key.and_then(|key| Ok(self.rows.get(self.txn, &key)?.map(|value| (key, value))));
        row.transpose()
    }
}

impl<K: Key, V: Value, I: Key> Iterator for Rows<'_, K, V, I> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.keys.next()?;
            if let Some(row) = self.row(key) {
                return Some(row);
            }
        }
    }
}

impl<K: Key, V: Value, I: Key> DoubleEndedIterator for Rows<'_, K, V, I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.keys.next_back()?;
            if let Some(row) = self.row(key) {
                return Some(row);
            }
        }
    }
}

impl<K: Key, V: Value, I: Key> std::iter::FusedIterator for Rows<'_, K, V, I> {}

impl<K, V, I> fmt::Debug for Rows<'_, K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({:?}, {:?})", self.rows, self.keys)
    }
}

impl<K, V, I> Clone for Index<K, V, I> {
    fn clone(&self) -> Self {
        Index { entries: self.entries.clone(), finds: self.finds.clone() }
    }
}

impl<K, V, I> fmt::Debug for Index<K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({:?})", self.entries)
    }
}

impl<K, V> Clone for IndexedTable<K, V> {
    fn clone(&self) -> Self {
        IndexedTable { rows: self.rows.clone(), indexes: self.indexes.clone() }
    }
}

impl<K, V> fmt::Debug for IndexedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedTable({:?}, {} indexes)", self.rows, self.indexes.len())
    }
}
