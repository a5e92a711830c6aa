//! A Raft group of replicas behind the [`Store`] trait. Each client has a session of the group.
//!
//! A transaction sends its writes when it commits, as one write set. Its earlier reads are separate
//! linearizable calls, which the commit does not validate. If two transactions read and write one
//! row at the same time, one of the changes may be lost. An insert does not check whether its key
//! exists.
//!
//! | lock | guards | rank |
//! |---|---|---|
//! | `InFlight` | number of a client's commits without an outcome | none: no other lock is held |

use katydid_replica as replica;
use katydid_replica::{ReadAt, RequestId, Write, WriteOptions, WriteSet};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Maximum number of rows that one call asks for.
const ROWS_MAX: usize = 10_000;

/// A group on which workloads run.
#[derive(Debug, Clone)]
pub struct GroupStore {
    client: replica::Client,
    options: WriteOptions,
    read_at: ReadAt,
}

impl GroupStore {
    /// The store over a client of the group. `options` say when commits are acknowledged.
    pub fn new(client: replica::Client, options: WriteOptions, read_at: ReadAt) -> GroupStore {
        GroupStore { client, options, read_at }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Failed(Box::new(error))
}

impl Store for GroupStore {
    type Client<'s> = GroupClient;

    fn client(&self, tables: &[&str]) -> Result<GroupClient> {
        let session = self.client.open_client().map_err(failed)?;
        Ok(GroupClient {
            client: self.client.clone(),
            options: self.options,
            read_at: self.read_at,
            tables: tables.iter().map(|table| (*table).to_owned()).collect(),
            last: RequestId { client: session, sequence: 0 },
            in_flight: Arc::default(),
        })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        format!("katydid-replica {}", env!("CARGO_PKG_VERSION"))
    }
}

/// Number of commits that have no outcome yet.
#[derive(Debug, Default)]
struct InFlight {
    count: Mutex<usize>,
    fell: Condvar,
}

impl InFlight {
    fn count(&self) -> usize {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fell.notify_all();
    }

    fn wait_below(&self, limit: usize) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.fell.wait_while(count, |count| *count >= limit);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// One thread's access to a [`GroupStore`].
#[derive(Debug)]
pub struct GroupClient {
    client: replica::Client,
    options: WriteOptions,
    read_at: ReadAt,
    tables: Vec<String>,
    /// Id of the last request.
    last: RequestId,
    in_flight: Arc<InFlight>,
}

impl Client for GroupClient {
    type Transaction<'c> = GroupTransaction<'c>;

    fn begin(&mut self, _intent: Intent) -> Result<GroupTransaction<'_>> {
        Ok(GroupTransaction { client: self, table: 0, set: WriteSet::default() })
    }

    /// Returns 0, because callbacks run on the thread of the group's client.
    fn poll(&mut self) -> usize {
        0
    }

    fn pending(&self) -> usize {
        self.in_flight.count()
    }

    fn wait_below(&mut self, limit: usize) -> Result<()> {
        self.in_flight.wait_below(limit);
        Ok(())
    }
}

/// A transaction of a [`GroupClient`].
#[derive(Debug)]
pub struct GroupTransaction<'c> {
    client: &'c mut GroupClient,
    table: usize,
    set: WriteSet,
}

impl GroupTransaction<'_> {
    fn table(&self) -> &str {
        &self.client.tables[self.table]
    }

    /// The value that this transaction has written to a key: `Some(None)` if it has deleted the
    /// key, `None` if it has not written the key.
    fn written(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let same = |write: &&Write| write.table() == self.table() && write.key() == Some(key);
        match self.set.writes.iter().rev().find(same)? {
            Write::Put { value, .. } => Some(Some(value.clone())),
            _ => Some(None),
        }
    }

    /// The write set, with the id of its request.
    fn request(self) -> (RequestId, WriteSet) {
        self.client.last.sequence += 1;
        (self.client.last, self.set)
    }
}

/// Translates the outcome of a commit for the driver.
fn outcome(committed: replica::Result<replica::Committed>) -> Result<()> {
    let confirmed = committed.map_err(failed)?.confirmed();
    confirmed.map(drop).map_err(|error| StoreError::Failed(error.into()))
}

impl Transaction for GroupTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = table;
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.written(key) {
            Some(value) => Ok(value),
            None => self.client.client.get(self.table(), key, self.client.read_at).map_err(failed),
        }
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table().to_owned();
        self.set.writes.push(Write::Put { table, key: key.to_vec(), value: value.to_vec() });
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let was_there = self.get(key)?.is_some();
        let table = self.table().to_owned();
        self.set.writes.push(Write::Delete { table, key: key.to_vec() });
        Ok(was_there)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        if !self.set.writes.is_empty() {
            let text = "a range after a write in one transaction is not supported on replicas".to_owned();
            return Err(StoreError::Failed(text.into()));
        }
        let mut low = Bound::Included(keys.from.to_vec());
        let high = keys.to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.to_vec()));
        let mut seen = 0;
        while seen < limit {
            let rows = (limit - seen).min(ROWS_MAX) as u32;
            let found =
                self.client.client.range(self.table(), (low, high.clone()), rows, self.client.read_at);
            let found = found.map_err(failed)?;
            found.rows.iter().for_each(|(key, value)| visit(key, value));
            seen += found.rows.len();
            match found.rows.last() {
                Some((last, _)) if !found.is_whole => low = Bound::Excluded(last.clone()),
                _ => break,
            }
        }
        Ok(seen)
    }

    fn commit(self) -> Result<()> {
        if self.set.writes.is_empty() {
            return Ok(());
        }
        let (client, options) = (self.client.client.clone(), self.client.options);
        let (id, set) = self.request();
        outcome(client.write(id, set, options))
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        if self.set.writes.is_empty() {
            return done(Ok(()));
        }
        let (client, options) = (self.client.client.clone(), self.client.options);
        let in_flight = Arc::clone(&self.client.in_flight);
        let (id, set) = self.request();
        in_flight.begin();
        client.write_with(id, set, options, move |committed| {
            done(outcome(committed));
            in_flight.end();
        });
    }
}
