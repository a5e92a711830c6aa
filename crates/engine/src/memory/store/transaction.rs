//! A transaction until it is validated: it reads what is there at its timestamp and keeps what it
//! writes to itself.
//!
//! Used by one thread at a time; may move between threads. Invariants:
//!
//! 1. Whatever it has seen of others is in `reads` (a version of a record, or that it has no
//!    value), in `passed` (intervals in which nothing else was), or in the `expected` of a write. A
//!    transaction that only reads needs none of them: nothing below its bound changes.
//! 2. `depends` names every place that is not durable yet of those whose versions it has seen.
//! 3. It waits only for statuses of lower timestamps, with no latch held, and at most `lock_wait`
//!    each.
//! 4. What it has seen need not be consistent before it is validated, so nothing here relies on it.
//!    One answer is given only after all that was seen so far was validated: `KeyExists`, on which
//!    callers give up.

use super::limit::{RECORD_BYTES, VERSION_BYTES};
use super::record::{ConflictCause, Key, Record, Value, Version};
use super::state::Store;
use super::table::Table;
use super::transaction_writes::{Write, WriteSet};
use crate::body::{self, DatabaseKey};
use crate::body_threads::while_blocked;
use crate::error::{ConflictKind, Error, Result};
use crate::events;
use crate::ids::{TableId, TxnId};
use crate::options::Access;
use crate::sharded::ShardRef;
use crate::waits::WaitUnderWay;
use katydid_kernels::txn::Stuck;
use katydid_kernels::txn::Timestamp;
use katydid_kernels::txn::TxnStatus;
use katydid_wal::Dependencies;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A slot in a store and memory charged to it, until dropped.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) store: ShardRef<Store>,
    pub(super) slot: usize,
    pub(super) charged: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.store.limit.release(self.charged);
        self.store.slots.give_back(self.slot);
    }
}

/// A version seen: the one written then, or none.
#[derive(Debug)]
pub(super) struct ReadEntry {
    pub(super) record: Arc<Record>,
    pub(super) expected: Option<Timestamp>,
    /// The interval it was seen in, by its place in `passed`.
    pub(super) seen_in: Option<usize>,
}

/// An interval in which nothing was seen but what `reads` says was seen in it. (Not just at any
/// time: what a transaction finds after it had passed over the place without finding it was put
/// there by another, meanwhile.)
#[derive(Debug)]
pub(super) struct ScannedInterval {
    pub(super) table: Arc<Table>,
    pub(super) from: Bound<Key>,
    pub(super) to: Bound<Key>,
    /// Not before something of it was.
    pub(super) is_passed: bool,
}

/// A key of a table.
pub(super) type TableKey<'k> = (TableId, &'k [u8]);

/// A value and the version that it is; or neither, if the key has none.
pub(super) type FoundValue = (Option<Value>, Option<Timestamp>);

/// A point in a transaction to roll back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(usize);

/// A transaction that reads and collects what it will write. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct ActiveTxn {
    pub(super) open: Open,
    pub(super) access: Access,
    /// Its number, and of a writer also when it takes place unless it is overtaken.
    pub(super) timestamp: Timestamp,
    /// It reads versions below this.
    pub(super) bound: Timestamp,
    pub(super) lock_wait: Duration,
    /// Its timestamp is known to be too low for what it writes.
    pub(super) is_late: bool,
    pub(super) depends: Dependencies,
    pub(super) reads: Vec<ReadEntry>,
    compact_at: usize,
    pub(super) passed: Vec<ScannedInterval>,
    pub(super) writes: WriteSet,
    pub(super) validated: ValidatedCounts,
}

/// Number of reads and scans that were validated at the transaction's timestamp already. They stay
/// validated at that timestamp.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ValidatedCounts {
    pub(super) reads: usize,
    pub(super) passed: usize,
    pub(super) writes: usize,
}

/// Reads look through this many others for their own kind before they are dropped.
const COMPACT_FIRST: usize = 1024;

