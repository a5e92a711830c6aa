//! The writes of a transaction, which are private until it is validated.
//!
//! This code does no I/O. Each written key has one entry, in the order of first writes. An entry is
//! found by the hash that the table's index uses for the key; entries are put in the order of keys
//! only when a scan meets many of them. Values that are overwritten while a savepoint is in force
//! are kept, to be restored.

use super::record::{Key, Record, Value};
use crate::direction::Direction;
use crate::ids::TableId;
use katydid_kernels::txn::Timestamp;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Number of entries up to which comparing all hashes is quicker than a hash table.
const SCANNED_MAX: usize = 32;
/// Marks a free slot of the hash table.
const FREE: usize = usize::MAX;

/// The new value of one key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) table: TableId,
    pub(super) key: Key,
    /// The hash of the key in its table's index.
    pub(super) hash: u64,
    /// The new value; `None` if the key is to be deleted.
    pub(super) value: Option<Value>,
    /// `Some` if the transaction has read the key: the timestamp of the version that it has read,
    /// or `None` for no value.
    pub(super) expected: Option<Option<Timestamp>>,
    /// The record of the key; `None` if there was none.
    pub(super) record: Option<Arc<Record>>,
    /// The record's contention when the writes were put in order.
    pub(super) contention: u8,
}

#[derive(Debug)]
enum Undo {
    Added,
    Replaced { at: usize, value: Option<Value> },
}

/// Index of entries.
#[derive(Debug, Default)]
struct WriteIndex {
    /// A hash table of entries. An entry lies in the slot of its hash, or in a later slot with no
    /// free slot between. The number of slots is a power of two, and at least half of them are
    /// free.
    by_hash: Vec<usize>,
    /// The entries by key, made at the first scan.
    by_key: Option<BTreeMap<(TableId, Key), usize>>,
}

impl WriteIndex {
    fn put(&mut self, hash: u64, at: usize) {
        let mask = self.by_hash.len() - 1;
        let mut place = hash as usize & mask;
        while self.by_hash[place] != FREE {
            place = (place + 1) & mask;
        }
        self.by_hash[place] = at;
    }
}

#[derive(Debug, Default)]
pub(super) struct WriteSet {
    entries: Vec<Write>,
    /// The hashes of the entries, in the same order.
    hashes: Vec<u64>,
    /// Index of the entries, if there are more than [`SCANNED_MAX`].
    many: Option<Box<WriteIndex>>,
    undo: Vec<Undo>,
    /// True while a savepoint is in force.
    keeps_undo: bool,
}

