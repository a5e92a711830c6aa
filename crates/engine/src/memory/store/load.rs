//! What recovery puts in, what checkpoints read, and how a table is forgotten.

use super::clock::Timestamp;
use super::collect::version_bytes;
use super::index::{Direction, Reached};
use super::limit::{RECORD_BYTES, VERSION_BYTES};
use super::record::{Key, Obstacle, Record, Value};
use super::{Store, Table};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{TableId, TxnId};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A key's newest version that is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) timestamp: Timestamp,
    /// None: deleted.
    pub(crate) value: Option<Value>,
}

impl Store {
    /// Takes a version that recovery found, if there is no newer one of the key. Before the first transaction; from any thread, in any order.
    /// Tombstones are not charged: there may be any number of keys that are not there any more, and until everything is loaded nobody
    /// knows which of them may be forgotten.
    ///
    /// # Errors
    /// `Error::MemoryFull`.
    pub(crate) fn load(
        &self,
        table: &Table,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        let key_bytes = key.len() + RECORD_BYTES;
        let bytes = value.map_or(0, |value| value.len() + VERSION_BYTES + key_bytes);
        if bytes > 0 {
            self.charge(bytes)?;
        }
        let is_tombstone = value.is_none();
        let value = value.map(Value::from);
        // Nothing is read yet, so no gap refuses; and nothing is collected, so no record goes.
        let Ok((record, _)) = table.index.get_or_insert(key, Timestamp::MAX) else {
            return Err(Error::Internal("a gap was read before the first transaction"));
        };
        let replaced = record.chain().load(timestamp, value);
        let freed = match &replaced {
            Some(Some(old)) if old.value.is_some() => version_bytes(old) + key_bytes,
            Some(_) => 0,
            None => bytes,
        };
        if is_tombstone && replaced.is_some() {
            self.tombstones.lock().push(record);
        }
        if freed > 0 {
            self.limit.release(freed);
        }
        Ok(())
    }

    /// Everything is loaded, and no timestamp up to `greatest` was not used: deleted keys go, and time goes on from there.
    pub(crate) fn loaded(&self, greatest: Timestamp) {
        self.clock.set_base(greatest);
        self.slots.set_base(greatest);
        for record in std::mem::take(&mut *self.tombstones.lock()) {
            // Not of a key that was written again, nor of a table that was dropped.
            if let Some(table) = self.find_table(record.table) {
                table.index.remove_if(&record, |chain| chain.is_deleted() && chain.can_go(Timestamp::MAX));
            }
        }
    }

    /// Forgets a table and all it holds. Its caller sees to it that nothing of it is pending; transactions that only have it in their sets
    /// give way.
    pub(crate) fn forget(&self, id: TableId) {
        let Some(table) = self.tables.write().remove(&id) else { return };
        table.for_each(|record| {
            let versions = record.chain().take_all();
            let bytes: usize = versions.map(|version| version_bytes(&version)).sum();
            self.limit.release(bytes + record.key.len() + RECORD_BYTES);
        });
    }

    /// Adds the rows of one batch of a table's keys from `from` on, tombstones among them; where the next batch begins. Each row is the
    /// newest that is decided when it is looked at; one that is not is waited for.
    ///
    /// # Errors
    /// `Error::Conflict` if a wait takes longer than `at_most`: nothing was added, and the batch may be asked for again.
    pub(crate) fn rows(
        &self,
        table: &Table,
        from: Bound<&[u8]>,
        at_most: Duration,
        rows: &mut Vec<Row>,
    ) -> Result<Option<Key>> {
        let mut records: Vec<Arc<Record>> = Vec::new();
        let reached = table.index.walk(from, Bound::Unbounded, Direction::Up, &mut records);
        let before = rows.len();
        for record in records {
            match self.newest(&record, at_most) {
                Ok(row) => rows.extend(row),
                Err(error) => {
                    rows.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(match reached {
            Reached::End => None,
            Reached::Fence(fence) => Some(fence),
        })
    }

    fn newest(&self, record: &Record, at_most: Duration) -> Result<Option<Row>> {
        loop {
            let obstacle = match record.chain().newest() {
                Ok(version) => {
                    return Ok(version.map(|version| Row {
                        key: record.key.clone(),
                        timestamp: version.wts,
                        value: version.value.clone(),
                    }));
                }
                Err(obstacle) => obstacle,
            };
            let Obstacle::Pending(fate) = obstacle else { return Err(self.log.failure()) };
            if fate.wait(at_most, self.log.as_ref()).is_none() {
                let holder = Some(TxnId::new(fate.timestamp().get()));
                return Err(Error::Conflict { victim: TxnId::NONE, holder, kind: ConflictKind::Timeout });
            }
        }
    }
}

impl Table {
    fn for_each(&self, mut visit: impl FnMut(&Arc<Record>)) {
        let mut from = Bound::Unbounded;
        loop {
            let mut records: Vec<Arc<Record>> = Vec::new();
            let lower = from.as_ref().map(Key::as_slice);
            let reached = self.index.walk(lower, Bound::Unbounded, Direction::Up, &mut records);
            records.iter().for_each(&mut visit);
            match reached {
                Reached::End => return,
                Reached::Fence(fence) => from = Bound::Included(fence),
            }
        }
    }
}
