//! A replica's state in the engine: applying writes, views, and replacing the state by a received
//! snapshot.
//!
//! Any thread may read. Only the task of the group's state machine applies writes and replaces the
//! state. Commits of the engine do not sync the engine's own log, because the durability of a write
//! comes from the Raft log. Invariants:
//!
//! 1. The transaction that applies entries checks the row [`APPLIED`] and then sets it to the last
//!    of these entries. So a crash leaves the state at one index of the log, and the entries above
//!    that index are applied again, once.
//! 2. A snapshot's index is reported only when everything up to it is durable in the engine. So
//!    only entries whose effects the engine has on its device are purged from the Raft log.
//! 3. A folder `store-N` counts only if it has the row [`IDENTITY`]. In a received snapshot this
//!    row is written last. It is durable before the former folder is removed. If several folders
//!    count, the folder with the largest number is used. The other folders are removed when the
//!    replica is opened.
//!
//! A crash while a snapshot is received leaves a folder that does not count.

use crate::error::{Error, Result};
use crate::ids::ReplicaId;
use crate::place::Place;
use crate::sessions::Sessions;
use crate::types::{LogId, Membership, SnapshotMeta};
use crate::write_set::{RESERVED_PREFIX, Write};
use katydid::{Database, Durability, KEY_BYTES_MAX, Options, Table, Transaction, TransactionOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// The table of the replica's own rows.
const SYSTEM: &str = "katydid.replica";
const APPLIED: &str = "applied";
const IDENTITY: &str = "identity";
const CLIENT: &str = "client/";
/// Pause before the next try to apply entries for which a reader's old values left no room.
const READER_PAUSE: Duration = Duration::from_millis(10);

/// Owner of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) cluster: [u8; 16],
    pub(crate) replica: ReplicaId,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "replica {} of cluster {:032x}", self.replica, u128::from_be_bytes(self.cluster))
    }
}

/// The last applied entry, and the members of the group at that entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppliedState {
    pub(crate) log_id: Option<LogId>,
    pub(crate) membership: Membership,
}

impl AppliedState {
    /// Returns the index of the last applied entry; 0 if there is none.
    pub(crate) fn index(&self) -> u64 {
        self.log_id.map_or(0, |id| id.index)
    }

    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.log_id, last_membership: self.membership.clone() }
    }
}

/// A replica's state in the engine.
pub(crate) struct Store {
    place: Arc<dyn Place>,
    options: Options,
    identity: Identity,
    current: RwLock<Arc<Opened>>,
    /// True once the store is closed. An installation holds this latch to its end, so that the
    /// state is not replaced after the store was closed. A thread takes this latch before
    /// `current`.
    is_closed: Mutex<bool>,
    /// Number of snapshots that are being received, each with an open folder.
    receiving: Arc<watch::Sender<usize>>,
}

/// One folder of the state, open.
pub(crate) struct Opened {
    number: u64,
    database: Database,
    system: Table,
    tables: Mutex<HashMap<String, Table>>,
}

/// A view of the state at one index.
pub(crate) struct View {
    opened: Arc<Opened>,
    transaction: Transaction,
    pub(crate) applied: AppliedState,
}

/// A snapshot that is being received.
pub(crate) struct Received {
    opened: Option<Opened>,
    place: Arc<dyn Place>,
    rows: u64,
    /// Declared last, so that it counts until the folder is closed.
    _counted: Counted,
}

/// Counts one snapshot that is being received.
struct Counted(Arc<watch::Sender<usize>>);

