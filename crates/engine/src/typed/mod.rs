//! Tables whose keys and values have Rust types: a thin layer over [`Table`].
//!
//! Keys are encoded so that the bytes have the order of the keys:
//!
//! | type | bytes |
//! |---|---|
//! | `u8` to `u128` | the most significant byte first |
//! | `i8` to `i128` | as unsigned, with the sign bit inverted |
//! | `bool`, `char` | as `u8`, as `u32` |
//! | `String`, `Vec<u8>` | the bytes, with `00 FF` for each `00`, and `00 00` at the end |
//! | `[u8; N]` | the bytes |
//! | `Option<A>` | `00` for `None`; `01` and the bytes of the value for `Some` |
//! | a tuple of one to four | the bytes of each element, one after the other |
//!
//! Values are encoded by [`Value`]; with feature `json`, `Json<T>` encodes types that implement
//! serde's traits. The database does not store the types of a table: the program that opens the
//! table chooses them.

mod index;
#[cfg(feature = "json")]
mod json;
mod key;
mod value;

pub use index::{Index, IndexedTable, Keys, Rows};
#[cfg(feature = "json")]
pub use json::Json;
pub use key::{AsKey, Key, KeyPrefix, TypedKeys};
pub use value::{AsValue, Value};

use crate::error::{Error, Result};
use crate::range::{Range, UnlockedRange};
use crate::table::Table;
use crate::transaction::Transaction;
use key::{decoded, encoded};
use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

/// A [`Table`] whose keys are `K` and whose values are `V`. Its methods are those of
/// [`Transaction`], with the errors and locks of those methods. A method of this type also fails
/// with `Error::Undecodable` for a key or a value that is not of its type.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// use katydid::Prefix;
/// use katydid::typed::TypedTable;
///
/// # let database = katydid::Database::in_memory()?;
/// // Who follows whom, since which year.
/// let follows = TypedTable::<(String, String), u32>::new(database.table("follows")?);
/// database.transact(|txn| {
///     follows.put(txn, ("anna", "karl"), 2019u32)?;
///     follows.put(txn, ("anna", "paul"), 2021u32)?;
///     follows.put(txn, ("karl", "anna"), 2020u32)
/// })?;
/// let txn = database.begin()?;
/// assert_eq!(follows.get(&txn, ("anna", "karl"))?, Some(2019));
/// let of_anna: katydid::Result<Vec<_>> =
///     follows.range(&txn, Prefix(("anna",))).map(|row| Ok(row?.0.1)).collect();
/// assert_eq!(of_anna?, ["karl", "paul"]);
/// # Ok(())
/// # }
/// ```
pub struct TypedTable<K, V> {
    table: Table,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TypedTable<K, V> {
    /// Makes a typed table of `table`.
    pub fn new(table: Table) -> Self {
        TypedTable { table, of: PhantomData }
    }

    /// Returns the table, whose keys and values are bytes.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the value of `key`. See [`Transaction::get`].
    pub fn get(&self, txn: &Transaction, key: impl AsKey<K>) -> Result<Option<V>> {
        let key = encoded(key);
        txn.get_with(&self.table, &key, |value| self.value(&key, value))?.transpose()
    }

    /// Returns the value of `key`, and locks the key for update. See
    /// [`Transaction::get_for_update`].
    pub fn get_for_update(&self, txn: &Transaction, key: impl AsKey<K>) -> Result<Option<V>> {
        let key = encoded(key);
        txn.get_for_update(&self.table, &key)?.map(|value| self.value(&key, &value)).transpose()
    }

    /// Returns the values of `keys`, in the order of `keys`. See [`Transaction::multi_get`].
    pub fn multi_get<Q: AsKey<K>>(
        &self,
        txn: &Transaction,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<Vec<Option<V>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(encoded).collect();
        let values = txn.multi_get(&self.table, &keys)?.into_iter().zip(&keys);
        values.map(|(value, key)| value.map(|value| self.value(key, &value)).transpose()).collect()
    }

    /// Returns whether `key` has a value. See [`Transaction::contains`].
    pub fn contains(&self, txn: &Transaction, key: impl AsKey<K>) -> Result<bool> {
        txn.contains(&self.table, encoded(key))
    }

    /// Sets the value of `key`. See [`Transaction::put`].
    pub fn put(&self, txn: &Transaction, key: impl AsKey<K>, value: impl AsValue<V>) -> Result<()> {
        txn.put(&self.table, encoded(key), value.encode_value())
    }

    /// Sets the values of several keys. See [`Transaction::put_all`].
    pub fn put_all<Q: AsKey<K>, W: AsValue<V>>(
        &self,
        txn: &Transaction,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        let entries: Vec<(Vec<u8>, W)> =
            entries.into_iter().map(|(key, value)| (encoded(key), value)).collect();
        txn.put_all(&self.table, entries.iter().map(|(key, value)| (key, value.encode_value())))
    }

    /// Sets the value of `key`, which must have none. See [`Transaction::insert`].
    pub fn insert(&self, txn: &Transaction, key: impl AsKey<K>, value: impl AsValue<V>) -> Result<()> {
        txn.insert(&self.table, encoded(key), value.encode_value())
    }

    /// Deletes `key`, and returns whether it was there. See [`Transaction::delete`].
    pub fn delete(&self, txn: &Transaction, key: impl AsKey<K>) -> Result<bool> {
        txn.delete(&self.table, encoded(key))
    }

    /// Replaces the value of `key` by the result of `change`, as [`Transaction::update`] does.
    /// Returns whether the key has a value afterwards.
    pub fn update(
        &self,
        txn: &Transaction,
        key: impl AsKey<K>,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<bool> {
        let key = encoded(key);
        let old = txn.get_for_update(&self.table, &key)?;
        let was_there = old.is_some();
        match change(old.map(|value| self.value(&key, &value)).transpose()?) {
            Some(new) => txn.put(&self.table, &key, new.encode_value()).map(|()| true),
            None if was_there => txn.delete(&self.table, &key).map(|_| false),
            None => Ok(false),
        }
    }

    /// Returns an iterator over the keys in `keys` and their values. See [`Transaction::range`].
    pub fn range<'t>(&self, txn: &'t Transaction, keys: impl TypedKeys<K>) -> TypedRange<'t, K, V> {
        TypedRange { of: txn.range(&self.table, keys.into_bytes()), table: Self::new(self.table.clone()) }
    }

