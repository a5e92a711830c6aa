//! A transaction of RocksDB of either kind, or a snapshot for reading. The head of the parent
//! module has the safety rules.

use super::owned::{Owned, bytes, checked, lent};
use super::{Database, RocksClient, ffi};
use crate::adapters::prefixes::{end, full};
use crate::adapters::{exists, read_only};
use katydid_workload::{Intent, Keys, Result, Transaction};
use std::ptr;

#[derive(Clone, Copy)]
enum View {
    Read(*const ffi::Snapshot),
    Write(*mut ffi::Transaction),
}

pub struct RocksTransaction<'c> {
    client: &'c RocksClient<'c>,
    view: View,
    /// True if a writing transaction must be rolled back when it is dropped.
    open: bool,
    table: u8,
}

impl<'c> RocksTransaction<'c> {
    pub fn begin(client: &'c RocksClient<'c>, intent: Intent, table: u8) -> RocksTransaction<'c> {
        let view = match intent {
            Intent::ReadOnly => {
                let snapshot = client.store.snapshot();
                // SAFETY: the snapshot lives until this transaction is dropped, and the drop
                // removes it from the options.
                unsafe { ffi::rocksdb_readoptions_set_snapshot(client.read.it, snapshot) };
                View::Read(snapshot)
            }
            Intent::ReadWrite => View::Write(client.store.begin(client.spare.replace(ptr::null_mut()))),
        };
        RocksTransaction { client, view, open: true, table }
    }

    fn writing(&self) -> Result<*mut ffi::Transaction> {
        match self.view {
            View::Read(_) => Err(read_only()),
            View::Write(transaction) => Ok(transaction),
        }
    }

    /// Reads the value of a key that includes its table's byte.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(lent(self.pinned(key)?, <[u8]>::to_vec))
    }

    /// Finds the value of a key that includes its table's byte; null if there is none. The caller
    /// frees the value.
    fn pinned(&mut self, key: &[u8]) -> Result<*mut ffi::Pinned> {
        let (at, length, store) = (key.as_ptr().cast(), key.len(), self.client.store);
        // SAFETY: all pointers are alive (rules 1 and 3); RocksDB uses the key during the call
        // only.
        checked(|error| unsafe {
            match (self.view, &store.database) {
                (View::Write(it), _) => {
                    ffi::rocksdb_transaction_get_pinned(it, store.read.it, at, length, error)
                }
                (View::Read(_), Database::Locking(database, _)) => {
                    ffi::rocksdb_transactiondb_get_pinned(*database, self.client.read.it, at, length, error)
                }
                (View::Read(_), Database::Optimistic(_, base, _)) => {
                    ffi::rocksdb_get_pinned(*base, self.client.read.it, at, length, error)
                }
            }
        })
    }

    /// Reads the value of a key, and locks or tracks the key.
    fn find_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.writing()?;
        let (at, length, read) = (key.as_ptr().cast(), key.len(), self.client.store.read.it);
        // SAFETY: all pointers are alive (rules 1 and 3); RocksDB uses the key during the call
        // only.
        let found = checked(|error| unsafe {
            ffi::rocksdb_transaction_get_pinned_for_update(transaction, read, at, length, 1, error)
        })?;
        Ok(lent(found, <[u8]>::to_vec))
    }

    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.writing()?;
        // SAFETY: the transaction is open, and RocksDB copies key and value.
        checked(|error| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            ffi::rocksdb_transaction_put(transaction, key_at, key.len(), value_at, value.len(), error);
        })
    }

    fn full(&self, key: &[u8]) -> Vec<u8> {
        full(self.table, key)
    }
}

impl Drop for RocksTransaction<'_> {
    fn drop(&mut self) {
        match self.view {
            View::Read(snapshot) => {
                // SAFETY: the options no longer name the snapshot when it is released.
                unsafe { ffi::rocksdb_readoptions_set_snapshot(self.client.read.it, ptr::null()) };
                self.client.store.release(snapshot);
            }
            View::Write(transaction) => {
                if self.open {
                    // If the rollback fails, the next use of the transaction's memory discards its
                    // changes: none of them was written.
                    // SAFETY: the transaction is open.
                    checked(|error| unsafe { ffi::rocksdb_transaction_rollback(transaction, error) }).ok();
                }
                self.client.spare.set(transaction);
            }
        }
    }
}

impl Transaction for RocksTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = self.client.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(&self.full(key))
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.pinned(&self.full(key))?;
        Ok(lent(found, visit).is_some())
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find_for_update(&self.full(key))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.set(&self.full(key), value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let long = self.full(key);
        match self.find_for_update(&long)? {
            Some(_) => Err(exists(key)),
            None => self.set(&long, value),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let key = self.full(key);
        if self.find_for_update(&key)?.is_none() {
            return Ok(false);
        }
        let transaction = self.writing()?;
        // SAFETY: the transaction is open, and RocksDB copies the key.
        checked(|error| unsafe {
            ffi::rocksdb_transaction_delete(transaction, key.as_ptr().cast(), key.len(), error);
        })?;
        Ok(true)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let (store, read) = (self.client.store, self.client.read.it);
        let (from, to) = (self.full(keys.from), end(self.table, keys.to));
        // SAFETY: all pointers are alive, and the iterator is dropped before the transaction or
        // snapshot ends. Keys and values are alive until the iterator moves.
        unsafe {
            let found = match (self.view, &store.database) {
                (View::Write(it), _) => ffi::rocksdb_transaction_create_iterator(it, store.read.it),
                (View::Read(_), Database::Locking(database, _)) => {
                    ffi::rocksdb_transactiondb_create_iterator(*database, read)
                }
                (View::Read(_), Database::Optimistic(_, base, _)) => {
                    ffi::rocksdb_create_iterator(*base, read)
                }
            };
            let found = Owned::new(found, ffi::rocksdb_iter_destroy);
            ffi::rocksdb_iter_seek(found.it, from.as_ptr().cast(), from.len());
            let mut seen = 0;
            while seen < limit && ffi::rocksdb_iter_valid(found.it) != 0 {
                let (mut key_length, mut value_length) = (0, 0);
                let key = ffi::rocksdb_iter_key(found.it, &mut key_length);
                let key = bytes(key, key_length);
                if key >= to.as_slice() {
                    break;
                }
                let value = ffi::rocksdb_iter_value(found.it, &mut value_length);
                visit(&key[1..], bytes(value, value_length));
                seen += 1;
                ffi::rocksdb_iter_next(found.it);
            }
            checked(|error| ffi::rocksdb_iter_get_error(found.it, error))?;
            Ok(seen)
        }
    }

    fn commit(mut self) -> Result<()> {
        if let View::Write(transaction) = self.view {
            // SAFETY: the transaction is open.
            checked(|error| unsafe { ffi::rocksdb_transaction_commit(transaction, error) })?;
            self.open = false;
        }
        Ok(())
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