impl Counted {
    fn new(receiving: &Arc<watch::Sender<usize>>) -> Self {
        receiving.send_modify(|count| *count += 1);
        Counted(receiving.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A row of a snapshot: key and value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row(
    #[serde(with = "serde_bytes")] pub(crate) Vec<u8>,
    #[serde(with = "serde_bytes")] pub(crate) Vec<u8>,
);

fn encode(row: &str, value: &impl Serialize) -> Result<Vec<u8>> {
    let failed =
        |error: rmp_serde::encode::Error| Error::Row { row: row.to_owned(), reason: error.to_string() };
    rmp_serde::to_vec_named(value).map_err(failed)
}

fn decode<T: DeserializeOwned>(row: &str, bytes: &[u8]) -> Result<T> {
    let failed =
        |error: rmp_serde::decode::Error| Error::Row { row: row.to_owned(), reason: error.to_string() };
    rmp_serde::from_slice(bytes).map_err(failed)
}

fn client_row(client: u64) -> Vec<u8> {
    [CLIENT.as_bytes(), &client.to_be_bytes()].concat()
}

impl Opened {
    fn open(place: &dyn Place, number: u64, options: &Options) -> Result<Self> {
        options.validate()?;
        let database = Database::open_in(place.store(number)?, options.clone())?;
        let system = database.table(SYSTEM)?;
        Ok(Opened { number, database, system, tables: Mutex::default() })
    }

    /// Returns the table with this name, if there is one.
    fn table(&self, name: &str) -> Result<Option<Table>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(name) {
            return Ok(Some(table.clone()));
        }
        let found = self.database.open_table(name)?;
        if let Some(table) = &found {
            tables.insert(name.to_owned(), table.clone());
        }
        Ok(found)
    }

    fn table_or_new(&self, name: &str) -> Result<Table> {
        match self.table(name)? {
            Some(table) => Ok(table),
            None => Ok(self.database.table(name)?),
        }
    }

    fn applied(&self, transaction: &Transaction) -> Result<AppliedState> {
        let row = transaction.get(&self.system, APPLIED)?;
        row.map_or_else(|| Ok(AppliedState::default()), |row| decode(APPLIED, &row))
    }

    fn identity(&self) -> Result<Option<Identity>> {
        let row = self.database.get(&self.system, IDENTITY)?;
        row.map(|row| decode(IDENTITY, &row)).transpose()
    }

    fn view(self: &Arc<Self>) -> Result<View> {
        let transaction = self.database.begin_read_only()?;
        let applied = self.applied(&transaction)?;
        Ok(View { opened: self.clone(), transaction, applied })
    }
}

impl View {
    /// Returns the value of a key. No table has a key that is too long for the engine.
    pub(crate) fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        match self.opened.table(table)? {
            Some(table) => Ok(self.transaction.get(&table, key)?),
            None => Ok(None),
        }
    }

    /// Passes the keys between two bounds and their values to `take`, in order, until `take`
    /// returns false.
    pub(crate) fn range(
        &self,
        table: &str,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        mut take: impl FnMut(Vec<u8>, Vec<u8>) -> bool,
    ) -> Result<()> {
        let Some(table) = self.opened.table(table)? else { return Ok(()) };
        for entry in self.transaction.range(&table, (low, high)) {
            let (key, value) = entry?;
            if !take(key, value) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the names of the tables that a snapshot contains.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        Ok(self.opened.database.tables()?)
    }

    /// Returns the rows of a table after the key `after`, about `bytes_max` bytes; an empty list
    /// means the end. The rows [`APPLIED`] and [`IDENTITY`], which differ between replicas, are
    /// left out.
    pub(crate) fn rows(&self, table: &str, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<Row>> {
        let low = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        self.range(table, low, Bound::Unbounded, |key, value| {
            if table != SYSTEM || key.starts_with(CLIENT.as_bytes()) {
                bytes += key.len() + value.len();
                rows.push(Row(key, value));
            }
            bytes < bytes_max
        })?;
        Ok(rows)
    }
}

impl Store {
    /// Opens the state of a replica. The state is made if it is missing.
    pub(crate) fn open(place: Arc<dyn Place>, options: Options, identity: Identity) -> Result<Self> {
        let options = Options { durability: Durability::Buffered, ..options };
        let mut numbers = place.stores()?;
        numbers.sort_unstable();
        let mut current = None;
        for number in numbers.into_iter().rev() {
            if current.is_none() {
                let opened = Opened::open(&*place, number, &options)?;
                if let Some(found) = opened.identity()? {
                    if found != identity {
                        let (found, wanted) = (found.to_string(), identity.to_string());
                        return Err(Error::Identity { folder: place.describe(), found, wanted });
                    }
                    current = Some(opened);
                    continue;
                }
                opened.database.close()?;
            }
            place.remove_store(number)?;
        }
        let current = match current {
            Some(opened) => {
                // Makes the recovered state durable before it is reported as a snapshot (invariant
                // 2).
                opened.database.checkpoint()?;
                opened
            }
            None => {
                let opened = Opened::open(&*place, 1, &options)?;
                opened.complete(identity, &AppliedState::default())?;
                opened
            }
        };
        // This process holds the lock of the current folder, so no other process is removing a
        // folder.
        place.finish_removals()?;
        let (current, receiving) = (RwLock::new(Arc::new(current)), Arc::new(watch::Sender::new(0)));
        Ok(Store { place, options, identity, current, is_closed: Mutex::default(), receiving })
    }

    fn current(&self) -> Arc<Opened> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs a step on the current state. If a snapshot replaces the state meanwhile, which closes
    /// its database, runs the step again on the new state.
    fn on_current<T>(&self, step: impl Fn(&Arc<Opened>) -> Result<T>) -> Result<T> {
        loop {
            let opened = self.current();
            match step(&opened) {
                Err(Error::Engine(katydid::Error::Closed)) if !Arc::ptr_eq(&opened, &self.current()) => {}
                done => return done,
            }
        }
    }

    /// Returns a view of the applied state.
    pub(crate) fn view(&self) -> Result<View> {
        self.on_current(Opened::view)
    }

    /// Loads the last applied entry and the sessions.
    pub(crate) fn load(&self) -> Result<(AppliedState, Sessions)> {
        let view = self.view()?;
        let mut sessions = Sessions::default();
        let mut wrong = None;
        let (low, high) = (CLIENT.as_bytes().to_vec(), b"client0".to_vec());
        view.range(SYSTEM, Bound::Included(low), Bound::Excluded(high), |key, value| {
            let number =
                key.get(CLIENT.len()..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
            if !number.is_some_and(|number| sessions.load(number, &value)) {
                wrong = Some(key.escape_ascii().to_string());
            }
            wrong.is_none()
        })?;
        match wrong {
            Some(row) => Err(Error::Row { row, reason: "it is no session of a client".to_owned() }),
            None => Ok((view.applied, sessions)),
        }
    }

    /// Writes the changes, the sessions and the new applied state `after` in one transaction. Fails
    /// if the stored applied state is not `before`.
    ///
    /// If old values that the memory engine keeps for a reader fill its memory, the call waits for
    /// that reader, such as a snapshot that is being sent. The entries are committed, so a failure
    /// would stop the replica.
    pub(crate) fn apply(
        &self,
        before: &AppliedState,
        writes: &[Write],
        sessions: &[(u64, Option<Vec<u8>>)],
        after: &AppliedState,
    ) -> Result<()> {
        let opened = self.current();
        let mut tables = HashMap::new();
        for write in writes {
            if !tables.contains_key(write.table()) {
                tables.insert(write.table(), opened.table_or_new(write.table())?);
            }
        }
        let applied = encode(APPLIED, after)?;
        let system = &opened.system;
        let own = Cell::new(None);
        let write = |transaction: &Transaction| {
            own.set(Some(transaction.id()));
            let found = opened.applied(transaction)?;
            if found != *before {
                let reason = format!("the state is at index {}, not {}", found.index(), before.index());
                return Err(Error::Stopped { reason });
            }
            for write in writes {
                match write {
                    Write::Put { table, key, value } => {
                        transaction.put(&tables[table.as_str()], key, value)?
                    }
                    Write::Delete { table, key } => drop(transaction.delete(&tables[table.as_str()], key)?),
                    Write::CreateTable { .. } => {}
                }
            }
            for (client, row) in sessions {
                match row {
                    Some(row) => transaction.put(system, client_row(*client), row)?,
                    None => drop(transaction.delete(system, client_row(*client))?),
                }
            }
            transaction.put(system, APPLIED, &applied)?;
            Ok(())
        };
        loop {
            match opened.database.try_transact(&write) {
                Err(Error::Engine(katydid::Error::MemoryFull { held_by, .. }))
                    if held_by.is_some_and(|reader| Some(reader) != own.get()) =>
                {
                    std::thread::sleep(READER_PAUSE);
                }
                done => return done,
            }
        }
    }

    /// Makes all applied entries durable in the engine. The task that builds a snapshot may call
    /// this while [`Store::install`] runs. If the call fails, openraft stops the replica.
    pub(crate) fn sync(&self) -> Result<()> {
        self.on_current(|opened| Ok(opened.database.sync()?))
    }

    fn is_closed(&self) -> MutexGuard<'_, bool> {
        self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to receive a snapshot.
    pub(crate) fn receive(&self) -> Result<Received> {
        let is_closed = self.is_closed();
        if *is_closed {
            return Err(Error::Closed);
        }
        let counted = Counted::new(&self.receiving);
        drop(is_closed);
        // The folder of a failed attempt is removed when its `Received` is dropped, or at the next
        // opening.
        let number = self.place.stores()?.into_iter().max().unwrap_or(0) + 1;
        let opened = Opened::open(&*self.place, number, &self.options)?;
        Ok(Received { opened: Some(opened), place: self.place.clone(), rows: 0, _counted: counted })
    }

    /// Replaces the state by a snapshot. Reads of the former state then fail with
    /// [`katydid::Error::Closed`].
    pub(crate) fn install(&self, mut received: Received, meta: &SnapshotMeta) -> Result<()> {
        let is_closed = self.is_closed();
        if *is_closed {
            return Err(Error::Closed);
        }
        let Some(opened) = received.opened.take() else { return Err(Error::Closed) };
        let after = AppliedState { log_id: meta.last_log_id, membership: meta.last_membership.clone() };
        opened.complete(self.identity, &after)?;
        let former = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::new(opened))
        };
        // An error is ignored, because the former state is removed. Closing the former state may
        // fail although the new state is sound, for example if there is no room for a checkpoint.
        let _closed = former.database.close();
        self.place.remove_store(former.number)
    }

    /// Lets no further snapshot be received or installed. Waits for an installation that has begun.
    pub(crate) fn refuse_snapshots(&self) {
        *self.is_closed() = true;
    }

    /// Waits until no snapshot that was being received has an open folder.
    pub(crate) async fn received_ended(&self) {
        // The sender exists as long as this store, so this returns no error.
        let mut receiving = self.receiving.subscribe();
        let _none = receiving.wait_for(|count| *count == 0).await;
    }

    /// Closes the engine. Later installations fail.
    pub(crate) fn close(&self) -> Result<()> {
        self.refuse_snapshots();
        Ok(self.current().database.close()?)
    }
}

impl Opened {
    /// Makes all rows durable, and then writes the row with which the folder counts (invariant 3).
    fn complete(&self, identity: Identity, applied: &AppliedState) -> Result<()> {
        self.database.sync()?;
        let options = TransactionOptions { durability: Durability::Durable, ..TransactionOptions::default() };
        let transaction = self.database.begin_with(options)?;
        transaction.put(&self.system, APPLIED, encode(APPLIED, applied)?)?;
        transaction.put(&self.system, IDENTITY, encode(IDENTITY, &identity)?)?;
        transaction.commit()?;
        Ok(())
    }
}

impl Received {
    /// Adds rows of a table. The table is created even if there are no rows.
    pub(crate) fn add(&mut self, table: &str, rows: &[Row]) -> Result<()> {
        let Some(opened) = &self.opened else { return Err(Error::Closed) };
        if table.starts_with(RESERVED_PREFIX) && table != SYSTEM {
            return Err(Error::Row {
                row: table.to_owned(),
                reason: "a snapshot has no such table".to_owned(),
            });
        }
        let of = opened.table_or_new(table)?;
        opened.database.transact(|transaction| {
            rows.iter().try_for_each(|Row(key, value)| transaction.put(&of, key, value))
        })?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Returns the number of rows that were added.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
}

impl Drop for Received {
    /// Removes a snapshot that was not installed.
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            // If this fails, the next opening removes the folder.
            let _closed = opened.database.close();
            let _removed = self.place.remove_store(opened.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::place::Folder;
    use crate::types::{Applied, Leadership};
    use crate::write_set::WriteSet;
    use katydid::MemoryOptions;
    use std::path::Path;

    const IDENTITY: Identity = Identity { cluster: [7; 16], replica: 2 };

    fn at(index: u64) -> AppliedState {
        let log_id = Some(LogId::new(Leadership { term: 1, node_id: 1 }, index));
        AppliedState { log_id, membership: Membership::default() }
    }

    fn place(folder: &Path) -> Arc<dyn Place> {
        Arc::new(Folder { path: folder.to_owned(), log: None })
    }

    fn open(folder: &Path) -> Store {
        Store::open(place(folder), Options::default(), IDENTITY).expect("open")
    }

    fn value(store: &Store, key: &str) -> Option<Vec<u8>> {
        store.view().expect("view").get("t", key.as_bytes()).expect("get")
    }

    #[test]
    fn how_far_the_state_is_comes_back_with_the_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let (before, mut sessions) = store.load().expect("load");
        assert_eq!(before, AppliedState::default());
        sessions.open(3);
        sessions.decide(4, RequestId { client: 3, sequence: 1 }, Applied::Written).expect("new");
        let set = WriteSet::default().put("t", "a", "1").put("t", "b", "2").delete("t", "a");
        store.apply(&before, &set.writes, &sessions.take_changed(), &at(4)).expect("apply");
        store.close().expect("close");
        let store = open(folder.path());
        let (after, mut sessions) = store.load().expect("load");
        assert_eq!(after, at(4));
        let again = sessions.decide(5, RequestId { client: 3, sequence: 1 }, Applied::Written);
        assert_eq!(again, Err(Applied::Written));
        assert_eq!((value(&store, "a"), value(&store, "b")), (None, Some(b"2".to_vec())));
        let twice = store.apply(&before, &set.writes, &[], &at(4));
        assert!(matches!(twice, Err(Error::Stopped { .. })), "{twice:?}");
    }

    #[test]
    fn a_snapshot_replaces_everything_or_nothing() {
        let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let source = open(from.path());
        let mut writes = WriteSet::default().create_table("empty");
        for number in 0..100_u32 {
            writes = writes.put("t", number.to_be_bytes(), vec![1; 100]);
        }
        source
            .apply(&AppliedState::default(), &writes.writes, &[(9, Some(vec![0; 8]))], &at(50))
            .expect("apply");
        let target = open(to.path());
        let old = WriteSet::default().put("t", "old", "1");
        target.apply(&AppliedState::default(), &old.writes, &[], &at(2)).expect("apply");

        let view = source.view().expect("view");
        let receive = |target: &Store| {
            let mut received = target.receive().expect("receive");
            for table in view.tables().expect("tables") {
                let mut after: Option<Vec<u8>> = None;
                loop {
                    let rows = view.rows(&table, after.as_deref(), 1000).expect("rows");
                    received.add(&table, &rows).expect("add");
                    let Some(Row(last, _)) = rows.last() else { break };
                    after = Some(last.clone());
                }
            }
            received
        };
        let received = receive(&target);
        assert_eq!(received.rows(), 101);
        drop(received);
        assert!(value(&target, "old").is_some());
        std::mem::forget(receive(&target));
        drop(target);
        let interrupted = to.path().join("state/store-2");
        assert!(interrupted.exists());
        // The forgotten snapshot still locks its folder, which a crashed process would not. So the
        // test moves the folder away.
        std::fs::rename(&interrupted, from.path().join("elsewhere")).expect("rename");
        let target = open(to.path());
        assert!(value(&target, "old").is_some());

        target.install(receive(&target), &view.applied.meta()).expect("install");
        drop(target);
        let target = open(to.path());
        assert_eq!(target.view().expect("view").applied, at(50));
        assert_eq!(value(&target, "old"), None);
        assert_eq!(
            target.view().expect("view").get("t", &7_u32.to_be_bytes()).expect("get"),
            Some(vec![1; 100])
        );
        assert!(target.current().table("empty").expect("tables").is_some());
        assert!(!to.path().join("state/store-1").exists());
    }

    #[test]
    fn a_snapshot_is_not_installed_in_a_store_that_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let old = WriteSet::default().put("t", "old", "1");
        store.apply(&AppliedState::default(), &old.writes, &[], &at(2)).expect("apply");
        let received = store.receive().expect("receive");
        store.close().expect("close");
        let late = store.install(received, &at(9).meta());
        assert!(matches!(late, Err(Error::Closed)), "{late:?}");
        // The first handle still exists, as that of a closed replica may.
        let again = open(folder.path());
        assert_eq!(value(&again, "old"), Some(b"1".to_vec()));
        again.close().expect("close");
        store.close().expect("a second close");
    }

    /// The task that builds a snapshot of the former state must not stop the replica.
    #[test]
    fn a_sync_of_a_state_that_is_being_replaced_syncs_the_new_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    store.view().and_then(|_| store.sync())?;
                }
                Ok::<_, Error>(())
            });
            for index in 1..50 {
                store.install(store.receive().expect("receive"), &at(index).meta()).expect("install");
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            syncing.join().expect("no panic").expect("sync");
        });
    }

    #[test]
    fn an_entry_waits_for_a_reader_for_whom_old_values_fill_the_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = MemoryOptions { memory_bytes: 1 << 20, streams: 1, ..MemoryOptions::default() };
        let options = Options { engine: memory.into(), ..Options::default() };
        let store = Store::open(place(folder.path()), options, IDENTITY).expect("open");
        let view = store.view().expect("view");
        let failures = || store.current().database.stat().expect("figures").rollbacks;
        std::thread::scope(|scope| {
            let applying = scope.spawn(|| {
                let mut before = AppliedState::default();
                for index in 1..=40 {
                    // The engine counts a rollback only of a transaction that has written.
                    let set = WriteSet::default().put("t", "a", "1").put("t", "b", vec![1; 100_000]);
                    store.apply(&before, &set.writes, &[], &at(index))?;
                    before = at(index);
                }
                Ok::<_, Error>(())
            });
            // The view keeps old values until an entry has no room.
            while failures() == 0 && !applying.is_finished() {
                std::thread::yield_now();
            }
            drop(view);
            applying.join().expect("no panic").expect("applied");
        });
        assert!(failures() > 0, "all entries had room");
    }

    #[test]
    fn a_folder_of_another_replica_or_cluster_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path()).close().expect("close");
        for other in [Identity { replica: 3, ..IDENTITY }, Identity { cluster: [8; 16], ..IDENTITY }] {
            let refused = Store::open(place(folder.path()), Options::default(), other);
            assert!(matches!(refused, Err(Error::Identity { .. })));
        }
    }
}
