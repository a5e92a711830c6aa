//! A store in memory for the tests of this crate: one map under a mutex. A transaction holds the
//! mutex from its beginning to its end, so histories are trivially serializable. If a commit has a
//! callback, a later `poll` or `wait_below` acknowledges the commit. Commits of a client are
//! acknowledged in order.

use crate::store::{Client, Counters, Intent, Keys, Result, Shown, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The store.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    pub(crate) map: Mutex<Map>,
    pub(crate) commits: AtomicU64,
    /// Every `conflict_every`-th begin is a conflict; 0 for no conflicts.
    pub(crate) conflict_every: u64,
    /// The callback of a commit reports a conflict if the number of begun transactions is a
    /// multiple of `refuse_every`; 0 for no conflicts.
    pub(crate) refuse_every: u64,
    /// Number of the commit that fails; 0 for none.
    pub(crate) fail_at: u64,
    pub(crate) begun: AtomicU64,
    /// Number of values lent.
    pub(crate) lent: AtomicU64,
}

impl MemoryStore {
    pub(crate) fn len(&self) -> usize {
        self.map.lock().unwrap().len()
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }
}

impl Store for MemoryStore {
    type Client<'s> = MemoryClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<MemoryClient<'_>> {
        let tables = tables.iter().map(|name| format!("{name}/").into_bytes()).collect();
        Ok(MemoryClient { store: self, tables, pending: VecDeque::new() })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters { syncs: Some(self.commits()), bytes_synced: None })
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

pub(crate) struct MemoryClient<'s> {
    store: &'s MemoryStore,
    /// Prefix of the keys of each table.
    tables: Vec<Vec<u8>>,
    pending: VecDeque<(Callback, Result<()>)>,
}

impl<'s> Client for MemoryClient<'s> {
    type Transaction<'c>
        = MemoryTransaction<'s, 'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<MemoryTransaction<'s, '_>> {
        let begun = self.store.begun.fetch_add(1, Ordering::SeqCst) + 1;
        if self.store.conflict_every > 0 && begun.is_multiple_of(self.store.conflict_every) {
            return Err(StoreError::Conflict("by design".into()));
        }
        let map = self.store.map.lock().unwrap();
        Ok(MemoryTransaction { map, undo: Vec::new(), intent, table: 0, client: self })
    }

    fn poll(&mut self) -> usize {
        let ready = self.pending.len() / 2;
        for (callback, result) in self.pending.drain(..ready) {
            callback(result);
        }
        ready
    }

    fn pending(&self) -> usize {
        self.pending.len()
    }

    fn wait_below(&mut self, limit: usize) -> Result<()> {
        while self.pending.len() >= limit {
            let (callback, result) = self.pending.pop_front().unwrap();
            callback(result);
        }
        Ok(())
    }
}

pub(crate) struct MemoryTransaction<'s, 'c> {
    map: MutexGuard<'s, Map>,
    undo: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    intent: Intent,
    table: usize,
    client: &'c mut MemoryClient<'s>,
}

impl MemoryTransaction<'_, '_> {
    fn full(&self, key: &[u8]) -> Vec<u8> {
        [&self.client.tables[self.table], key].concat()
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Option<Vec<u8>> {
        assert_eq!(self.intent, Intent::ReadWrite, "a read-only transaction writes");
        let key = self.full(key);
        let old = match value {
            Some(value) => self.map.insert(key.clone(), value.to_vec()),
            None => self.map.remove(&key),
        };
        self.undo.push((key, old.clone()));
        old
    }

    fn finish(&mut self) -> Result<()> {
        let number = self.client.store.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.client.store.fail_at {
            return Err(StoreError::Failed("the device is on fire".into()));
        }
        self.undo.clear();
        Ok(())
    }
}

impl Drop for MemoryTransaction<'_, '_> {
    fn drop(&mut self) {
        for (key, old) in std::mem::take(&mut self.undo).into_iter().rev() {
            match old {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }
}

impl Transaction for MemoryTransaction<'_, '_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = table;
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.map.get(&self.full(key)).cloned())
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let lent = self.map.get(&self.full(key)).map(|value| visit(value)).is_some();
        self.client.store.lent.fetch_add(lent.into(), Ordering::SeqCst);
        Ok(lent)
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Some(value));
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.map.contains_key(&self.full(key)) {
            return Err(StoreError::KeyExists(Shown(key).to_string()));
        }
        self.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.write(key, None).is_some())
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut seen = 0;
        let table = &self.client.tables[self.table];
        let of_table = self
            .map
            .range(self.full(keys.from)..)
            .map_while(|(key, value)| key.strip_prefix(&table[..]).map(|key| (key, value)))
            .take_while(|(key, _)| keys.to.is_none_or(|to| *key < to));
        for (key, value) in of_table.take(limit) {
            visit(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn commit(mut self) -> Result<()> {
        self.finish()
    }

    fn commit_with(mut self, done: impl FnOnce(Result<()>) + Send + 'static) {
        let store = self.client.store;
        let result = match store.refuse_every {
            every if every > 0 && store.begun.load(Ordering::SeqCst).is_multiple_of(every) => {
                Err(StoreError::Conflict("by design, when it commits".into()))
            }
            _ => self.finish(),
        };
        self.client.pending.push_back((Box::new(done), result));
    }
}
