//! RocksDB, through its C interface: an LSM tree. Its two kinds of transaction databases are two
//! stores here.
//!
//! With `Commits::Durable`: `sync=true`, one `fdatasync` of the write-ahead log for a group of
//! commits, whose leader syncs for all.
//!
//! With `Commits::Unsafe`: no write-ahead log (`disableWAL`).
//!
//! All other settings are defaults, with two exceptions: the block cache and the bloom filter that
//! RocksDB's guide recommends, and `deadlock_detect` of `Locking`. Without `deadlock_detect` a
//! deadlock would last until a lock request times out.
//!
//! `Locking` (TransactionDB): a transaction locks keys that it writes or reads for update; its
//! other reads see the latest committed values. `Optimistic` takes no locks; the commit finds
//! conflicts. Transactions that only read have a snapshot. Tables are prefixes of keys, as in
//! MyRocks.
//!
//! Safety rules:
//! 1. A database outlives all objects that are made from it: clients borrow the store, transactions
//!    borrow their client.
//! 2. Threads share databases and options, as RocksDB documents; each transaction, snapshot and
//!    iterator stays in one thread.
//! 3. Every pointer that RocksDB returns is freed once, by an [`Owned`] or after its last use.

mod ffi;
mod owned;
mod transaction;

use super::prefixes::{Kept, Prefixes};
use super::{Options, Rival, failed};
use katydid_workload::{Client, Counters, Intent, Result, Store, Transaction};
use owned::{Owned, checked};
use std::cell::Cell;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use transaction::RocksTransaction;

/// Kind of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Locking,
    Optimistic,
}

enum Database {
    Locking(*mut ffi::LockingDatabase, Owned<ffi::LockingTransactionOptions>),
    /// The optimistic database, with the base database that serves reads.
    Optimistic(*mut ffi::OptimisticDatabase, *mut ffi::Database, Owned<ffi::OptimisticTransactionOptions>),
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: rule 1: no object made from the database is left; rule 3: only this function
        // frees the pointers.
        unsafe {
            match self {
                Database::Locking(database, _) => ffi::rocksdb_transactiondb_close(*database),
                Database::Optimistic(database, base, _) => {
                    ffi::rocksdb_optimistictransactiondb_close_base_db(*base);
                    ffi::rocksdb_optimistictransactiondb_close(*database);
                }
            }
        }
    }
}

pub struct RocksDb {
    database: Database,
    write: Owned<ffi::WriteOptions>,
    read: Owned<ffi::ReadOptions>,
    prefixes: Prefixes,
}

// SAFETY: rule 2; options do not change after their creation.
unsafe impl Send for RocksDb {}
// SAFETY: rule 2; options do not change after their creation.
unsafe impl Sync for RocksDb {}

/// Bits of the bloom filter for each key.
const BLOOM_BITS: f64 = 10.0;

impl RocksDb {
    pub fn open(place: &Path, kind: Kind, options: &Options) -> Result<RocksDb> {
        let path = CString::new(place.as_os_str().as_bytes()).map_err(failed)?;
        let cache_bytes = usize::try_from(options.cache_bytes).map_err(failed)?;
        // SAFETY: each object is used as its declaration says and has one owner; tables keep their
        // own reference to the cache.
        unsafe {
            let settings = Owned::new(ffi::rocksdb_options_create(), ffi::rocksdb_options_destroy);
            ffi::rocksdb_options_set_create_if_missing(settings.it, 1);
            let blocks = Owned::new(
                ffi::rocksdb_block_based_options_create(),
                ffi::rocksdb_block_based_options_destroy,
            );
            let cache = Owned::new(ffi::rocksdb_cache_create_lru(cache_bytes), ffi::rocksdb_cache_destroy);
            ffi::rocksdb_block_based_options_set_block_cache(blocks.it, cache.it);
            ffi::rocksdb_block_based_options_set_filter_policy(
                blocks.it,
                ffi::rocksdb_filterpolicy_create_bloom(BLOOM_BITS),
            );
            ffi::rocksdb_options_set_block_based_table_factory(settings.it, blocks.it);
            let write = Owned::new(ffi::rocksdb_writeoptions_create(), ffi::rocksdb_writeoptions_destroy);
            match options.durable() {
                true => ffi::rocksdb_writeoptions_set_sync(write.it, 1),
                false => ffi::rocksdb_writeoptions_disable_WAL(write.it, 1),
            }
            let read = Owned::new(ffi::rocksdb_readoptions_create(), ffi::rocksdb_readoptions_destroy);
            let database = match kind {
                Kind::Locking => {
                    let locking = ffi::rocksdb_transactiondb_options_create();
                    let locking = Owned::new(locking, ffi::rocksdb_transactiondb_options_destroy);
                    let options = ffi::rocksdb_transaction_options_create();
                    ffi::rocksdb_transaction_options_set_deadlock_detect(options, 1);
                    let options = Owned::new(options, ffi::rocksdb_transaction_options_destroy);
                    let open = |error| {
                        ffi::rocksdb_transactiondb_open(settings.it, locking.it, path.as_ptr(), error)
                    };
                    Database::Locking(checked(open)?, options)
                }
                Kind::Optimistic => {
                    let options = ffi::rocksdb_optimistictransaction_options_create();
                    let options = Owned::new(options, ffi::rocksdb_optimistictransaction_options_destroy);
                    let database = checked(|error| {
                        ffi::rocksdb_optimistictransactiondb_open(settings.it, path.as_ptr(), error)
                    })?;
                    let base = ffi::rocksdb_optimistictransactiondb_get_base_db(database);
                    Database::Optimistic(database, base, options)
                }
            };
            Ok(RocksDb { database, write, read, prefixes: Prefixes::default() })
        }
    }

