//! LMDB through heed: a copy-on-write B-tree in a memory map.
//!
//! With `Commits::Durable`: no flags. A commit writes its pages, syncs them (`fdatasync`) and then
//! writes the meta page through a descriptor opened with `O_DSYNC`.
//!
//! With `Commits::Unsafe`: the flags `NO_SYNC`, `WRITE_MAP` and `MAP_ASYNC`.
//!
//! One transaction writes at a time, so transactions are serializable; other writers wait in
//! `begin`. Readers have a snapshot. LMDB's cache is the page cache of the operating system, so
//! `cache_bytes` has no effect.

use super::{Options, Rival, exists, failed, read_only};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, Transaction};
use std::ops::Bound;
use std::path::Path;

/// Maximum size of a store in bytes. The map only reserves addresses; with a writable map the file
/// also has this length, with holes.
const MAP_BYTES: usize = 64 << 30;

/// Number of readers other than the clients: the checks after a run.
const OTHER_READERS: usize = 16;

/// Maximum number of tables.
const TABLES_MAX: u32 = 32;

pub struct Lmdb {
    env: Env<WithTls>,
}

impl Lmdb {
    pub fn open(place: &Path, options: &Options) -> Result<Lmdb> {
        let mut settings = EnvOpenOptions::new();
        let readers = u32::try_from(options.clients + OTHER_READERS).map_err(failed)?;
        settings.map_size(MAP_BYTES).max_dbs(TABLES_MAX).max_readers(readers);
        if !options.durable() {
            // SAFETY: without syncs a machine crash may corrupt the file. No process opens the file
            // after a crash, because each run makes a new file. In this process only LMDB writes
            // through the map.
            unsafe { settings.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::MAP_ASYNC) };
        }
        // SAFETY: the folder belongs to this run: no other process changes the file under the map,
        // and this process never has the folder open twice at the same time.
        let env = unsafe { settings.open(place) }.map_err(failed)?;
        Ok(Lmdb { env })
    }
}

impl Store for Lmdb {
    type Client<'s> = LmdbClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<LmdbClient<'_>> {
        let table = |name: &&str| {
            let write = self.env.write_txn()?;
            let made = self.env.create_databases_and_commit(write, |options, write| {
                options.create_database::<Bytes, Bytes>(write, Some(name)).map(CommitOrAbort::<_, ()>::Commit)
            });
            Ok(made?.unwrap_commit())
        };
        let tables = tables.iter().map(table).collect::<heed::Result<_>>().map_err(failed)?;
        Ok(LmdbClient { env: &self.env, tables })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        let version = heed::lmdb_version();
        format!("lmdb {}.{}.{}, heed 0.23.1", version.major, version.minor, version.patch)
    }
}

impl Rival for Lmdb {
    fn close(self) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

pub struct LmdbClient<'s> {
    env: &'s Env<WithTls>,
    tables: Vec<Database<'s, Bytes, Bytes>>,
}

impl Client for LmdbClient<'_> {
    type Transaction<'c>
        = LmdbTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<LmdbTransaction<'_>> {
        let view = match intent {
            Intent::ReadOnly => View::Read(self.env.read_txn().map_err(failed)?),
            Intent::ReadWrite => View::Write(self.env.write_txn().map_err(failed)?),
        };
        Ok(LmdbTransaction { view, table: &self.tables[0], tables: &self.tables })
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

enum View<'c> {
    Read(RoTxn<'c, WithTls>),
    Write(RwTxn<'c>),
}

pub struct LmdbTransaction<'c> {
    view: View<'c>,
    table: &'c Database<'c, Bytes, Bytes>,
    tables: &'c [Database<'c, Bytes, Bytes>],
}

impl<'c> LmdbTransaction<'c> {
    fn reader(&self) -> &RoTxn<'_> {
        match &self.view {
            View::Read(read) => read,
            View::Write(write) => write,
        }
    }

    fn write(&mut self) -> Result<&mut RwTxn<'c>> {
        match &mut self.view {
            View::Read(_) => Err(read_only()),
            View::Write(write) => Ok(write),
        }
    }
}

impl Transaction for LmdbTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = &self.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.table.get(self.reader(), key).map_err(failed)?;
        Ok(found.map(<[u8]>::to_vec))
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.table.get(self.reader(), key).map_err(failed)?;
        Ok(found.map(visit).is_some())
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table;
        table.put(self.write()?, key, value).map_err(failed)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table;
        match table.get_or_put(self.write()?, key, value).map_err(failed)? {
            Some(_) => Err(exists(key)),
            None => Ok(()),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let table = self.table;
        table.delete(self.write()?, key).map_err(failed)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut seen = 0;
        // LMDB has no empty keys and cannot seek to one.
        let from = if keys.from.is_empty() { Bound::Unbounded } else { Bound::Included(keys.from) };
        let bounds = (from, keys.to.map_or(Bound::Unbounded, Bound::Excluded));
        let found = self.table.range(self.reader(), &bounds).map_err(failed)?;
        for entry in found.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            visit(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn commit(self) -> Result<()> {
        match self.view {
            View::Read(_) => Ok(()),
            View::Write(write) => write.commit().map_err(failed),
        }
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
