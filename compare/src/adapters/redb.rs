//! redb: a copy-on-write B-tree.
//!
//! With `Commits::Durable`: `Durability::Immediate`, redb's default. Each commit writes the pages
//! and a commit slot and ends with one `fdatasync` (one-phase commit with checksums, also the
//! default).
//!
//! With `Commits::Unsafe`: `Durability::None`, which keeps a commit in memory until a durable
//! commit follows.
//!
//! One transaction writes at a time, so transactions are serializable; other writers wait in
//! `begin`. Readers have a snapshot.

use super::{Options, Rival, bounds, exists, failed, read_only};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, Transaction};
use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table,
    TableDefinition, TableError, WriteTransaction,
};
use std::path::Path;

type Bytes = &'static [u8];

/// Name of the file in a store's folder.
const FILE: &str = "redb";

fn definition(name: &str) -> TableDefinition<'_, Bytes, Bytes> {
    TableDefinition::new(name)
}

pub struct Redb {
    database: Database,
    durability: Durability,
}

impl Redb {
    pub fn open(place: &Path, options: &Options) -> Result<Redb> {
        let cache_bytes = usize::try_from(options.cache_bytes).map_err(failed)?;
        let database =
            Database::builder().set_cache_size(cache_bytes).create(place.join(FILE)).map_err(failed)?;
        let durability = if options.durable() { Durability::Immediate } else { Durability::None };
        Ok(Redb { database, durability })
    }

    /// Creates missing tables, so that readers find them.
    fn make(&self, tables: &[&str]) -> Result<()> {
        let read = self.database.begin_read().map_err(failed)?;
        let mut missing = false;
        for name in tables {
            match read.open_table(definition(name)) {
                Ok(_) => {}
                Err(TableError::TableDoesNotExist(_)) => missing = true,
                Err(error) => return Err(failed(error)),
            }
        }
        if missing {
            let write = self.database.begin_write().map_err(failed)?;
            for name in tables {
                write.open_table(definition(name)).map_err(failed)?;
            }
            write.commit().map_err(failed)?;
        }
        Ok(())
    }
}

impl Store for Redb {
    type Client<'s> = RedbClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<RedbClient<'_>> {
        self.make(tables)?;
        Ok(RedbClient { store: self, tables: tables.iter().map(|name| (*name).to_owned()).collect() })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        "redb 4.6.0".to_owned()
    }
}

impl Rival for Redb {
    fn close(self) -> Result<()> {
        // Earlier commits may have been made with `Durability::None`. This commit has redb's
        // default, `Immediate`, and makes them durable.
        self.database.begin_write().map_err(failed)?.commit().map_err(failed)?;
        self.database.close().map_err(failed)
    }
}

pub struct RedbClient<'s> {
    store: &'s Redb,
    tables: Vec<String>,
}

impl Client for RedbClient<'_> {
    type Transaction<'c>
        = RedbTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<RedbTransaction<'_>> {
        let view = match intent {
            Intent::ReadOnly => {
                let read = self.store.database.begin_read().map_err(failed)?;
                View::Read(read, self.tables.iter().map(|_| None).collect())
            }
            Intent::ReadWrite => {
                let mut write = self.store.database.begin_write().map_err(failed)?;
                write.set_durability(self.store.durability).map_err(failed)?;
                View::Write(Box::new(write))
            }
        };
        Ok(RedbTransaction { view, table: 0, tables: &self.tables })
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

enum View {
    /// A reading transaction, with the tables that it has opened.
    Read(ReadTransaction, Vec<Option<ReadOnlyTable<Bytes, Bytes>>>),
    Write(Box<WriteTransaction>),
}

pub struct RedbTransaction<'c> {
    view: View,
    table: usize,
    tables: &'c [String],
}

impl RedbTransaction<'_> {
    /// Passes the table to `work` for reading. A writing transaction opens the table for each call,
    /// because an open table borrows the transaction.
    fn read<T>(&mut self, work: impl FnOnce(&dyn Readable) -> Result<T>) -> Result<T> {
        let name = definition(&self.tables[self.table]);
        match &mut self.view {
            View::Read(read, tables) => {
                let table = &mut tables[self.table];
                if table.is_none() {
                    *table = Some(read.open_table(name).map_err(failed)?);
                }
                match table {
                    Some(table) => work(table),
                    None => Err(failed("a table that was opened is not there")),
                }
            }
            View::Write(write) => work(&write.open_table(name).map_err(failed)?),
        }
    }

    fn write<T>(&mut self, work: impl FnOnce(&mut Table<'_, Bytes, Bytes>) -> Result<T>) -> Result<T> {
        match &self.view {
            View::Read(..) => Err(read_only()),
            View::Write(write) => {
                let mut table = write.open_table(definition(&self.tables[self.table])).map_err(failed)?;
                work(&mut table)
            }
        }
    }
}

/// The reads that both kinds of tables support.
trait Readable {
    fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn find_with(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;
    fn walk(&self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;
}

impl<T: ReadableTable<Bytes, Bytes>> Readable for T {
    fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.get(key).map_err(failed)?.map(|value| value.value().to_vec()))
    }

    fn find_with(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.get(key).map_err(failed)?;
        Ok(found.map(|value| visit(value.value())).is_some())
    }

    fn walk(&self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut seen = 0;
        for entry in self.range::<&[u8]>(bounds(keys)).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            visit(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }
}

impl Transaction for RedbTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = table;
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|table| table.find(key))
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.read(|table| table.find_with(key, visit))
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| table.insert(key, value).map(|_| ()).map_err(failed))
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| {
            if table.get(key).map_err(failed)?.is_some() {
                return Err(exists(key));
            }
            table.insert(key, value).map(|_| ()).map_err(failed)
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.write(|table| Ok(table.remove(key).map_err(failed)?.is_some()))
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        self.read(|table| table.walk(keys, limit, visit))
    }

    fn read_modify_write(&mut self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool> {
        self.write(|table| {
            let Some(mut value) = table.find(key)? else { return Ok(false) };
            change(&mut value);
            table.insert(key, value.as_slice()).map_err(failed)?;
            Ok(true)
        })
    }

    fn commit(self) -> Result<()> {
        match self.view {
            View::Read(..) => Ok(()),
            View::Write(write) => write.commit().map_err(failed),
        }
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
