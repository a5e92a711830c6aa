//! fjall: an LSM tree. Its two kinds of transactions are two stores here.
//!
//! With `Commits::Durable`: each transaction asks for `PersistMode::SyncData`. Each commit makes
//! one `fdatasync` of the journal under the journal's lock, without group commit.
//!
//! With `Commits::Unsafe`: journal records stay in the process (`manual_journal_persist`).
//!
//! `SingleWriter`: one transaction writes at a time, so transactions are serializable; other
//! writers wait. `Optimistic`: serializable snapshot isolation; the commit finds conflicts. Both
//! kinds read a snapshot.

use super::{Options, Rival, bounds, exists, failed, read_only};
use fjall::{
    Iter, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx,
    PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx, Snapshot,
};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};
use std::path::Path;

/// The parts in which the two kinds of transactions differ.
pub trait Kind: Send + Sync + Sized + 'static {
    type Keyspace: AsRef<Keyspace>;
    type Write<'d>: Readable;
    fn open(place: &Path, cache_bytes: u64, manual: bool) -> fjall::Result<Self>;
    fn keyspace(&self, name: &str) -> fjall::Result<Self::Keyspace>;
    fn begin(&self, durability: Option<PersistMode>) -> fjall::Result<Self::Write<'_>>;
    fn read(&self) -> Snapshot;
    fn put(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8], value: &[u8]);
    fn delete(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8]);
    fn commit(write: Self::Write<'_>) -> Result<()>;
    fn persist(&self) -> fjall::Result<()>;
    fn name() -> &'static str;
}

pub struct SingleWriter(SingleWriterTxDatabase);
pub struct Optimistic(OptimisticTxDatabase);

impl Kind for SingleWriter {
    type Keyspace = SingleWriterTxKeyspace;
    type Write<'d> = SingleWriterWriteTx<'d>;

    fn open(place: &Path, cache_bytes: u64, manual: bool) -> fjall::Result<Self> {
        let builder = SingleWriterTxDatabase::builder(place).cache_size(cache_bytes);
        builder.manual_journal_persist(manual).open().map(SingleWriter)
    }

    fn keyspace(&self, name: &str) -> fjall::Result<SingleWriterTxKeyspace> {
        self.0.keyspace(name, KeyspaceCreateOptions::default)
    }

    fn begin(&self, durability: Option<PersistMode>) -> fjall::Result<SingleWriterWriteTx<'_>> {
        Ok(self.0.write_tx().durability(durability))
    }

    fn read(&self) -> Snapshot {
        self.0.read_tx()
    }

    fn put(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8], value: &[u8]) {
        write.insert(keyspace, key, value);
    }

    fn delete(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8]) {
        write.remove(keyspace, key);
    }

    fn commit(write: Self::Write<'_>) -> Result<()> {
        write.commit().map_err(failed)
    }

    fn persist(&self) -> fjall::Result<()> {
        self.0.persist(PersistMode::SyncAll)
    }

    fn name() -> &'static str {
        "one writer at a time"
    }
}

impl Kind for Optimistic {
    type Keyspace = OptimisticTxKeyspace;
    type Write<'d> = OptimisticWriteTx;

    fn open(place: &Path, cache_bytes: u64, manual: bool) -> fjall::Result<Self> {
        let builder = OptimisticTxDatabase::builder(place).cache_size(cache_bytes);
        builder.manual_journal_persist(manual).open().map(Optimistic)
    }

    fn keyspace(&self, name: &str) -> fjall::Result<OptimisticTxKeyspace> {
        self.0.keyspace(name, KeyspaceCreateOptions::default)
    }

    fn begin(&self, durability: Option<PersistMode>) -> fjall::Result<OptimisticWriteTx> {
        Ok(self.0.write_tx()?.durability(durability))
    }

    fn read(&self) -> Snapshot {
        self.0.read_tx()
    }

