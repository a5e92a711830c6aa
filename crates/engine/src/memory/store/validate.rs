//! Commit-time validation: pending versions are installed, then the read set is checked again.
//!
//! The order is that of Cicada (section 3.4). First, versions with an undecided status are put on
//! top of their chains. Then each read is checked once more, and the read timestamp (`rts`) of what
//! was read is raised. Suppose that each of two transactions has read a key that the other writes.
//! Then the one with the later timestamp either finds the other's version when it checks its reads,
//! or raises an `rts` that refuses this version afterwards. Invariants:
//!
//! 1. A transaction is validated at one timestamp. All its versions have this timestamp, and all
//!    its reads are of the last versions below it.
//! 2. A transaction that is too late for its timestamp takes a new one, but only while none of its
//!    versions is in place. Its reads are checked after it has its final timestamp.
//! 3. Versions in place have an owner, first [`Installing`], then [`Validated`]. An owner that is
//!    dropped before it has decided the status, also by a panic, removes the versions. Without an
//!    owner other transactions would wait forever for the status of such versions.
//! 4. A [`Validated`] transaction can commit or abort; it aborts if it is dropped. The clock has
//!    passed the timestamp of a validated transaction, so a transaction that begins after the
//!    acknowledgement has a greater timestamp.

use super::early;
use super::index::Reached;
use super::limit::{RECORD_BYTES, VERSION_BYTES};
use super::record::{ConflictCause, Key, Record};
use super::state::Store;
use super::transaction::{ActiveTxn, Open, ReadEntry, ScannedInterval, ValidatedCounts};
use super::transaction_writes::Write;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::TableId;
use crate::options::Access;
use crate::sharded::ShardRef;
use katydid_kernels::txn::Timestamp;
use katydid_kernels::txn::{TxnState, TxnStatus};
use katydid_wal::{Dependencies, StreamLsn};
use smallvec::SmallVec;
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of new timestamps that a transaction takes because it was overtaken while it
/// installed versions.
const NEW_TIMESTAMPS: u32 = 3;

impl Write {
    pub(super) fn version_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.len()) + VERSION_BYTES
    }
}

impl ActiveTxn {
    /// Installs the transaction's versions, and checks that it can commit as a whole at its
    /// timestamp.
    ///
    /// # Errors
    /// After any error nothing of the transaction remains, so it may be run again.
    pub(crate) fn validate(mut self) -> Result<Validated> {
        let outcome = self.validate_all();
        match outcome {
            Ok((status, writes)) => Ok(self.into_validated(status, writes)),
            Err(error) => {
                let store = self.open.store.clone();
                drop(self);
                store.pause();
                Err(error)
            }
        }
    }

    fn validate_all(&mut self) -> Result<(Option<Arc<TxnStatus>>, Vec<Write>)> {
        let mut writes = std::mem::take(&mut self.writes).into_entries();
        if writes.is_empty() {
            if self.access == Access::ReadWrite {
                self.validate_reads()?;
            }
            return Ok((None, writes));
        }
        // The contention is copied, because other threads change it, and a sort needs stable keys.
        let mut most_contended = 0;
        for write in &mut writes {
            write.contention = write.record.as_ref().map_or(0, |record| record.contention() / 16);
            most_contended = most_contended.max(write.contention);
        }
        if most_contended > 0 {
            writes.sort_unstable_by(|left, right| {
                let by_contention = right.contention.cmp(&left.contention);
                by_contention.then_with(|| (left.table, &left.key).cmp(&(right.table, &right.key)))
            });
        }
        self.check_early(&writes)?;
        let mut installing = Installing { store: self.open.store.clone(), status: None, tried: 0, writes };
        self.install(&mut installing)?;
        self.open.store.slots.installed(self.timestamp);
        self.validate_reads()?;
        Ok((installing.status.take(), std::mem::take(&mut installing.writes)))
    }

    // ---- versions

