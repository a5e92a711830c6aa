//! A transaction until it is validated: it reads the versions at its timestamp, and keeps its
//! writes in its own memory.
//!
//! One thread at a time uses a transaction, which may move between threads. Invariants:
//!
//! 1. The transaction remembers everything that it has seen of other transactions. `reads` has
//!    versions that were seen, and records in which a call for one key has found no value. `passed`
//!    has the intervals that scans have passed over, and each key for which a call has found no
//!    record. In these intervals the scans have found values only in records of `reads`. The
//!    `expected` of a write says what the write has read. A transaction that only reads needs none
//!    of these, because nothing below its bound changes.
//! 2. `depends` has the position of each transaction whose version was seen and that is not durable
//!    yet.
//! 3. A writing transaction waits only for transactions with lower timestamps. Each wait is without
//!    a latch and lasts at most `lock_wait`.
//! 4. The versions that a transaction has seen need not be consistent before it is validated, so no
//!    code here relies on their consistency. `KeyExists` is the exception: everything seen so far
//!    is validated before this error is returned, because a caller gives up when it gets this
//!    error.

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

/// Holds a slot of a store, and the bytes charged to the slot's transaction, until dropped.
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

/// A version that was seen: the one written at `expected`, or no value.
#[derive(Debug)]
pub(super) struct ReadEntry {
    pub(super) record: Arc<Record>,
    pub(super) expected: Option<Timestamp>,
    /// Index in `passed` of the interval in which the version was seen.
    pub(super) seen_in: Option<usize>,
}

/// An interval that a scan has passed over, or one key that had no record. The scan has found
/// values in the records of `reads` whose `seen_in` names this interval, and in no other record. (A
/// value that only another call of the transaction has found does not belong to the interval. In
/// that case another transaction has inserted or deleted the key between the scan and the call, so
/// validation fails.)
#[derive(Debug)]
pub(super) struct ScannedInterval {
    pub(super) table: Arc<Table>,
    pub(super) from: Bound<Key>,
    pub(super) to: Bound<Key>,
    /// True if the scan has passed over any part of the interval.
    pub(super) is_passed: bool,
}

/// A key of a table.
pub(super) type TableKey<'k> = (TableId, &'k [u8]);

/// Bytes that a write adds for a record of its key, if the key has none yet.
fn record_bytes(key: &[u8], record: Option<&Arc<Record>>) -> usize {
    if record.is_none() { key.len() + RECORD_BYTES } else { 0 }
}

/// A value and the timestamp of its version; `(None, None)` if the key has no value.
pub(super) type FoundValue = (Option<Value>, Option<Timestamp>);

/// A point in a transaction to which it can roll back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(usize);

/// A transaction that reads, and collects its writes. When it is dropped, nothing of it remains.
#[derive(Debug)]
pub(crate) struct ActiveTxn {
    pub(super) open: Open,
    pub(super) access: Access,
    /// The timestamp with which the transaction began.
    id: TxnId,
    /// A writer commits at this timestamp. It is the one with which the transaction began, until
    /// the transaction is overtaken and takes a new one.
    pub(super) timestamp: Timestamp,
    /// The transaction reads versions below this timestamp.
    pub(super) bound: Timestamp,
    pub(super) lock_wait: Duration,
    /// True if the timestamp is known to be too low for the writes.
    pub(super) is_late: bool,
    pub(super) depends: Dependencies,
    pub(super) reads: Vec<ReadEntry>,
    compact_at: usize,
    pub(super) passed: Vec<ScannedInterval>,
    pub(super) writes: WriteSet,
    pub(super) validated: ValidatedCounts,
}

/// Number of reads, scans and writes that were already validated at the transaction's timestamp.
/// Validated reads, scans and writes stay validated at that timestamp.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ValidatedCounts {
    pub(super) reads: usize,
    pub(super) passed: usize,
    pub(super) writes: usize,
}

/// Number of reads at which duplicate reads are removed for the first time.
const COMPACT_FIRST: usize = 1024;

