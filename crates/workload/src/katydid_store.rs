//! Katydid behind the [`Store`] trait. Each client has a session whose callbacks run on the
//! client's thread.

use crate::store::{Client, Counters, Intent, Keys, Result, Shown, Store, StoreError, Transaction};
use katydid::{Database, Error, Session, Table};
use std::ops::Bound;

/// A database on which workloads run.
#[derive(Debug, Clone)]
pub struct KatydidStore {
    database: Database,
}

impl KatydidStore {
    /// A store over an open database. The durability of commits was chosen when the database was
    /// opened.
    pub fn new(database: Database) -> Self {
        KatydidStore { database }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

fn failed(error: Error) -> StoreError {
    if error.is_retryable() {
        StoreError::Conflict(Box::new(error))
    } else {
        StoreError::Failed(Box::new(error))
    }
}

impl Store for KatydidStore {
    type Client<'s> = KatydidClient;

    fn client(&self, tables: &[&str]) -> Result<KatydidClient> {
        let open = |name: &&str| self.database.table(name).map_err(failed);
        Ok(KatydidClient {
            tables: tables.iter().map(open).collect::<Result<_>>()?,
            session: self.database.session(),
            database: self.database.clone(),
        })
    }

    fn counters(&self) -> Result<Counters> {
        let stat = self.database.stat().map_err(failed)?;
        Ok(Counters { syncs: Some(stat.log.syncs), bytes_synced: Some(stat.log.bytes_synced) })
    }

    fn describe(&self) -> String {
        format!("katydid {}", env!("CARGO_PKG_VERSION"))
    }
}

/// One thread's access to tables of a [`KatydidStore`].
#[derive(Debug)]
pub struct KatydidClient {
    database: Database,
    tables: Vec<Table>,
    session: Session,
}

impl Client for KatydidClient {
    type Transaction<'c> = KatydidTransaction<'c>;

    fn begin(&mut self, intent: Intent) -> Result<KatydidTransaction<'_>> {
        let begun = match intent {
            Intent::ReadOnly => self.database.begin_read_only(),
            Intent::ReadWrite => self.database.begin(),
        };
        Ok(KatydidTransaction { transaction: begun.map_err(failed)?, table: &self.tables[0], client: self })
    }

    fn poll(&mut self) -> usize {
        self.session.poll()
    }

    fn pending(&self) -> usize {
        self.session.pending()
    }

    fn wait_below(&mut self, limit: usize) -> Result<()> {
        self.session.wait_below(limit).map_err(failed)
    }
}

/// A transaction of a [`KatydidClient`].
#[derive(Debug)]
pub struct KatydidTransaction<'c> {
    transaction: katydid::Transaction,
    table: &'c Table,
    client: &'c KatydidClient,
}

impl Transaction for KatydidTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = &self.client.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.get(self.table, key).map_err(failed)
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.transaction.get_with(self.table, key, visit).map_err(failed)?;
        Ok(found.is_some())
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.get_for_update(self.table, key).map_err(failed)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.put(self.table, key, value).map_err(failed)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.insert(self.table, key, value).map_err(|error| match error {
            Error::KeyExists { .. } => StoreError::KeyExists(Shown(key).to_string()),
            error => failed(error),
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.transaction.delete(self.table, key).map_err(failed)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let bounds = (Bound::Included(keys.from), keys.to.map_or(Bound::Unbounded, Bound::Excluded));
        let mut seen = 0;
        let mut range = self.transaction.range(self.table, bounds).limit(limit);
        while let Some((key, value)) = range.next_ref().map_err(failed)? {
            visit(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn commit(self) -> Result<()> {
        self.transaction.commit().map(|_| ()).map_err(failed)
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        self.transaction
            .commit_with(&self.client.session, move |result| done(result.map(|_| ()).map_err(failed)));
    }
}