    fn install(&mut self, installing: &mut Installing) -> Result<()> {
        let mut renewed = 0;
        loop {
            if self.is_late || !self.open.store.slots.may_install(self.timestamp) {
                self.timestamp = self.open.store.slots.renew(self.open.slot, &self.open.store.clock);
                self.is_late = false;
                continue;
            }
            let status = installing.status.insert(Arc::new(TxnStatus::new(self.timestamp)));
            installing.tried = 0;
            let (failed, at) = loop {
                let Some(write) = installing.writes.get_mut(installing.tried) else { return Ok(()) };
                installing.tried += 1;
                if let Err(cause) = self.install_one(write, status) {
                    break (cause, installing.tried - 1);
                }
            };
            if let Some(record) = &installing.writes[at].record {
                record.count_conflict();
            }
            installing.undo();
            match failed {
                Refused::By(ConflictCause::Overtaken(_)) if renewed < NEW_TIMESTAMPS => {
                    renewed += 1;
                    self.is_late = true;
                }
                Refused::By(cause) => {
                    let write = &installing.writes[at];
                    self.pass((write.table, &write.key), cause)?;
                }
                Refused::Because(error) => return Err(error),
            }
        }
    }

    fn install_one(
        &mut self,
        write: &mut Write,
        status: &Arc<TxnStatus>,
    ) -> std::result::Result<(), Refused> {
        loop {
            let record = match &write.record {
                Some(record) => record,
                None => write.record.insert(self.record_for(write.table, &write.key)?),
            };
            let outcome = record.chain().install(self.timestamp, write.value.clone(), status, write.expected);
            match outcome {
                Ok(seen) => {
                    seen.join_into(&mut self.depends, self.open.store.log.as_ref());
                    record.count_success();
                    return Ok(());
                }
                Err(ConflictCause::Gone) => write.record = None,
                Err(ConflictCause::Pending(status)) => {
                    record.count_conflict();
                    let at = (write.table, write.key.as_slice());
                    self.pass(at, ConflictCause::Pending(status)).map_err(Refused::Because)?;
                }
                Err(cause) => return Err(Refused::By(cause)),
            }
        }
    }

    fn record_for(&self, table: TableId, key: &[u8]) -> std::result::Result<Arc<Record>, Refused> {
        let at = (table, key);
        let Some(table) = self.open.store.find_table(table) else {
            return Err(Refused::Because(self.conflict(at, None, ConflictKind::Changed)));
        };
        match table.index.get_or_insert(key, self.timestamp) {
            Ok((record, is_new)) => {
                if is_new {
                    self.open.store.limit.charge(key.len() + RECORD_BYTES);
                }
                Ok(record)
            }
            Err(gap) => Err(Refused::By(ConflictCause::Overtaken(gap.0))),
        }
    }

    // ---- reads

    /// Checks all reads at the transaction's timestamp, and raises their `rts` so that they stay
    /// valid.
    fn validate_reads(&mut self) -> Result<()> {
        let reads = std::mem::take(&mut self.reads);
        let passed = std::mem::take(&mut self.passed);
        self.validate_all_reads(&reads, &passed, 0)
    }

