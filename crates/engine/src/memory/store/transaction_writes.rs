//! What a transaction is going to write: private until it is validated.
//!
//! Pure. One entry for each key, in the order of the first writes; with many, a map finds them. What is overwritten while a savepoint is
//! in force is kept to be put back.

use super::clock::Timestamp;
use super::index::Direction;
use super::record::{Key, Record, Value};
use crate::ids::TableId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Up to here looking through all of them is quicker than a map.
const SCANNED_MAX: usize = 16;

/// The new value of one key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) table: TableId,
    pub(super) key: Key,
    /// None: to be deleted.
    pub(super) value: Option<Value>,
    /// What it replaces, if the transaction has read that: the version written then, or no value.
    pub(super) expected: Option<Option<Timestamp>>,
    /// None: there was no record of the key.
    pub(super) record: Option<Arc<Record>>,
    /// How hot the record was when the writes were put in order.
    pub(super) heat: u8,
}

#[derive(Debug)]
enum Undo {
    Added,
    Replaced { at: usize, value: Option<Value> },
}

#[derive(Debug, Default)]
pub(super) struct WriteSet {
    entries: Vec<Write>,
    by_key: Option<BTreeMap<(TableId, Key), usize>>,
    undo: Vec<Undo>,
    /// Whether a savepoint is in force.
    keeps_undo: bool,
}

impl WriteSet {
    /// Where the write of a key is.
    pub(super) fn find(&self, table: TableId, key: &[u8]) -> Option<usize> {
        match &self.by_key {
            Some(map) => map.get(&(table, Key::from_slice(key))).copied(),
            None => self.entries.iter().position(|write| write.table == table && write.key.as_slice() == key),
        }
    }

    /// What a key will be, if it is written.
    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<&Option<Value>> {
        if self.entries.is_empty() {
            return None;
        }
        self.find(table, key).map(|at| &self.entries[at].value)
    }

    pub(super) fn add(&mut self, write: Write) {
        if let Some(map) = &mut self.by_key {
            map.insert((write.table, write.key.clone()), self.entries.len());
        }
        self.entries.push(write);
        if self.by_key.is_none() && self.entries.len() > SCANNED_MAX {
            let keys = self.entries.iter().enumerate();
            self.by_key = Some(keys.map(|(at, write)| ((write.table, write.key.clone()), at)).collect());
        }
        if self.keeps_undo {
            self.undo.push(Undo::Added);
        }
    }

    /// Writes another value, or none, to a key that is there; the bytes of the former one, if it is not kept.
    pub(super) fn replace(&mut self, at: usize, value: Option<Value>) -> usize {
        let old = std::mem::replace(&mut self.entries[at].value, value);
        if self.keeps_undo {
            self.undo.push(Undo::Replaced { at, value: old });
            return 0;
        }
        old.map_or(0, |old| old.len())
    }

    /// The next own write of `table` after a place, in either direction.
    pub(super) fn next(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Option<&Write> {
        let is_within = |key: &[u8]| {
            (match from {
                Bound::Unbounded => true,
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from,
            }) && (match to {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= to,
                Bound::Excluded(to) => key < to,
            })
        };
        let Some(map) = &self.by_key else {
            let mine = self.entries.iter().filter(|write| write.table == table && is_within(&write.key));
            return match direction {
                Direction::Up => mine.min_by(|left, right| left.key.cmp(&right.key)),
                Direction::Down => mine.max_by(|left, right| left.key.cmp(&right.key)),
            };
        };
        let owned = |key: &[u8]| (table, Key::from_slice(key));
        let lower = match from {
            Bound::Unbounded => Bound::Included((table, Key::new())),
            Bound::Included(key) => Bound::Included(owned(key)),
            Bound::Excluded(key) => Bound::Excluded(owned(key)),
        };
        let upper = match to {
            Bound::Unbounded => Bound::Excluded((TableId::new(table.get().saturating_add(1)), Key::new())),
            Bound::Included(key) => Bound::Included(owned(key)),
            Bound::Excluded(key) => Bound::Excluded(owned(key)),
        };
        let is_inverted = match (&lower, &upper) {
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low > high
                    || (low == high && !matches!((&lower, &upper), (Bound::Included(_), Bound::Included(_))))
            }
            _ => false,
        };
        if is_inverted {
            return None;
        }
        let mut mine = map.range((lower, upper));
        let found = match direction {
            Direction::Up => mine.next(),
            Direction::Down => mine.next_back(),
        };
        found.map(|(_, at)| &self.entries[*at])
    }

    /// A place to come back to.
    pub(super) fn mark(&mut self) -> usize {
        self.keeps_undo = true;
        self.undo.len()
    }

    /// Comes back to a place; the writes that are thereby no more.
    pub(super) fn rewind(&mut self, mark: usize, mut dropped: impl FnMut(Write)) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Replaced { at, value }) => self.entries[at].value = value,
                Some(Undo::Added) => {
                    let Some(write) = self.entries.pop() else { continue };
                    if let Some(map) = &mut self.by_key {
                        map.remove(&(write.table, write.key.clone()));
                    }
                    dropped(write);
                }
                None => {}
            }
        }
    }

    pub(super) fn into_entries(self) -> Vec<Write> {
        self.entries
    }
}