impl ActiveTxn {
    /// Begins a transaction. `lock_wait` bounds each single wait for another.
    ///
    /// # Errors
    /// `Error::TooManyTransactions` if as many as there can be are open for that long.
    /// `Error::Conflict` if a reader had to wait that long for one that is being validated.
    pub(crate) fn begin(store: ShardRef<Store>, access: Access, lock_wait: Duration) -> Result<Self> {
        let too_many = || Error::TooManyTransactions { limit: store.slots.count() };
        let slot = store.slots.take(lock_wait, store.log.as_ref()).ok_or_else(too_many)?;
        let open = Open { store, slot, charged: 0 };
        let store = &open.store;
        let (timestamp, bound) = match access {
            Access::ReadWrite => {
                let timestamp = store.slots.begin_write(slot, &store.clock);
                (timestamp, timestamp)
            }
            Access::ReadOnly => {
                let begun = store.slots.begin_read(slot, &store.clock, lock_wait, store.log.as_ref());
                begun.map_err(|Stuck { reader, writer }| Error::Conflict {
                    victim: TxnId::new(reader.get()),
                    holder: Some(TxnId::new(writer.get())),
                    kind: ConflictKind::Timeout,
                    contested: None,
                })?
            }
        };
        Ok(ActiveTxn {
            open,
            access,
            timestamp,
            bound,
            lock_wait,
            is_late: false,
            depends: Dependencies::default(),
            reads: Vec::new(),
            compact_at: COMPACT_FIRST,
            passed: Vec::new(),
            writes: WriteSet::default(),
            validated: ValidatedCounts::default(),
        })
    }

    /// It reads versions below this.
    pub(crate) fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Its number.
    pub(crate) fn id(&self) -> TxnId {
        TxnId::new(self.timestamp.get())
    }

    /// Bytes of keys and values that it is going to write, and the number of writes.
    pub(crate) fn to_write(&self) -> (usize, usize) {
        self.writes.bytes()
    }