    /// Validates, at the transaction's timestamp, all reads so far that were not validated before.
    /// The transaction continues.
    ///
    /// Validation raises the `rts` of a read, so the read need not be checked again at the same
    /// timestamp.
    pub(super) fn validate_so_far(&mut self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let (reads, passed) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.passed));
        let validated = self.validated;
        let outcome =
            self.validate_all_reads(&reads[validated.reads..], &passed[validated.passed..], validated.passed);
        (self.reads, self.passed) = (reads, passed);
        outcome?;
        let writes = std::mem::take(&mut self.writes);
        let mut replaced = writes.entries()[validated.writes..].iter();
        let outcome = replaced.try_for_each(|write| match (&write.record, write.expected) {
            (_, None) => Ok(()),
            (Some(record), Some(expected)) => self.validate_record(record, expected),
            (None, Some(_)) => self.validate_absence(write.table, &write.key),
        });
        self.writes = writes;
        outcome?;
        self.validated = ValidatedCounts {
            reads: self.reads.len(),
            passed: self.passed.len(),
            writes: self.writes.entries().len(),
        };
        Ok(())
    }

    /// Checks that a key without a record still has no value.
    fn validate_absence(&mut self, table: TableId, key: &Key) -> Result<()> {
        let missing = (table, key.as_slice());
        let Some(table) = self.open.store.find_table(table) else {
            return Err(self.conflict(missing, None, ConflictKind::Changed));
        };
        let at = || Bound::Included(key.clone());
        let interval = ScannedInterval { table, from: at(), to: at(), is_passed: true };
        self.validate_interval(&interval, |_| false)
    }

    /// Validates these reads and intervals. `first` is the index of the first of these intervals in
    /// the transaction's `passed`.
    fn validate_all_reads(
        &mut self,
        reads: &[ReadEntry],
        passed: &[ScannedInterval],
        first: usize,
    ) -> Result<()> {
        for read in reads {
            self.validate_record(&read.record, read.expected)?;
        }
        if passed.is_empty() {
            return Ok(());
        }
        let in_scans = reads.iter().filter_map(|read| Some((read.seen_in?, Arc::as_ptr(&read.record))));
        let mut seen: Vec<(usize, *const Record)> = in_scans.collect();
        seen.sort_unstable();
        for (at, interval) in (first..).zip(passed).filter(|(_, interval)| interval.is_passed) {
            self.validate_interval(interval, |record| {
                seen.binary_search(&(at, Arc::as_ptr(record))).is_ok()
            })?;
        }
        Ok(())
    }

    fn validate_interval(
        &mut self,
        interval: &ScannedInterval,
        was_seen: impl Fn(&Arc<Record>) -> bool,
    ) -> Result<()> {
        let (first, to) = interval.bounds();
        let mut from = first.map(|key| key.to_vec());
        let mut found: SmallVec<[Arc<Record>; 4]> = SmallVec::new();
        loop {
            let lower = from.as_ref().map(Vec::as_slice);
            let reached = interval.table.index.pass(lower, to, self.timestamp, &mut found);
            for record in found.drain(..) {
                if !was_seen(&record) {
                    self.validate_record(&record, None)?;
                }
            }
            match reached {
                Reached::End => return Ok(()),
                Reached::Fence(fence) => from = Bound::Included(fence.to_vec()),
            }
        }
    }

    fn validate_record(&mut self, record: &Arc<Record>, expected: Option<Timestamp>) -> Result<()> {
        let mut again: Option<Arc<Record>> = None;
        loop {
            let record = again.as_ref().unwrap_or(record);
            let outcome = record.chain().validate(self.timestamp, expected);
            match outcome {
                Ok(seen) => {
                    seen.join_into(&mut self.depends, self.open.store.log.as_ref());
                    return Ok(());
                }
                Err(ConflictCause::Gone) => {
                    // The key of a gone record has no value, or has another record.
                    let mut found: SmallVec<[Arc<Record>; 1]> = SmallVec::new();
                    if let Some(table) = self.open.store.find_table(record.table) {
                        let key = record.key.as_slice();
                        table.index.pass(
                            Bound::Included(key),
                            Bound::Included(key),
                            self.timestamp,
                            &mut found,
                        );
                    }
                    match found.pop() {
                        Some(record) => again = Some(record),
                        None if expected.is_none() => return Ok(()),
                        None => {
                            let at = (record.table, record.key.as_slice());
                            return Err(self.conflict(at, None, ConflictKind::Changed));
                        }
                    }
                }
                Err(cause) => {
                    if matches!(cause, ConflictCause::Changed(_)) {
                        record.count_conflict();
                    }
                    self.pass((record.table, &record.key), cause)?;
                }
            }
        }
    }

    // ---- the end

    fn into_validated(self, status: Option<Arc<TxnStatus>>, writes: Vec<Write>) -> Validated {
        let ActiveTxn { mut open, access, timestamp, bound, depends, .. } = self;
        let store = &open.store;
        let kept: usize = writes.iter().map(Write::version_bytes).sum();
        store.limit.release(open.charged.saturating_sub(kept));
        open.charged = 0;
        let seen_to = match access {
            Access::ReadOnly => bound.before(),
            Access::ReadWrite => {
                store.clock.after(timestamp.tick());
                timestamp
            }
        };
        store.slots.read_all(open.slot);
        store.backoff.count();
        early::was_validated();
        Validated { open, timestamp, seen_to, depends, status, writes }
    }
}

/// The versions that a transaction puts in place, until the transaction is validated. The versions
/// are removed when this value is dropped.
struct Installing {
    store: ShardRef<Store>,
    /// The status of the versions; `None` if no version is in place.
    status: Option<Arc<TxnStatus>>,
    /// Number of writes that may be in place.
    tried: usize,
    writes: Vec<Write>,
}

