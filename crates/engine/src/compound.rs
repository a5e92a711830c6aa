//! Calls of a transaction that are made of its other calls, once for both engines.
//!
//! The thread that uses the transaction. What these calls read is locked or validated as the calls they are made of do it, so they need no
//! rule of their own to be serializable.

use crate::error::Result;
use crate::key_range::{KeyRange, Prefix};
use crate::range::Range;
use crate::table::Table;
use crate::transaction::Transaction;

impl Transaction {
    /// Whether `key` has a value. Errors and locks as [`Transaction::get`].
    pub fn contains(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(table, key)?.is_some())
    }

    /// The values of `keys`, in the order of `keys`; a key may occur twice. Errors and locks as [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        keys.into_iter().map(|key| self.get(table, key)).collect()
    }

    /// The keys that begin with `prefix` and their values: the [`Transaction::range`] of [`Prefix`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let users = database.table("users")?;
    /// let mut txn = database.begin()?;
    /// for name in ["de/anna", "de/karl", "fr/marie"] {
    ///     txn.put(&users, name, "")?;
    /// }
    /// let german: katydid::Result<Vec<_>> = txn.prefix(&users, "de/").map(|row| Ok(row?.0)).collect();
    /// assert_eq!(german?, [b"de/anna".to_vec(), b"de/karl".to_vec()]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix<'t>(&'t mut self, table: &Table, prefix: impl AsRef<[u8]>) -> Range<'t> {
        self.range(table, Prefix(prefix))
    }

    /// The least key and its value; `None` if the table is empty. The same as `range(table, ..).limit(1).next()`: no other transaction
    /// can put a lesser key there before this one ends.
    pub fn first(&mut self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next().transpose()
    }

    /// The greatest key and its value; `None` if the table is empty. The same as `range(table, ..).limit(1).next_back()`: no other
    /// transaction can put a greater key there before this one ends.
    pub fn last(&mut self, table: &Table) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(table, ..).limit(1).next_back().transpose()
    }

    /// Number of the keys in `keys`. It reads all of them, and locks as [`Transaction::range`] does.
    pub fn count(&mut self, table: &Table, keys: impl KeyRange) -> Result<u64> {
        let mut range = self.range(table, keys);
        let mut count = 0;
        while range.next_ref()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Whether the table has no key. It reads at most one. If there is none, no other transaction can put one before this one ends.
    pub fn is_empty(&mut self, table: &Table) -> Result<bool> {
        Ok(self.range(table, ..).limit(1).next_ref()?.is_none())
    }
}