impl ActiveTxn {
    /// Begins a transaction. `lock_wait` bounds each single wait for another transaction.
    ///
    /// # Errors
    /// `Error::TooManyTransactions` if the maximum number of transactions stays open for
    /// `lock_wait`. `Error::Conflict` if a reader waits for `lock_wait` for a transaction that is
    /// being validated.
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
            id: TxnId::new(timestamp.get()),
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

    /// The transaction reads versions below this timestamp.
    pub(crate) fn bound(&self) -> Timestamp {
        self.bound
    }

    /// The transaction's id. It stays the same if the transaction takes a new timestamp.
    pub(crate) fn id(&self) -> TxnId {
        self.id
    }

    /// Bytes of all keys and values to be written, and the number of writes.
    pub(crate) fn to_write(&self) -> (usize, usize) {
        self.writes.bytes()
    }

    /// Dependencies on transactions whose versions were seen and that are not durable yet.
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

    /// The record of a key, if there is one, and its value.
    fn look(&mut self, table: &Table, hash: u64, key: &[u8]) -> Result<(Option<Arc<Record>>, FoundValue)> {
        loop {
            let Some(record) = table.index.get_hashed(hash, key) else { return Ok((None, (None, None))) };
            if let Some(found) = self.read(&record)? {
                return Ok((Some(record), found));
            }
        }
    }

    /// The value of a record at this transaction's bound; `None` if the record is no longer in the
    /// index.
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

    /// Remembers the version of `record`, or the absence of `key` (invariant 1).
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

    /// Returns what the last read of `record` has seen: the timestamp of the version, or `None` for
    /// no value. Looks only at the transaction's last 64 reads.
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

    /// Sets the value of `key` if it has none. If it has one, validates everything seen so far,
    /// including this key, at one timestamp, and then fails with `KeyExists`.
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

    /// Removes `key`. Returns whether it had a value.
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
                // The transaction may commit at a later timestamp, at which its reads are then
                // validated.
                Some(_) => self.is_late = true,
                None => {}
            }
        }
        match value {
            Some(value) => self.charge(value.len() + VERSION_BYTES + record_bytes(key, record.as_ref()))?,
            // A delete frees memory in the end, so it must not be refused.
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

    /// Replaces the value of an earlier write of this transaction.
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

    // ---- savepoints

    /// Forgets all savepoints, and the values that were kept for them.
    pub(crate) fn forget_savepoints(&mut self) {
        let freed = self.writes.forget_undo();
        self.release(freed);
    }

    /// Makes a savepoint.
    pub(crate) fn savepoint(&mut self) -> Mark {
        Mark(self.writes.mark())
    }

    /// Undoes the writes after `mark`, and gives back their memory. Reads are kept.
    pub(crate) fn rollback_to(&mut self, mark: Mark) {
        let mut dropped = Vec::new();
        let replaced = self.writes.rewind(mark.0, |write| dropped.push(write));
        let added = dropped.iter().map(|write| {
            let record_bytes = record_bytes(&write.key, write.record.as_ref());
            write.version_bytes() + record_bytes
        });
        self.release(replaced + added.sum::<usize>());
        self.validated.writes = self.validated.writes.min(self.writes.entries().len());
        self.keep_what_was_seen_by(dropped);
    }

    /// Undoes all writes. Reads are kept.
    pub(crate) fn forget_writes(&mut self) {
        let dropped = std::mem::take(&mut self.writes).into_entries();
        self.keep_what_was_seen_by(dropped);
    }

    /// Keeps the reads of undone writes. A write whose `expected` is `Some` has read its key, and
    /// has found a version or no value. A write whose `expected` is `None` has read nothing.
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

    // ---- conflicts

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
        // Only after a time-out does the error say for how long the holder has been open. In other
        // conflicts the holder has usually ended, or will soon end.
        let open = holder.filter(|_| kind == ConflictKind::Timeout).unwrap_or_default();
        let contested = self.open.store.contested(at.0, at.1, open);
        let holder = holder.map(|holder| TxnId::new(holder.get()));
        events::conflict(Error::Conflict { victim: self.id(), holder, kind, contested })
    }
}