impl Installing {
    fn undo(&mut self) {
        if let Some(status) = self.status.take() {
            undo(&self.store, &status, &self.writes[..self.tried]);
        }
    }
}

impl Drop for Installing {
    fn drop(&mut self) {
        self.undo();
    }
}

enum Refused {
    By(ConflictCause),
    Because(Error),
}

/// Removes the versions of these writes that are in place, and decides that their transaction has
/// aborted.
fn undo(store: &Store, status: &Arc<TxnStatus>, writes: &[Write]) {
    let mut empty: SmallVec<[Arc<Record>; 2]> = SmallVec::new();
    for record in writes.iter().filter_map(|write| write.record.as_ref()) {
        if record.chain().undo(status.timestamp()) {
            empty.push(record.clone());
        }
    }
    status.decide(TxnState::Aborted);
    if !empty.is_empty() {
        store.retire(status.timestamp(), None, empty);
    }
}

/// A transaction that can commit. The transaction commits when its owner calls
/// [`pre_committed`](Self::pre_committed) or [`committed`](Self::committed), and aborts if it is
/// dropped. Commit and abort may happen on another thread.
#[derive(Debug)]
pub(crate) struct Validated {
    open: Open,
    timestamp: Timestamp,
    /// Timestamp up to which the transaction may have seen or written versions.
    seen_to: Timestamp,
    depends: Dependencies,
    /// The status of the versions; `None` if the transaction writes nothing.
    status: Option<Arc<TxnStatus>>,
    writes: Vec<Write>,
}

impl Validated {
    /// The timestamp of the transaction, which is also the stamp of its log record.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Timestamp up to which the transaction may have seen or written versions. The caller passes
    /// it to [`Store::acknowledge`] when it acknowledges the transaction.
    pub(crate) fn seen_to(&self) -> Timestamp {
        self.seen_to
    }

    /// Positions that must be durable before the transaction is acknowledged, in addition to the
    /// transaction's own record.
    pub(crate) fn depends(&self) -> &Dependencies {
        &self.depends
    }

    /// The dependencies. A commit that waits for all records (`CommitDependencies::All`) adds more.
    pub(crate) fn depends_mut(&mut self) -> &mut Dependencies {
        &mut self.depends
    }

    /// Writes of the transaction: table, key and value. A write without a value deletes the key.
    pub(crate) fn writes(&self) -> impl ExactSizeIterator<Item = (TableId, &[u8], Option<&[u8]>)> {
        self.writes.iter().map(|write| (write.table, write.key.as_slice(), write.value.as_deref()))
    }

    /// Makes the writes visible, because the transaction's record is in the log and ends at
    /// `place`. Transactions that see the writes depend on `place` and on the transaction's
    /// dependencies, which this returns.
    pub(crate) fn pre_committed(mut self, place: StreamLsn) -> Dependencies {
        if let Some(status) = self.status.take() {
            status.pre_commit(place, self.depends.clone());
            self.retire(status);
        }
        std::mem::take(&mut self.depends)
    }

    /// Makes the writes visible, because the transaction is durable and about to be acknowledged.
    /// Transactions that see the writes depend on nothing.
    pub(crate) fn committed(mut self) {
        self.open.store.acknowledge(self.seen_to);
        if let Some(status) = self.status.take() {
            status.decide(TxnState::Committed);
            self.retire(status);
        }
    }

    /// Aborts the transaction.
    pub(crate) fn abort(self) {
        drop(self);
    }

    /// Marks the transaction as in doubt, because the log failed after its record was appended.
    /// Until the database is opened again, each transaction that finds one of its versions fails.
    pub(crate) fn in_doubt(mut self) {
        if let Some(status) = self.status.take() {
            status.decide(TxnState::InDoubt);
        }
    }

    fn retire(&mut self, status: Arc<TxnStatus>) {
        let records = std::mem::take(&mut self.writes).into_iter().filter_map(|write| write.record).collect();
        self.open.store.retire(self.timestamp, Some(status), records);
    }
}

impl Drop for Validated {
    fn drop(&mut self) {
        if let Some(status) = self.status.take() {
            undo(&self.open.store, &status, &self.writes);
            self.open.store.limit.release(self.writes.iter().map(Write::version_bytes).sum());
        }
    }
}