    /// Dependencies on what it has seen that is not durable yet.
    pub(crate) fn depends(&self) -> &Dependencies {
        &self.depends
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    // ---- reads

    /// The value of `key`.
    pub(crate) fn get(&mut self, table: &Arc<Table>, key: &[u8]) -> Result<Option<Value>> {
        let hash = table.index.hash(key);
        if let Some(own) = self.writes.get(table.id, hash, key) {
            return Ok(own.clone());
        }
        let (record, (value, expected)) = self.look(table, hash, key)?;
        self.saw(table, key, record, expected);
        Ok(value)
    }

    /// The record of a key, if there is one, and what it has.
    fn look(&mut self, table: &Table, hash: u64, key: &[u8]) -> Result<(Option<Arc<Record>>, FoundValue)> {
        loop {
            let Some(record) = table.index.get_hashed(hash, key) else { return Ok((None, (None, None))) };
            if let Some(found) = self.read(&record)? {
                return Ok((Some(record), found));
            }
        }
    }

    /// The value of a record at this transaction's time; none if the record is not in the index any
    /// more.
    pub(super) fn read(&mut self, record: &Record) -> Result<Option<FoundValue>> {
        loop {
            let cause = match record.chain().read(self.bound) {
                Ok(None) => return Ok(Some((None, None))),
                Ok(Some(version)) => {
                    let log = self.open.store.log.as_ref();
                    version.outcome.settle(log);
                    version.outcome.join_into(&mut self.depends, log);
                    let Version { value, wts, .. } = version;
                    return Ok(Some((value.clone(), value.is_some().then_some(*wts))));
                }
                Err(cause) => cause,
            };
            match cause {
                ConflictCause::Gone => return Ok(None),
                cause => self.pass((record.table, &record.key), cause)?,
            }
        }
    }

    /// Remembers what was seen (invariant 1).
    fn saw(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        record: Option<Arc<Record>>,
        expected: Option<Timestamp>,
    ) {
        if self.is_read_only() {
            return;
        }
        match record {
            Some(record) => self.saw_record(record, expected, None),
            None => {
                let key = Key::from_slice(key);
                let at = || Bound::Included(key.clone());
                self.passed.push(ScannedInterval {
                    table: table.clone(),
                    from: at(),
                    to: at(),
                    is_passed: true,
                });
            }
        }
    }

    pub(super) fn saw_record(
        &mut self,
        record: Arc<Record>,
        expected: Option<Timestamp>,
        seen_in: Option<usize>,
    ) {
        if self.is_read_only() {
            return;
        }
        self.reads.push(ReadEntry { record, expected, seen_in });
        if self.reads.len() >= self.compact_at {
            let what = |read: &ReadEntry| (Arc::as_ptr(&read.record), read.expected, read.seen_in);
            self.reads.sort_unstable_by_key(what);
            self.reads.dedup_by(|left, right| what(left) == what(right));
            self.validated.reads = 0;
            self.compact_at = COMPACT_FIRST.max(2 * self.reads.len());
        }
    }

    /// The latest of what it has seen of a record.
    fn expected_of(&self, record: &Arc<Record>) -> Option<Option<Timestamp>> {
        let latest = self.reads.iter().rev().take(64);
        latest.filter(|read| Arc::ptr_eq(&read.record, record)).map(|read| read.expected).next()
    }

    // ---- writes

    /// Sets the value of `key`, whether or not it has one.
    pub(crate) fn put(&mut self, table: &Arc<Table>, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable()?;
        let hash = table.index.hash(key);
        if let Some(at) = self.writes.find(table.id, hash, key) {
            return self.replace(at, value);
        }
        let record = table.index.get_hashed(hash, key);
        let expected = record.as_ref().and_then(|record| self.expected_of(record));
        self.add_write(table, (hash, key), Some(value), record, expected)
    }

    /// Sets the value of `key`, or fails if it has one: with `KeyExists` if all it has seen was
    /// there at one time, this key included.
    pub(crate) fn insert(&mut self, table: &Arc<Table>, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable()?;
        let hash = table.index.hash(key);
        if let Some(at) = self.writes.find(table.id, hash, key) {
            if self.writes.get(table.id, hash, key).is_some_and(Option::is_some) {
                self.validate_so_far()?;
                return Err(Error::key_exists(key).in_table(&table.name()));
            }
            return self.replace(at, value);
        }
        let (record, (found, expected)) = self.look(table, hash, key)?;
        if found.is_some() {
            self.saw(table, key, record, expected);
            self.validate_so_far()?;
            return Err(Error::key_exists(key).in_table(&table.name()));
        }
        self.add_write(table, (hash, key), Some(value), record, Some(None))
    }

    /// Removes `key`. Returns whether it was there.
    pub(crate) fn delete(&mut self, table: &Arc<Table>, key: &[u8]) -> Result<bool> {
        self.check_writable()?;
        let hash = table.index.hash(key);
        if let Some(at) = self.writes.find(table.id, hash, key) {
            let was_there = self.writes.get(table.id, hash, key).is_some_and(Option::is_some);
            if was_there {
                let freed = self.writes.replace(at, None);
                self.release(freed);
            }
            return Ok(was_there);
        }
        let (record, (found, expected)) = self.look(table, hash, key)?;
        if found.is_none() {
            self.saw(table, key, record, expected);
            return Ok(false);
        }
        self.add_write(table, (hash, key), None, record, Some(expected))?;
        Ok(true)
    }

    fn add_write(
        &mut self,
        table: &Arc<Table>,
        (hash, key): (u64, &[u8]),
        value: Option<&[u8]>,
        record: Option<Arc<Record>>,
        expected: Option<Option<Timestamp>>,
    ) -> Result<()> {
        if let Some(record) = &record {
            let refused = record.chain().would_refuse(self.timestamp, expected);
            match refused {
                Some(ConflictCause::Changed(by)) => {
                    record.count_conflict();
                    return Err(self.conflict((table.id, key), Some(by), ConflictKind::Changed));
                }
                // A later timestamp may do: what was read is validated at that one.
                Some(_) => self.is_late = true,
                None => {}
            }
        }
        let record_bytes = if record.is_none() { key.len() + RECORD_BYTES } else { 0 };
        match value {
            Some(value) => self.charge(value.len() + VERSION_BYTES + record_bytes)?,
            // A delete makes room, so it must not be refused.
            None => {
                self.open.store.limit.charge(VERSION_BYTES);
                self.open.charged += VERSION_BYTES;
            }
        }
        let value = value.map(Value::from);
        self.writes.add(Write {
            table: table.id,
            key: Key::from_slice(key),
            hash,
            value,
            expected,
            record,
            contention: 0,
        });
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Writes another value to a key that it has written before.
    fn replace(&mut self, at: usize, value: &[u8]) -> Result<()> {
        self.charge(value.len())?;
        let freed = self.writes.replace(at, Some(value.into()));
        self.release(freed);
        Ok(())
    }

    fn release(&mut self, bytes: usize) {
        self.open.store.limit.release(bytes);
        self.open.charged -= bytes;
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.open.store.charge(bytes)?;
        self.open.charged += bytes;
        Ok(())
    }

    // ---- parts of it

    /// A point to come back to.
    pub(crate) fn savepoint(&mut self) -> Mark {
        Mark(self.writes.mark())
    }

    /// Undoes what was written since; what was read stays read.
    pub(crate) fn rollback_to(&mut self, mark: Mark) {
        let mut dropped = Vec::new();
        self.writes.rewind(mark.0, |write| dropped.push(write));
        self.validated.writes = self.validated.writes.min(self.writes.entries().len());
        self.keep_what_was_seen_by(dropped);
    }

    /// Undoes all that was written; what was read stays read.
    pub(crate) fn forget_writes(&mut self) {
        let dropped = std::mem::take(&mut self.writes).into_entries();
        self.keep_what_was_seen_by(dropped);
    }

    /// Writes that are no more have read what they would have replaced.
    fn keep_what_was_seen_by(&mut self, dropped: Vec<Write>) {
        for write in dropped {
            let Some(expected) = write.expected else { continue };
            match (write.record, self.open.store.find_table(write.table)) {
                (Some(record), _) => self.saw_record(record, expected, None),
                (None, Some(table)) => self.saw(&table, &write.key, None, expected),
                (None, None) => {}
            }
        }
    }

    // ---- what is in the way

    /// Waits until the cause of a conflict at a key may be gone, or fails.
    pub(super) fn pass(&self, at: TableKey<'_>, cause: ConflictCause) -> Result<()> {
        match cause {
            ConflictCause::Pending(status) => self.wait(at, &status),
            ConflictCause::InDoubt => Err(self.open.store.log.failure()),
            ConflictCause::Gone => Ok(()),
            ConflictCause::Changed(by) => Err(self.conflict(at, Some(by), ConflictKind::Changed)),
            ConflictCause::Overtaken(by) => Err(self.conflict(at, Some(by), ConflictKind::Overtaken)),
        }
    }

    fn wait(&self, at: TableKey<'_>, status: &TxnStatus) -> Result<()> {
        debug_assert!(self.is_read_only() || status.timestamp() < self.timestamp, "invariant 3");
        let database = DatabaseKey::of::<Store>(&self.open.store);
        let (txn, blocker) = (self.id(), TxnId::new(status.timestamp().get()));
        let waits = &self.open.store.waits;
        let listed = waits.begin(WaitUnderWay { txn, blocker, table: at.0, key: at.1.into() });
        let (patience, begun) = (body::patience(database, self.lock_wait), Instant::now());
        let decided = while_blocked(|| status.wait(patience, self.open.store.log.as_ref()));
        body::has_waited(database, begun.elapsed());
        drop(listed);
        waits.count(body::take_last_wait().unwrap_or_default());
        match decided {
            Some(_) => Ok(()),
            None => Err(self.conflict(at, Some(status.timestamp()), ConflictKind::Timeout)),
        }
    }

    #[cold]
    pub(super) fn conflict(&self, at: TableKey<'_>, holder: Option<Timestamp>, kind: ConflictKind) -> Error {
        let holder = holder.filter(|holder| *holder != Timestamp::ZERO);
        // For other conflicts the holder has ended.
        let open = holder.filter(|_| kind == ConflictKind::Timeout).unwrap_or_default();
        let contested = self.open.store.contested(at.0, at.1, open);
        let holder = holder.map(|holder| TxnId::new(holder.get()));
        events::conflict(Error::Conflict { victim: self.id(), holder, kind, contested })
    }
}
