//! A transaction of a body at the leader: a view of the applied state, overlaid by the body's own
//! writes.
//!
//! One thread at a time uses a transaction. The transaction collects the read set for certification
//! and the write set for replication. It does not change the state, so a failed body has no effect.

use crate::certifier::Reads;
use crate::error::{Error, Result};
use crate::store::View;
use crate::write_set::{Write, WriteSet};
use katydid::KeyRange;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

/// Reads and writes of one transaction of a replicated database: see
/// [`Replica::transact`](crate::Replica::transact).
///
/// Reads return the state at [`Transaction::index`], overlaid by the transaction's own writes. At
/// the end of the transaction the replica checks whether the values read are still current.
pub struct Transaction {
    view: View,
    inside: RefCell<Inside>,
}

#[derive(Default)]
struct Inside {
    reads: Reads,
    set: WriteSet,
    /// The last written value of each key, by table; `None` if the key was deleted.
    written: BTreeMap<String, BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
}

impl Transaction {
    pub(crate) fn new(view: View) -> Self {
        Transaction { view, inside: RefCell::default() }
    }

    /// Ends the transaction, and returns its read set and its write set.
    pub(crate) fn end(self) -> (Reads, WriteSet) {
        let inside = self.inside.into_inner();
        (inside.reads, inside.set)
    }

    /// Returns the index of the last entry of the Raft log that is applied in the state that the
    /// transaction reads. Returns 0 if no entry is applied.
    pub fn index(&self) -> u64 {
        self.view.applied.index()
    }

    /// Returns the value of `key`. A table that does not exist has no keys.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn get(&self, table: &str, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let (key, mut inside) = (key.as_ref(), self.inside.borrow_mut());
        if let Some(own) = inside.written.get(table).and_then(|keys| keys.get(key)) {
            return Ok(own.clone());
        }
        inside.reads.keys.push((table.to_owned(), key.to_vec()));
        self.view.get(table, key)
    }

    /// Returns the first `limit` keys in `keys` and their values, in order.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn range(&self, table: &str, keys: impl KeyRange, limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (low, high) = keys.into_bounds();
        if is_empty(&low, &high) || limit == 0 {
            return Ok(Vec::new());
        }
        let mut inside = self.inside.borrow_mut();
        let none = BTreeMap::new();
        let own = inside.written.get(table).unwrap_or(&none);
        let mut own = own.range((low.clone(), high.clone())).peekable();
        let mut found = Vec::new();
        self.view.range(table, low.clone(), high.clone(), |key, value| {
            while let Some((written, new)) = own.next_if(|(written, _)| **written < key) {
                found.extend(new.clone().map(|new| (written.clone(), new)));
            }
            match own.next_if(|(written, _)| **written == key) {
                Some((_, new)) => found.extend(new.clone().map(|new| (key, new))),
                None => found.push((key, value)),
            }
            found.len() < limit
        })?;
        found.extend(own.filter_map(|(key, new)| Some((key.clone(), new.clone()?))));
        let mut high = high;
        if found.len() >= limit {
            found.truncate(limit);
            high = found.last().map_or(high, |(last, _)| Bound::Included(last.clone()));
        }
        inside.reads.ranges.push((table.to_owned(), low, high));
        Ok(found)
    }

    /// Sets the value of `key`, present or not. The table is created if it is missing.
    ///
    /// # Errors
    /// [`Error::Inadmissible`].
    pub fn put(&self, table: &str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.write(Write::Put { table: table.to_owned(), key, value })
    }

    /// Sets the value of `key`, which must be absent.
    ///
    /// # Errors
    /// [`Error::KeyExists`], [`Error::Inadmissible`], [`Error::Engine`].
    pub fn insert(&self, table: &str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        if self.get(table, key.as_ref())?.is_some() {
            return Err(Error::KeyExists { table: table.to_owned(), key: key.as_ref().to_vec() });
        }
        self.put(table, key, value)
    }

    /// Removes `key`, present or not.
    ///
    /// # Errors
    /// [`Error::Inadmissible`].
    pub fn delete(&self, table: &str, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(Write::Delete { table: table.to_owned(), key: key.as_ref().to_vec() })
    }

    /// Creates a table. Changes nothing if the table exists.
    ///
    /// # Errors
    /// [`Error::Inadmissible`].
    pub fn create_table(&self, table: &str) -> Result<()> {
        self.write(Write::CreateTable { table: table.to_owned() })
    }

    fn write(&self, write: Write) -> Result<()> {
        let one = WriteSet { writes: vec![write] };
        one.check()?;
        let mut inside = self.inside.borrow_mut();
        for write in one.writes {
            let (table, after) = match &write {
                Write::Put { table, key, value } => (table, Some((key, Some(value.clone())))),
                Write::Delete { table, key } => (table, Some((key, None))),
                Write::CreateTable { table } => (table, None),
            };
            if let Some((key, value)) = after {
                inside.written.entry(table.clone()).or_default().insert(key.clone(), value);
            }
            inside.set.writes.push(write);
        }
        Ok(())
    }
}