    /// Begins a transaction. Reuses the memory of `old` unless `old` is null.
    fn begin(&self, old: *mut ffi::Transaction) -> *mut ffi::Transaction {
        // SAFETY: all pointers live as long as the store; `old` is null or a transaction that has
        // ended.
        unsafe {
            match &self.database {
                Database::Locking(database, options) => {
                    ffi::rocksdb_transaction_begin(*database, self.write.it, options.it, old)
                }
                Database::Optimistic(database, _, options) => {
                    ffi::rocksdb_optimistictransaction_begin(*database, self.write.it, options.it, old)
                }
            }
        }
    }

    fn snapshot(&self) -> *const ffi::Snapshot {
        // SAFETY: the databases live as long as the store.
        unsafe {
            match &self.database {
                Database::Locking(database, _) => ffi::rocksdb_transactiondb_create_snapshot(*database),
                Database::Optimistic(_, base, _) => ffi::rocksdb_create_snapshot(*base),
            }
        }
    }

    fn release(&self, snapshot: *const ffi::Snapshot) {
        // SAFETY: the snapshot belongs to this database and is not used again.
        unsafe {
            match &self.database {
                Database::Locking(database, _) => {
                    ffi::rocksdb_transactiondb_release_snapshot(*database, snapshot)
                }
                Database::Optimistic(_, base, _) => ffi::rocksdb_release_snapshot(*base, snapshot),
            }
        }
    }
}

impl Kept for RocksDb {
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let client = RocksClient::new(self, Vec::new());
        RocksTransaction::begin(&client, Intent::ReadOnly, 0).find(key)
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let client = RocksClient::new(self, Vec::new());
        let mut transaction = RocksTransaction::begin(&client, Intent::ReadWrite, 0);
        transaction.set(key, value)?;
        transaction.commit()
    }
}

impl Store for RocksDb {
    type Client<'s> = RocksClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<RocksClient<'_>> {
        let tables = tables.iter().map(|name| self.prefixes.of(name, self)).collect::<Result<_>>()?;
        Ok(RocksClient::new(self, tables))
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        let kind = match self.database {
            Database::Locking(..) => "TransactionDB",
            Database::Optimistic(..) => "OptimisticTransactionDB",
        };
        format!("rocksdb {}, {kind}", env!("KATYDID_ROCKSDB_VERSION"))
    }
}

impl Rival for RocksDb {
    fn close(self) -> Result<()> {
        drop(self);
        Ok(())
    }
}

pub struct RocksClient<'s> {
    store: &'s RocksDb,
    tables: Vec<u8>,
    /// Options of reads. They name the snapshot of the reading transaction while it exists.
    read: Owned<ffi::ReadOptions>,
    /// A transaction that has ended, whose memory the next transaction reuses; or null.
    spare: Cell<*mut ffi::Transaction>,
}

impl<'s> RocksClient<'s> {
    fn new(store: &'s RocksDb, tables: Vec<u8>) -> RocksClient<'s> {
        // SAFETY: the call only creates new options.
        let read = Owned::new(unsafe { ffi::rocksdb_readoptions_create() }, ffi::rocksdb_readoptions_destroy);
        RocksClient { store, tables, read, spare: Cell::new(ptr::null_mut()) }
    }
}

impl Drop for RocksClient<'_> {
    fn drop(&mut self) {
        let spare = self.spare.get();
        if !spare.is_null() {
            // SAFETY: rule 3: the transaction has ended, and no other thread has this pointer.
            unsafe { ffi::rocksdb_transaction_destroy(spare) }
        }
    }
}

impl Client for RocksClient<'_> {
    type Transaction<'c>
        = RocksTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<RocksTransaction<'_>> {
        Ok(RocksTransaction::begin(self, intent, self.tables[0]))
    }

    fn poll(&mut self) -> usize {
        0
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait_below(&mut self, _limit: usize) -> Result<()> {
        Ok(())
    }
}