    /// Returns an iterator over the keys in `keys` and their values. The iterator locks each key
    /// for update. See [`Transaction::range_for_update`].
    pub fn range_for_update<'t>(
        &self,
        txn: &'t Transaction,
        keys: impl TypedKeys<K>,
    ) -> TypedRange<'t, K, V> {
        let of = txn.range_for_update(&self.table, keys.into_bytes());
        TypedRange { of, table: Self::new(self.table.clone()) }
    }

    /// Returns an iterator over the entries in `keys` that no other transaction has locked. See
    /// [`Transaction::range_unlocked`].
    pub fn range_unlocked<'t>(
        &self,
        txn: &'t Transaction,
        keys: impl TypedKeys<K>,
    ) -> TypedUnlockedRange<'t, K, V> {
        let of = txn.range_unlocked(&self.table, keys.into_bytes());
        TypedUnlockedRange { of, table: Self::new(self.table.clone()) }
    }

    /// Returns the least key and its value. See [`Transaction::first`].
    pub fn first(&self, txn: &Transaction) -> Result<Option<(K, V)>> {
        txn.first(&self.table)?.map(|row| self.row(row)).transpose()
    }

    /// Returns the greatest key and its value. See [`Transaction::last`].
    pub fn last(&self, txn: &Transaction) -> Result<Option<(K, V)>> {
        txn.last(&self.table)?.map(|row| self.row(row)).transpose()
    }

    /// Removes the least key, and returns it with its value. See [`Transaction::pop_first`]. A row
    /// that cannot be decoded stays.
    pub fn pop_first(&self, txn: &Transaction) -> Result<Option<(K, V)>> {
        let first = txn.range_for_update(&self.table, ..).limit(1).next();
        let Some((key, value)) = first.transpose()? else { return Ok(None) };
        let row = (self.key(&key)?, self.value(&key, &value)?);
        txn.delete(&self.table, &key)?;
        Ok(Some(row))
    }

    /// Returns whether the table has no key. See [`Transaction::is_empty`].
    pub fn is_empty(&self, txn: &Transaction) -> Result<bool> {
        txn.is_empty(&self.table)
    }

    /// Returns the number of the table's keys in `keys`. See [`Transaction::count`].
    pub fn count(&self, txn: &Transaction, keys: impl TypedKeys<K>) -> Result<u64> {
        txn.count(&self.table, keys.into_bytes())
    }

    /// Removes all keys in `keys`, and returns their number. See [`Transaction::delete_range`].
    pub fn delete_range(&self, txn: &Transaction, keys: impl TypedKeys<K>) -> Result<u64> {
        txn.delete_range(&self.table, keys.into_bytes())
    }

    fn value(&self, key: &[u8], value: &[u8]) -> Result<V> {
        V::decode_value(value).ok_or_else(|| self.undecodable::<V>("value", key))
    }

    fn key(&self, key: &[u8]) -> Result<K> {
        decoded(key).ok_or_else(|| self.undecodable::<K>("key", key))
    }

    fn row(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Result<(K, V)> {
        Ok((self.key(&key)?, self.value(&key, &value)?))
    }

    #[cold]
    fn undecodable<T>(&self, part: &'static str, key: &[u8]) -> Error {
        let table = self.table.name().to_owned();
        Error::Undecodable { table, key: key.to_vec(), part, wanted: type_name::<T>() }
    }
}

impl<K, V> Clone for TypedTable<K, V> {
    fn clone(&self) -> Self {
        TypedTable { table: self.table.clone(), of: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedTable<{}, {}>({:?})", type_name::<K>(), type_name::<V>(), self.table)
    }
}

/// An iterator over the keys and values of a range of a typed table, from either end. See
/// [`Range`].
pub struct TypedRange<'t, K, V> {
    of: Range<'t>,
    table: TypedTable<K, V>,
}

impl<K: Key, V: Value> TypedRange<'_, K, V> {
    /// Ends the range after `entries` entries. See [`Range::limit`].
    #[must_use]
    pub fn limit(self, entries: usize) -> Self {
        TypedRange { of: self.of.limit(entries), ..self }
    }
}

impl<K: Key, V: Value> Iterator for TypedRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.of.next()?;
        Some(row.and_then(|row| self.table.row(row)))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for TypedRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let row = self.of.next_back()?;
        Some(row.and_then(|row| self.table.row(row)))
    }
}

impl<K: Key, V: Value> std::iter::FusedIterator for TypedRange<'_, K, V> {}

impl<K, V> fmt::Debug for TypedRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedRange({:?}, {:?})", self.table, self.of)
    }
}

/// An iterator over the unlocked keys and values of a range of a typed table. See
/// [`Transaction::range_unlocked`].
pub struct TypedUnlockedRange<'t, K, V> {
    of: UnlockedRange<'t>,
    table: TypedTable<K, V>,
}

impl<K: Key, V: Value> Iterator for TypedUnlockedRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.of.next()?;
        Some(row.and_then(|row| self.table.row(row)))
    }
}

impl<K, V> fmt::Debug for TypedUnlockedRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedUnlockedRange({:?}, {:?})", self.table, self.of)
    }
}
