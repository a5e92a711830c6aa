//! RocksDB, through its C interface: an LSM tree; its two kinds of transaction databases are two
//! stores here.
//!
//! Durable: `sync=true`, one `fdatasync` of the write-ahead log for a group of commits, whose
//! leader syncs for all. Unsafe: no write-ahead log (`disableWAL`). All else is as by default, but
//! for the block cache and a bloom filter, as its guide advises.
//!
//! `Locking` (TransactionDB): what is written or read for update is locked, other reads of a
//! transaction that writes see what is committed. `Optimistic`: the same without locks; the commit
//! finds who was in the way. Transactions that only read have a snapshot. Tables are prefixes of
//! keys, as in MyRocks.
//!
//! Safety rules:
//! 1. A database outlives all that is made of it: clients borrow the store, transactions their
//!    client.
//! 2. Databases and options are shared by threads, as RocksDB documents; transactions, snapshots
//!    and iterators stay in one.
//! 3. Every pointer that RocksDB hands out is freed once, by an [`Owned`] or where it is last used.

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
    /// With the database below it, which reads.
    Optimistic(*mut ffi::OptimisticDatabase, *mut ffi::Database, Owned<ffi::OptimisticTransactionOptions>),
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: rule 1: nothing made of it is left; rule 3: the pointers are freed here alone.
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

// SAFETY: rule 2; options are not changed after they were made.
unsafe impl Send for RocksDb {}
// SAFETY: rule 2; options are not changed after they were made.
unsafe impl Sync for RocksDb {}

/// Bits of a bloom filter for each key.
const BLOOM_BITS: f64 = 10.0;

impl RocksDb {
    pub fn open(place: &Path, kind: Kind, options: &Options) -> Result<RocksDb> {
        let path = CString::new(place.as_os_str().as_bytes()).map_err(failed)?;
        let cache_bytes = usize::try_from(options.cache_bytes).map_err(failed)?;
        // SAFETY: each object is used as its declaration says and owned once; tables keep their own
        // reference to the cache.
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

    /// Begins a transaction, in the memory of `old` if that is not null.
    fn begin(&self, old: *mut ffi::Transaction) -> *mut ffi::Transaction {
        // SAFETY: all pointers live as long as the store; `old` is a transaction that has ended.
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
        // SAFETY: the snapshot is this database's and is not used again.
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
    /// With the snapshot of the transaction that reads, while there is one.
    read: Owned<ffi::ReadOptions>,
    /// A transaction that has ended, for the next to be begun in its memory; or null.
    spare: Cell<*mut ffi::Transaction>,
}

impl<'s> RocksClient<'s> {
    fn new(store: &'s RocksDb, tables: Vec<u8>) -> RocksClient<'s> {
        // SAFETY: it makes new options.
        let read = Owned::new(unsafe { ffi::rocksdb_readoptions_create() }, ffi::rocksdb_readoptions_destroy);
        RocksClient { store, tables, read, spare: Cell::new(ptr::null_mut()) }
    }
}

impl Drop for RocksClient<'_> {
    fn drop(&mut self) {
        let spare = self.spare.get();
        if !spare.is_null() {
            // SAFETY: rule 3: it has ended, and no other thread has it.
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