impl WriteSet {
    /// Index of the write of a key.
    pub(super) fn find(&self, table: TableId, hash: u64, key: &[u8]) -> Option<usize> {
        let is_it = |at: usize| {
            let write = &self.entries[at];
            self.hashes[at] == hash && write.table == table && write.key.as_slice() == key
        };
        let Some(WriteIndex { by_hash, .. }) = self.many.as_deref() else {
            return (0..self.hashes.len()).find(|at| self.hashes[*at] == hash && is_it(*at));
        };
        let mask = by_hash.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            match by_hash[place] {
                FREE => return None,
                at if is_it(at) => return Some(at),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// The new value of a key, if this transaction has written the key.
    pub(super) fn get(&self, table: TableId, hash: u64, key: &[u8]) -> Option<&Option<Value>> {
        self.find(table, hash, key).map(|at| &self.entries[at].value)
    }

    pub(super) fn add(&mut self, write: Write) {
        let (at, hash) = (self.entries.len(), write.hash);
        if let Some(map) = self.many.as_mut().and_then(|many| many.by_key.as_mut()) {
            map.insert((write.table, write.key.clone()), at);
        }
        self.hashes.push(hash);
        self.entries.push(write);
        match &mut self.many {
            Some(many) if self.entries.len() * 2 <= many.by_hash.len() => many.put(hash, at),
            _ => self.put_places(),
        }
        if self.keeps_undo {
            self.undo.push(Undo::Added);
        }
    }

    /// Rebuilds the hash table, or drops it if there are few entries.
    fn put_places(&mut self) {
        if self.entries.len() <= SCANNED_MAX {
            self.many = None;
            return;
        }
        let many = self.many.get_or_insert_default();
        many.by_hash.clear();
        many.by_hash.resize((self.entries.len() * 4).next_power_of_two(), FREE);
        self.hashes.iter().enumerate().for_each(|(at, hash)| many.put(*hash, at));
    }

    /// Replaces the value of the entry at `at`. Returns the bytes of the former value, or zero if
    /// the former value is kept for a savepoint.
    pub(super) fn replace(&mut self, at: usize, value: Option<Value>) -> usize {
        let old = std::mem::replace(&mut self.entries[at].value, value);
        if self.keeps_undo {
            self.undo.push(Undo::Replaced { at, value: old });
            return 0;
        }
        old.map_or(0, |old| old.len())
    }

    /// The first own write of `table` between the bounds, in either direction.
    pub(super) fn next(
        &mut self,
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
        let Some(many) = &mut self.many else {
            let mine = self.entries.iter().filter(|write| write.table == table && is_within(&write.key));
            return match direction {
                Direction::Up => mine.min_by(|left, right| left.key.cmp(&right.key)),
                Direction::Down => mine.max_by(|left, right| left.key.cmp(&right.key)),
            };
        };
        let map = many.by_key.get_or_insert_with(|| {
            let keys = self.entries.iter().enumerate();
            keys.map(|(at, write)| ((write.table, write.key.clone()), at)).collect()
        });
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

    /// Bytes of all keys and new values, and the number of writes.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let each = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        (self.entries.iter().map(each).sum(), self.entries.len())
    }

    /// Makes a mark for [`WriteSet::rewind`].
    pub(super) fn mark(&mut self) -> usize {
        self.keeps_undo = true;
        self.undo.len()
    }

    /// Forgets all marks. Returns the bytes of the values that were kept for them.
    pub(super) fn forget_undo(&mut self) -> usize {
        self.keeps_undo = false;
        let kept = self.undo.drain(..).map(|undo| match undo {
            Undo::Replaced { value: Some(value), .. } => value.len(),
            Undo::Replaced { value: None, .. } | Undo::Added => 0,
        });
        kept.sum()
    }

    /// Undoes the writes after `mark`, and passes removed entries to `dropped`. Returns the bytes
    /// of the values that were replaced by former ones.
    pub(super) fn rewind(&mut self, mark: usize, mut dropped: impl FnMut(Write)) -> usize {
        let (before, mut replaced) = (self.entries.len(), 0);
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Replaced { at, value }) => {
                    let undone = std::mem::replace(&mut self.entries[at].value, value);
                    replaced += undone.map_or(0, |value| value.len());
                }
                Some(Undo::Added) => {
                    let Some(write) = self.entries.pop() else { continue };
                    self.hashes.pop();
                    if let Some(map) = self.many.as_mut().and_then(|many| many.by_key.as_mut()) {
                        map.remove(&(write.table, write.key.clone()));
                    }
                    dropped(write);
                }
                None => {}
            }
        }
        if self.entries.len() < before {
            self.put_places();
        }
        replaced
    }

    /// The entries in the order of first writes.
    pub(super) fn entries(&self) -> &[Write] {
        &self.entries
    }

    pub(super) fn into_entries(self) -> Vec<Write> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_however_many_there_are_and_after_going_back() {
        let table = TableId::new(1);
        let key = |number: u64| number.to_be_bytes();
        // Many of these hashes collide.
        let hash = |number: u64| number % 7;
        let mut writes = WriteSet::default();
        let mut marks = Vec::new();
        for number in 0..200u64 {
            if number % 20 == 0 {
                marks.push((number, writes.mark()));
            }
            assert_eq!(writes.find(table, hash(number), &key(number)), None);
            let (hash, key) = (hash(number), Key::from_slice(&key(number)));
            writes.add(Write { table, key, hash, value: None, expected: None, record: None, contention: 0 });
            let found = |number: u64| writes.find(table, number % 7, &number.to_be_bytes());
            assert!((0..=number).all(|number| found(number) == usize::try_from(number).ok()));
            assert_eq!(writes.find(TableId::new(2), hash, &number.to_be_bytes()), None);
        }
        let all = |writes: &mut WriteSet| {
            let first = writes.next(table, Bound::Unbounded, Bound::Unbounded, Direction::Up);
            let first = first.map(|write| write.key.clone());
            let last = writes.next(table, Bound::Unbounded, Bound::Unbounded, Direction::Down);
            (first, last.map(|write| write.key.clone()))
        };
        for (left, mark) in marks.into_iter().rev() {
            let mut dropped = 0;
            writes.rewind(mark, |_| dropped += 1);
            assert_eq!(dropped, 20);
            for number in 0..200 {
                let found = writes.find(table, hash(number), &key(number));
                assert_eq!(found.is_some(), number < left, "{number} of {left}");
            }
            let ends =
                (left > 0).then(|| (Key::from_slice(&key(0)), Key::from_slice(&key(left - 1)))).unzip();
            assert_eq!(all(&mut writes), ends);
        }
    }
}
