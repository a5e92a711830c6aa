//! The paper's replication behind the [`Store`] trait: each client has a session of a cluster.
//!
//! A transaction collects its operations and sends them to all replicas when it commits. The client
//! locks keys that the transaction writes or reads for update, until all replicas have answered. A
//! read asks one replica. The read sees all acknowledged values, because a commit is acknowledged
//! only when all replicas have applied it. A lock that could cause a deadlock is reported as a
//! conflict, and the driver runs the transaction again. A callback runs inside the committing call.

use katydid_replica::client_driven::{Action, Cluster, Draft, Error, Operation, Refusal, Session};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};

/// Maximum number of rows that one request asks for.
const ROWS_MAX: usize = 512;

/// A cluster on which workloads run.
#[derive(Debug, Clone)]
pub struct ClientDrivenStore {
    cluster: Cluster,
}

impl ClientDrivenStore {
    pub fn new(cluster: Cluster) -> ClientDrivenStore {
        ClientDrivenStore { cluster }
    }
}

fn failed(error: Error) -> StoreError {
    match error {
        Error::KeyBusy => StoreError::Conflict(Box::new(error)),
        Error::Refused { refusal: Refusal::KeyExists { .. }, .. } => StoreError::KeyExists(error.to_string()),
        Error::Refused { ref refusal, .. } if refusal.is_retryable() => StoreError::Conflict(Box::new(error)),
        error => StoreError::Failed(Box::new(error)),
    }
}

impl Store for ClientDrivenStore {
    type Client<'s> = DraftClient;

    fn client(&self, tables: &[&str]) -> Result<DraftClient> {
        let session = Some(self.cluster.session().map_err(failed)?);
        Ok(DraftClient { session, tables: tables.iter().map(|table| (*table).to_owned()).collect() })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        format!("katydid-replica, client-driven, {}", env!("CARGO_PKG_VERSION"))
    }
}

/// One thread's access to a [`ClientDrivenStore`].
#[derive(Debug)]
pub struct DraftClient {
    /// `None` while the client is being dropped.
    session: Option<Session>,
    tables: Vec<String>,
}

impl Drop for DraftClient {
    /// Ends the session at the replicas.
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A session that remains has no effect until thousands of other sessions exist.
            let _stays = session.end();
        }
    }
}

impl Client for DraftClient {
    type Transaction<'c> = DraftTransaction<'c>;

    fn begin(&mut self, _intent: Intent) -> Result<DraftTransaction<'_>> {
        let ended = || StoreError::Failed("the session has ended".into());
        let session = self.session.as_mut().ok_or_else(ended)?;
        Ok(DraftTransaction { draft: session.begin().map_err(failed)?, table: 0, tables: &self.tables })
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

/// A transaction of a [`DraftClient`].
#[derive(Debug)]
pub struct DraftTransaction<'c> {
    draft: Draft<'c>,
    table: usize,
    tables: &'c [String],
}

impl DraftTransaction<'_> {
    fn add(&mut self, key: &[u8], action: Action) -> Result<()> {
        let table = self.tables[self.table].clone();
        self.draft.add(Operation { table, key: key.to_vec(), action }).map_err(failed)
    }
}

impl Transaction for DraftTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = table;
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = &self.tables[self.table];
        match self.draft.written(table, key) {
            Some(Action::Insert(value) | Action::Put(value)) => Ok(Some(value.clone())),
            Some(Action::Delete) => Ok(None),
            Some(Action::Read) | None => self.draft.read(table, key).map_err(failed),
        }
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.draft.lock(&self.tables[self.table], key).map_err(failed)?;
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, Action::Put(value.to_vec()))
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, Action::Insert(value.to_vec()))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        if self.get_for_update(key)?.is_none() {
            return Ok(false);
        }
        self.add(key, Action::Delete).map(|()| true)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        if self.draft.operations().iter().any(|operation| operation.action.writes()) {
            let text = "a range after a write in one transaction is not supported on replicas";
            return Err(StoreError::Failed(text.into()));
        }
        let table = &self.tables[self.table];
        let is_within = |key: &[u8]| keys.to.is_none_or(|to| key < to);
        let mut seen = 0;
        let mut after = None;
        // A request asks for keys after a given key, so the first key is read separately.
        if !keys.from.is_empty() && limit > 0 && is_within(keys.from) {
            if let Some(value) = self.draft.read(table, keys.from).map_err(failed)? {
                visit(keys.from, &value);
                seen += 1;
            }
            after = Some(keys.from.to_vec());
        }
        while seen < limit {
            let rows = (limit - seen).min(ROWS_MAX) as u32;
            let before = keys.to.map(<[u8]>::to_vec);
            let page = self.draft.rows(table, after.take(), before, rows).map_err(failed)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            page.iter().for_each(|(key, value)| visit(key, value));
            seen += page.len();
        }
        Ok(seen)
    }

    fn commit(self) -> Result<()> {
        if self.draft.operations().is_empty() {
            return Ok(());
        }
        self.draft.commit().map(drop).map_err(failed)
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