/// One state of the database for reading: see [`Replica::read`](crate::Replica::read).
pub struct ReadView(Transaction);

impl ReadView {
    pub(crate) fn new(view: View) -> Self {
        ReadView(Transaction::new(view))
    }

    /// Returns the index of the last entry of the Raft log that is applied in the state of this
    /// view. Returns 0 if no entry is applied.
    pub fn index(&self) -> u64 {
        self.0.index()
    }

    /// Returns the value of `key`. A table that does not exist has no keys.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn get(&self, table: &str, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.0.view.get(table, key.as_ref())
    }

    /// Returns the first `limit` keys in `keys` and their values, in order.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn range(&self, table: &str, keys: impl KeyRange, limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.0.range(table, keys, limit)
    }
}

impl fmt::Debug for ReadView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadView").field("index", &self.index()).finish_non_exhaustive()
    }
}

pub(crate) fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
        _ => false,
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("index", &self.index()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Folder;
    use crate::store::{AppliedState, Identity, Store};
    use std::sync::Arc;

    fn transaction(folder: &std::path::Path) -> Transaction {
        let identity = Identity { cluster: [1; 16], replica: 1 };
        let store = Store::open(
            Arc::new(Folder { path: folder.to_owned(), log: None }),
            katydid::Options::default(),
            identity,
        )
        .expect("open");
        let set = WriteSet::default().put("t", "b", "old").put("t", "d", "old").put("t", "f", "old");
        store.apply(&AppliedState::default(), &set.writes, &[], &AppliedState::default()).expect("apply");
        Transaction::new(store.view().expect("view"))
    }

    #[test]
    fn reads_show_the_view_under_the_transactions_own_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let txn = transaction(folder.path());
        txn.put("t", "a", "new").expect("put");
        txn.put("t", "d", "new").expect("put");
        txn.delete("t", "f").expect("delete");
        txn.put("t", "g", "new").expect("put");
        let keys = |low: Bound<&str>, limit| {
            let found = txn.range("t", (low, Bound::Unbounded), limit).expect("range");
            found.into_iter().map(|(key, value)| [key, value].concat()).collect::<Vec<_>>()
        };
        assert_eq!(keys(Bound::Unbounded, 9), [&b"anew"[..], b"bold", b"dnew", b"gnew"]);
        assert_eq!(keys(Bound::Excluded("b"), 1), [b"dnew"]);
        assert_eq!(txn.range("t", "z".."a", 9).expect("range"), []);
        assert_eq!(txn.get("t", "f").expect("get"), None);
        assert_eq!(txn.get("t", "b").expect("get"), Some(b"old".to_vec()));
        assert_eq!(txn.get("none", "b").expect("get"), None);
        assert!(matches!(txn.insert("t", "a", ""), Err(Error::KeyExists { .. })));
        txn.insert("t", "f", "again").expect("insert");
        let (reads, set) = txn.end();
        assert_eq!(reads.keys, [("t".to_owned(), b"b".to_vec()), ("none".to_owned(), b"b".to_vec())]);
        let included = Bound::Included(b"d".to_vec());
        assert_eq!(reads.ranges[1], ("t".to_owned(), Bound::Excluded(b"b".to_vec()), included));
        assert_eq!(set.writes.len(), 5);
    }
}
