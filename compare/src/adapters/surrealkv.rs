//! SurrealKV: an LSM tree whose commits pass through a pipeline and are futures.
//!
//! With `Commits::Durable`: `Durability::Immediate`, one `fdatasync` of the write-ahead log for all
//! commits of a batch. The log is filled with zeros ahead of use (`with_wal_preallocation`), which
//! is faster, but not the default.
//!
//! With `Commits::Unsafe`: `Durability::Eventual`, no sync.
//!
//! Transactions read a snapshot. The commit of a transaction is refused if another transaction has,
//! since the first one began, written a key that the first one writes or has read for update. So
//! the isolation is snapshot isolation, in which a read for update is as strong as a write. Tables
//! are prefixes of keys.
//!
//! A blocking client drives the future of its commit; with callbacks each commit is a task of a
//! runtime with two threads.

use super::prefixes::{Kept, Prefixes, end, full};
use super::{Options, Rival, exists, failed};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use surrealkv::{Durability, Error, LSMIterator, Mode, Tree, TreeBuilder};
use tokio::runtime::Runtime;

pub struct SurrealKv {
    tree: Tree,
    runtime: Runtime,
    durability: Durability,
    prefixes: Prefixes,
}

impl SurrealKv {
    pub fn open(place: &Path, options: &Options) -> Result<SurrealKv> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .map_err(failed)?;
        let settings = surrealkv::Options::new()
            .with_path(place.to_owned())
            .with_block_cache_capacity(options.cache_bytes)
            .with_wal_preallocation(true);
        let tree = {
            let _inside = runtime.enter();
            TreeBuilder::with_options(settings).build().map_err(wrong)?
        };
        let durability = if options.durable() { Durability::Immediate } else { Durability::Eventual };
        Ok(SurrealKv { tree, runtime, durability, prefixes: Prefixes::default() })
    }

    fn begin(&self, mode: Mode) -> Result<surrealkv::Transaction> {
        Ok(self.tree.begin_with_mode(mode).map_err(wrong)?.with_durability(self.durability))
    }
}

fn wrong(error: Error) -> StoreError {
    match error {
        Error::TransactionWriteConflict | Error::TransactionRetry => StoreError::Conflict(error.into()),
        error => failed(error),
    }
}

impl Kept for SurrealKv {
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.begin(Mode::ReadOnly)?.get(key).map_err(wrong)
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.begin(Mode::ReadWrite)?;
        transaction.set(key, value).map_err(wrong)?;
        self.runtime.block_on(transaction.commit()).map_err(wrong)
    }
}

impl Store for SurrealKv {
    type Client<'s> = SurrealClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<SurrealClient<'_>> {
        let tables = tables.iter().map(|name| self.prefixes.of(name, self)).collect::<Result<_>>()?;
        Ok(SurrealClient { store: self, tables, pending: Arc::default() })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        "surrealkv 1.2.0".to_owned()
    }
}

impl Rival for SurrealKv {
    fn close(self) -> Result<()> {
        self.runtime.block_on(self.tree.close()).map_err(wrong)
    }
}

/// Number of commits in flight. The client increments the number, and can wait until it is small
/// enough. The task of a commit decrements the number after the commit's callback has run.
#[derive(Default)]
struct Pending {
    many: Mutex<usize>,
    fewer: Condvar,
}

impl Pending {
    fn add(&self) {
        *self.many.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn done(&self) {
        *self.many.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fewer.notify_one();
    }
}

pub struct SurrealClient<'s> {
    store: &'s SurrealKv,
    tables: Vec<u8>,
    pending: Arc<Pending>,
}

impl Client for SurrealClient<'_> {
    type Transaction<'c>
        = SurrealTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<SurrealTransaction<'_>> {
        let mode = match intent {
            Intent::ReadOnly => Mode::ReadOnly,
            Intent::ReadWrite => Mode::ReadWrite,
        };
        let transaction = self.store.begin(mode)?;
        Ok(SurrealTransaction {
            transaction,
            intent,
            table: self.tables[0],
            tables: &self.tables,
            store: self.store,
            pending: &self.pending,
        })
    }

    /// Returns 0, because the runtime's threads run the callbacks.
    fn poll(&mut self) -> usize {
        0
    }

    fn pending(&self) -> usize {
        *self.pending.many.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_below(&mut self, limit: usize) -> Result<()> {
        let many = self.pending.many.lock().unwrap_or_else(PoisonError::into_inner);
        let fewer = self.pending.fewer.wait_while(many, |many| *many >= limit);
        drop(fewer.unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

pub struct SurrealTransaction<'c> {
    transaction: surrealkv::Transaction,
    intent: Intent,
    table: u8,
    tables: &'c [u8],
    store: &'c SurrealKv,
    pending: &'c Arc<Pending>,
}

impl SurrealTransaction<'_> {
    fn full(&self, key: &[u8]) -> Vec<u8> {
        full(self.table, key)
    }
}

impl Transaction for SurrealTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = self.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.get(self.full(key)).map_err(wrong)
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.full(key);
        self.transaction.get_for_update(key).map_err(wrong)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = self.full(key);
        self.transaction.set(key, value).map_err(wrong)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // If another transaction inserts the key meanwhile, the commit finds the conflict, because
        // this transaction writes the key as well.
        let long = self.full(key);
        if self.transaction.get(&long).map_err(wrong)?.is_some() {
            return Err(exists(key));
        }
        self.transaction.set(long, value).map_err(wrong)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let key = self.full(key);
        let there = self.transaction.get_for_update(&key).map_err(wrong)?.is_some();
        if there {
            self.transaction.delete(key).map_err(wrong)?;
        }
        Ok(there)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let (from, to) = (self.full(keys.from), end(self.table, keys.to));
        let mut found = self.transaction.range(from, to).map_err(wrong)?;
        let (mut more, mut seen) = (found.seek_first().map_err(wrong)?, 0);
        while more && seen < limit {
            visit(&found.key().user_key()[1..], &found.value_ref().map_err(wrong)?);
            seen += 1;
            more = found.next().map_err(wrong)?;
        }
        Ok(seen)
    }

    fn commit(mut self) -> Result<()> {
        match self.intent {
            Intent::ReadOnly => Ok(()),
            Intent::ReadWrite => self.store.runtime.block_on(self.transaction.commit()).map_err(wrong),
        }
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        if self.intent == Intent::ReadOnly {
            return done(Ok(()));
        }
        let pending = Arc::clone(self.pending);
        pending.add();
        let mut transaction = self.transaction;
        self.store.runtime.spawn(async move {
            done(transaction.commit().await.map_err(wrong));
            pending.done();
        });
    }
}