    fn put(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8], value: &[u8]) {
        write.insert(keyspace, key, value);
    }

    fn delete(write: &mut Self::Write<'_>, keyspace: &Self::Keyspace, key: &[u8]) {
        write.remove(keyspace, key);
    }

    fn commit(write: Self::Write<'_>) -> Result<()> {
        let decided = write.commit().map_err(failed)?;
        decided.map_err(|conflict| StoreError::Conflict(conflict.into()))
    }

    fn persist(&self) -> fjall::Result<()> {
        self.0.persist(PersistMode::SyncAll)
    }

    fn name() -> &'static str {
        "optimistic"
    }
}

pub struct Fjall<K> {
    database: K,
    durability: Option<PersistMode>,
}

impl<K: Kind> Fjall<K> {
    pub fn open(place: &Path, options: &Options) -> Result<Fjall<K>> {
        let durability = options.durable().then_some(PersistMode::SyncData);
        let database = K::open(place, options.cache_bytes, !options.durable()).map_err(failed)?;
        Ok(Fjall { database, durability })
    }
}

impl<K: Kind> Store for Fjall<K> {
    type Client<'s> = FjallClient<'s, K>;

    fn client(&self, tables: &[&str]) -> Result<FjallClient<'_, K>> {
        let tables =
            tables.iter().map(|name| self.database.keyspace(name).map_err(failed)).collect::<Result<_>>()?;
        Ok(FjallClient { store: self, tables })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        format!("fjall 3.1.13, {}", K::name())
    }
}

impl<K: Kind> Rival for Fjall<K> {
    fn close(self) -> Result<()> {
        self.database.persist().map_err(failed)
    }
}

pub struct FjallClient<'s, K: Kind> {
    store: &'s Fjall<K>,
    tables: Vec<K::Keyspace>,
}

impl<K: Kind> Client for FjallClient<'_, K> {
    type Transaction<'c>
        = FjallTransaction<'c, K>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<FjallTransaction<'_, K>> {
        let database = &self.store.database;
        let view = match intent {
            Intent::ReadOnly => View::Read(database.read()),
            Intent::ReadWrite => View::Write(database.begin(self.store.durability).map_err(failed)?),
        };
        Ok(FjallTransaction { view, table: &self.tables[0], tables: &self.tables })
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

enum View<W> {
    Read(Snapshot),
    Write(W),
}

pub struct FjallTransaction<'c, K: Kind> {
    view: View<K::Write<'c>>,
    table: &'c K::Keyspace,
    tables: &'c [K::Keyspace],
}

impl<'c, K: Kind> FjallTransaction<'c, K> {
    /// Returns the value of a key. fjall shares the bytes of the value.
    fn find(&self, key: &[u8]) -> Result<Option<::fjall::UserValue>> {
        let keyspace = self.table.as_ref();
        let found = match &self.view {
            View::Read(snapshot) => snapshot.get(keyspace, key),
            View::Write(write) => write.get(keyspace, key),
        };
        found.map_err(failed)
    }

    fn write(&mut self) -> Result<&mut K::Write<'c>> {
        match &mut self.view {
            View::Read(_) => Err(read_only()),
            View::Write(write) => Ok(write),
        }
    }
}

impl<K: Kind> Transaction for FjallTransaction<'_, K> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = &self.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.find(key)?.map(|value| value.to_vec()))
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.find(key)?.map(|value| visit(&value)).is_some())
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table;
        K::put(self.write()?, table, key, value);
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table;
        let write = self.write()?;
        if write.contains_key(table.as_ref(), key).map_err(failed)? {
            return Err(exists(key));
        }
        K::put(write, table, key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let table = self.table;
        let write = self.write()?;
        let there = write.contains_key(table.as_ref(), key).map_err(failed)?;
        if there {
            K::delete(write, table, key);
        }
        Ok(there)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let keyspace = self.table.as_ref();
        let bounds = bounds(keys);
        let found: Iter = match &self.view {
            View::Read(snapshot) => snapshot.range::<&[u8], _>(keyspace, bounds),
            View::Write(write) => write.range::<&[u8], _>(keyspace, bounds),
        };
        let mut seen = 0;
        for entry in found.take(limit) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            visit(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }

    fn commit(self) -> Result<()> {
        match self.view {
            View::Read(_) => Ok(()),
            View::Write(write) => K::commit(write),
        }
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
