//! The part of RocksDB's C interface that the adapter uses, as `rocksdb/c.h` declares it since
//! version 7.

use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};

macro_rules! opaque {
    ($($name:ident),* $(,)?) => { $(
        #[repr(C)]
        pub struct $name {
            _bytes: [u8; 0],
        }
    )* };
}

opaque!(
    BlockOptions,
    Cache,
    Database,
    Filter,
    Iterator,
    LockingDatabase,
    LockingOptions,
    LockingTransactionOptions,
    Options,
    OptimisticDatabase,
    OptimisticTransactionOptions,
    Pinned,
    ReadOptions,
    Snapshot,
    Transaction,
    WriteOptions,
);

/// Place for the error of a call. A call that fails stores a text, which the caller frees; a call
/// that succeeds stores nothing.
pub type Errors = *mut *mut c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub fn rocksdb_free(bytes: *mut c_void);

    pub fn rocksdb_options_create() -> *mut Options;
    pub fn rocksdb_options_destroy(options: *mut Options);
    pub fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    pub fn rocksdb_block_based_options_create() -> *mut BlockOptions;
    pub fn rocksdb_block_based_options_destroy(options: *mut BlockOptions);
    pub fn rocksdb_block_based_options_set_block_cache(options: *mut BlockOptions, cache: *mut Cache);
    /// Takes ownership of the filter.
    pub fn rocksdb_block_based_options_set_filter_policy(options: *mut BlockOptions, filter: *mut Filter);
    pub fn rocksdb_filterpolicy_create_bloom(bits_per_key: c_double) -> *mut Filter;
    pub fn rocksdb_options_set_block_based_table_factory(options: *mut Options, blocks: *mut BlockOptions);
    pub fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub fn rocksdb_cache_destroy(cache: *mut Cache);
    pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, yes: c_uchar);
    pub fn rocksdb_writeoptions_disable_WAL(options: *mut WriteOptions, yes: c_int);
    pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub fn rocksdb_readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const Snapshot);

    pub fn rocksdb_transactiondb_options_create() -> *mut LockingOptions;
    pub fn rocksdb_transactiondb_options_destroy(options: *mut LockingOptions);
    pub fn rocksdb_transactiondb_open(
        options: *const Options,
        locking: *const LockingOptions,
        path: *const c_char,
        error: Errors,
    ) -> *mut LockingDatabase;
    pub fn rocksdb_transactiondb_close(database: *mut LockingDatabase);
    pub fn rocksdb_transaction_options_create() -> *mut LockingTransactionOptions;
    pub fn rocksdb_transaction_options_destroy(options: *mut LockingTransactionOptions);
    pub fn rocksdb_transaction_options_set_deadlock_detect(
        options: *mut LockingTransactionOptions,
        yes: c_uchar,
    );
    pub fn rocksdb_transaction_begin(
        database: *mut LockingDatabase,
        write: *const WriteOptions,
        options: *const LockingTransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;
    pub fn rocksdb_transactiondb_create_snapshot(database: *mut LockingDatabase) -> *const Snapshot;
    pub fn rocksdb_transactiondb_release_snapshot(database: *mut LockingDatabase, snapshot: *const Snapshot);
    pub fn rocksdb_transactiondb_get_pinned(
        database: *mut LockingDatabase,
        options: *const ReadOptions,
        key: *const c_char,
        length: usize,
        error: Errors,
    ) -> *mut Pinned;
    pub fn rocksdb_transactiondb_create_iterator(
        database: *mut LockingDatabase,
        options: *const ReadOptions,
    ) -> *mut Iterator;

    pub fn rocksdb_optimistictransactiondb_open(
        options: *const Options,
        path: *const c_char,
        error: Errors,
    ) -> *mut OptimisticDatabase;
    pub fn rocksdb_optimistictransactiondb_close(database: *mut OptimisticDatabase);
    pub fn rocksdb_optimistictransactiondb_get_base_db(database: *mut OptimisticDatabase) -> *mut Database;
    pub fn rocksdb_optimistictransactiondb_close_base_db(database: *mut Database);
    pub fn rocksdb_optimistictransaction_options_create() -> *mut OptimisticTransactionOptions;
    pub fn rocksdb_optimistictransaction_options_destroy(options: *mut OptimisticTransactionOptions);
    pub fn rocksdb_optimistictransaction_begin(
        database: *mut OptimisticDatabase,
        write: *const WriteOptions,
        options: *const OptimisticTransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;
    pub fn rocksdb_create_snapshot(database: *mut Database) -> *const Snapshot;
    pub fn rocksdb_release_snapshot(database: *mut Database, snapshot: *const Snapshot);
    pub fn rocksdb_get_pinned(
        database: *mut Database,
        options: *const ReadOptions,
        key: *const c_char,
        length: usize,
        error: Errors,
    ) -> *mut Pinned;
    pub fn rocksdb_create_iterator(database: *mut Database, options: *const ReadOptions) -> *mut Iterator;

    pub fn rocksdb_transaction_commit(transaction: *mut Transaction, error: Errors);
    pub fn rocksdb_transaction_rollback(transaction: *mut Transaction, error: Errors);
    pub fn rocksdb_transaction_destroy(transaction: *mut Transaction);
    pub fn rocksdb_transaction_get_pinned(
        transaction: *mut Transaction,
        options: *const ReadOptions,
        key: *const c_char,
        length: usize,
        error: Errors,
    ) -> *mut Pinned;
    pub fn rocksdb_transaction_get_pinned_for_update(
        transaction: *mut Transaction,
        options: *const ReadOptions,
        key: *const c_char,
        length: usize,
        exclusive: c_uchar,
        error: Errors,
    ) -> *mut Pinned;
    pub fn rocksdb_transaction_put(
        transaction: *mut Transaction,
        key: *const c_char,
        length: usize,
        value: *const c_char,
        value_length: usize,
        error: Errors,
    );
    pub fn rocksdb_transaction_delete(
        transaction: *mut Transaction,
        key: *const c_char,
        length: usize,
        error: Errors,
    );
    pub fn rocksdb_transaction_create_iterator(
        transaction: *mut Transaction,
        options: *const ReadOptions,
    ) -> *mut Iterator;

    pub fn rocksdb_pinnableslice_value(pinned: *const Pinned, length: *mut usize) -> *const c_char;
    pub fn rocksdb_pinnableslice_destroy(pinned: *mut Pinned);
    pub fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, length: usize);
    pub fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    pub fn rocksdb_iter_key(iterator: *const Iterator, length: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_value(iterator: *const Iterator, length: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_next(iterator: *mut Iterator);
    pub fn rocksdb_iter_get_error(iterator: *const Iterator, error: Errors);
    pub fn rocksdb_iter_destroy(iterator: *mut Iterator);
}
