//! The versions of one key, and the rules for reading, adding and cutting off versions.
//!
//! The latch of a record guards its chain. A thread may take this latch while it holds latches of
//! an index. A thread that holds a record's latch takes no other latch and waits for nothing. The
//! chain itself does no I/O. Invariants:
//!
//! 1. Versions are in the order of their timestamps; only the newest, the head, may be undecided or
//!    aborted.
//! 2. A version's read timestamp (`rts`) is at least the timestamp of every validated transaction
//!    that has read the version. `base_rts` is at least the timestamp of every validated
//!    transaction that has found no version. A version is put above another only at a timestamp of
//!    at least the other's `rts`. So the version that was read at a timestamp stays the version at
//!    that timestamp.
//! 3. No version is put on top of an undecided one: a later writer waits for the status of that
//!    version, and an earlier writer is refused.
//! 4. A chain that is `gone` stays empty, and its record is leaving the index or has left it. A
//!    thread that finds such a chain looks the key up again.

use super::found::RecoveredVersion;
pub(crate) use super::value::Value;
use crate::ids::TableId;
use crate::latch::Mutex;
use katydid_kernels::txn::Timestamp;
use katydid_kernels::txn::{Outcome, TxnState, TxnStatus};
use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A stored key. A key of at most 24 bytes lies inline.
pub(crate) type Key = SmallVec<[u8; 24]>;

/// One key of a table.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) table: TableId,
    pub(super) key: Key,
    /// Recent contention of the record's writers. All threads read and write it, relaxed, because
    /// it is a hint.
    contention: AtomicU8,
    chain: Mutex<Chain>,
}

impl Record {
    pub(super) fn new(table: TableId, key: Key, base_rts: Timestamp) -> Self {
        Record { table, key, contention: AtomicU8::new(0), chain: Mutex::new(Chain::new(base_rts)) }
    }

    /// Makes the record of a new key, with a version that recovery has read.
    pub(super) fn loaded(table: TableId, found: &RecoveredVersion<'_>) -> Self {
        let mut chain = Chain::new(Timestamp::ZERO);
        chain.load(found.timestamp, found.value);
        let key = Key::from_slice(found.key);
        Record { table, key, contention: AtomicU8::new(0), chain: Mutex::new(chain) }
    }

    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock()
    }

    pub(super) fn contention(&self) -> u8 {
        self.contention.load(Ordering::Relaxed)
    }

    /// Counts a conflict over the record.
    pub(super) fn count_conflict(&self) {
        self.contention.store(self.contention().saturating_add(16), Ordering::Relaxed);
    }

    /// Counts a write without a conflict.
    pub(super) fn count_success(&self) {
        let contention = self.contention();
        if contention > 0 {
            self.contention.store(contention - 1, Ordering::Relaxed);
        }
    }
}

/// Value of a key from timestamp `wts` on.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) wts: Timestamp,
    pub(super) rts: Timestamp,
    /// The value; `None` if the key is deleted.
    pub(super) value: Option<Value>,
    pub(super) outcome: Outcome,
}

impl Version {
    fn state(&self) -> TxnState {
        self.outcome.state()
    }
}

/// Reason why a read or write of a transaction cannot succeed now.
#[derive(Debug)]
pub(super) enum ConflictCause {
    /// The caller waits for this transaction and tries again.
    Pending(Arc<TxnStatus>),
    /// The version is in doubt: whether it is committed is not known.
    InDoubt,
    /// The record is gone. The caller looks the key up again (invariant 4).
    Gone,
    /// The expected version is no longer there, because of the transaction with this timestamp.
    Changed(Timestamp),
    /// A transaction with this later timestamp has read or written the key.
    Overtaken(Timestamp),
}

/// The result of pruning a chain.
#[derive(Debug)]
pub(super) struct Pruned {
    /// The versions that were cut off.
    pub(super) cut: SmallVec<[Version; 1]>,
    /// True if the record can be removed.
    pub(super) can_go: bool,
    /// True if the newest version is a tombstone.
    pub(super) is_deleted: bool,
    /// True if the transaction for which the chain is pruned wrote the newest version.
    pub(super) is_its_own: bool,
}

/// All versions of one key.
#[derive(Debug)]
pub(super) struct Chain {
    base_rts: Timestamp,
    head: Option<Version>,
    /// Versions that were replaced, the oldest first.
    older: Vec<Version>,
    gone: bool,
}

impl Chain {
    pub(super) fn new(base_rts: Timestamp) -> Self {
        Chain { base_rts, head: None, older: Vec::new(), gone: false }
    }

    /// The version with the greatest timestamp below `bound` that is not aborted.
    pub(super) fn read(&mut self, bound: Timestamp) -> Result<Option<&mut Version>, ConflictCause> {
        if self.gone {
            return Err(ConflictCause::Gone);
        }
        if self.head.as_ref().is_some_and(|head| head.wts < bound) {
            let state = self.head.as_ref().map_or(TxnState::Committed, Version::state);
            match (state, &self.head) {
                (TxnState::PreCommitted | TxnState::Committed, _) => return Ok(self.head.as_mut()),
                (TxnState::Pending, Some(Version { outcome: Outcome::By(status), .. })) => {
                    return Err(ConflictCause::Pending(status.clone()));
                }
                (TxnState::InDoubt, _) => return Err(ConflictCause::InDoubt),
                _ => {}
            }
        }
        let at = self.older.partition_point(|version| version.wts < bound);
        Ok(at.checked_sub(1).map(|at| &mut self.older[at]))
    }

    /// Checks that a reader at `timestamp` finds the version written at `expected` (`None`: no
    /// value). Then raises the `rts`, so that no writer with a lower timestamp can put another
    /// version there. Returns the outcome on which the read depends.
    pub(super) fn validate(
        &mut self,
        timestamp: Timestamp,
        expected: Option<Timestamp>,
    ) -> Result<Outcome, ConflictCause> {
        let found = self.read(timestamp)?;
        let there = found.as_ref().filter(|version| version.value.is_some()).map(|version| version.wts);
        if there != expected {
            let by = found.map_or(Timestamp::ZERO, |version| version.wts);
            return Err(ConflictCause::Changed(by));
        }
        match found {
            Some(version) => {
                version.rts = version.rts.max(timestamp);
                Ok(version.outcome.clone())
            }
            None => {
                self.base_rts = self.base_rts.max(timestamp);
                Ok(Outcome::Durable)
            }
        }
    }

    /// The timestamp of a transaction that has replaced the version expected by a reader below
    /// `bound`, so that `validate` would fail. `None` if there is no such transaction, or if its
    /// outcome is not decided yet.
    pub(super) fn was_changed(&mut self, bound: Timestamp, expected: Option<Timestamp>) -> Option<Timestamp> {
        let found = self.read(bound).ok()?;
        let there = found.as_ref().filter(|version| version.value.is_some()).map(|version| version.wts);
        (there != expected).then(|| found.map_or(Timestamp::ZERO, |version| version.wts))
    }

    /// Puts a version of an undecided transaction on top. `expected` is the timestamp of the
    /// version that the writer has read, `Some(None)` if the writer has found no value, and `None`
    /// if the writer has not read the key. Installing also validates this read, because from now on
    /// no version can come between the version that was read and the new one. Returns the outcome
    /// on which the write depends.
    pub(super) fn install(
        &mut self,
        timestamp: Timestamp,
        value: Option<Value>,
        status: &Arc<TxnStatus>,
        expected: Option<Option<Timestamp>>,
    ) -> Result<Outcome, ConflictCause> {
        if self.gone {
            return Err(ConflictCause::Gone);
        }
        self.drop_aborted();
        let mut rts = self.base_rts;
        let mut seen = None;
        let mut depends = Outcome::Durable;
        if let Some(head) = &mut self.head {
            if head.wts > timestamp {
                return Err(match expected {
                    Some(_) => ConflictCause::Changed(head.wts),
                    None => ConflictCause::Overtaken(head.wts),
                });
            }
            match (head.state(), &head.outcome) {
                (TxnState::Pending, Outcome::By(status)) => {
                    return Err(ConflictCause::Pending(status.clone()));
                }
                (TxnState::InDoubt, _) => return Err(ConflictCause::InDoubt),
                (TxnState::Committed, _) => head.outcome = Outcome::Durable,
                _ => {}
            }
            rts = head.rts;
            seen = head.value.is_some().then_some(head.wts);
            if expected.is_some() {
                // A blind write does not depend on the version that it replaces.
                depends = head.outcome.clone();
            }
        }
        if expected.is_some_and(|expected| expected != seen) {
            return Err(ConflictCause::Changed(self.head.as_ref().map_or(Timestamp::ZERO, |head| head.wts)));
        }
        if rts > timestamp {
            return Err(ConflictCause::Overtaken(rts));
        }
        let outcome = Outcome::By(status.clone());
        if let Some(head) = self.head.replace(Version { wts: timestamp, rts: timestamp, value, outcome }) {
            if self.older.capacity() == 0 {
                self.older.reserve_exact(1);
            }
            self.older.push(head);
        }
        Ok(depends)
    }

    /// Returns the reason why a writer at `timestamp` that expects `expected` would already be
    /// refused.
    pub(super) fn would_refuse(
        &self,
        timestamp: Timestamp,
        expected: Option<Option<Timestamp>>,
    ) -> Option<ConflictCause> {
        let head = self.head.as_ref()?;
        let seen = head.value.is_some().then_some(head.wts);
        let cause = match expected {
            Some(expected) if expected != seen => ConflictCause::Changed(head.wts),
            _ if head.wts > timestamp => ConflictCause::Overtaken(head.wts),
            _ if head.rts > timestamp => ConflictCause::Overtaken(head.rts),
            _ => return None,
        };
        // The state is read last, because it lies in other memory and usually need not be read.
        matches!(head.state(), TxnState::PreCommitted | TxnState::Committed).then_some(cause)
    }

    /// Removes the version that the transaction of `timestamp` has put on top. Returns whether the
    /// chain is then empty.
    pub(super) fn undo(&mut self, timestamp: Timestamp) -> bool {
        if self.head.as_ref().is_some_and(|head| head.wts == timestamp) {
            self.head = self.older.pop();
        }
        self.head.is_none()
    }

    fn drop_aborted(&mut self) {
        if self.head.as_ref().is_some_and(|head| head.state() == TxnState::Aborted) {
            self.head = self.older.pop();
        }
    }

    /// Adds a version that recovery has read, if it is newer than the present one. Returns `Some`
    /// if it was added, with the version that it replaced.
    pub(super) fn load(&mut self, timestamp: Timestamp, value: Option<&[u8]>) -> Option<Option<Version>> {
        if self.head.as_ref().is_some_and(|head| head.wts >= timestamp) {
            return None;
        }
        let value = value.map(Value::from);
        Some(self.head.replace(Version { wts: timestamp, rts: timestamp, value, outcome: Outcome::Durable }))
    }

    /// The newest version that is not aborted. An error if that version is undecided or in doubt.
    pub(super) fn newest(&mut self) -> Result<Option<&Version>, ConflictCause> {
        match self.read(Timestamp::MAX) {
            Ok(version) => Ok(version.map(|version| &*version)),
            Err(ConflictCause::Gone) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Cuts off the versions that no transaction reads at `horizon` or later. `outcome` is the
    /// present outcome of the transaction that wrote at `written`.
    pub(super) fn prune(
        &mut self,
        horizon: Timestamp,
        written: Timestamp,
        outcome: Option<&Outcome>,
    ) -> Pruned {
        self.drop_aborted();
        let mut head_is_final = false;
        if let Some(head) = &mut self.head {
            if let Some(outcome) = outcome.filter(|_| head.wts == written) {
                head.outcome = outcome.clone();
            }
            head_is_final =
                head.wts < horizon && matches!(head.state(), TxnState::PreCommitted | TxnState::Committed);
        }
        let cut = match head_is_final {
            true => self.older.len(),
            false => self.older.partition_point(|version| version.wts < horizon).saturating_sub(1),
        };
        let cut = self.older.drain(..cut).collect();
        if self.older.is_empty() {
            // The list usually stays empty for a long time, and newly allocated memory is likelier
            // in the cache than a kept buffer.
            self.older = Vec::new();
        }
        Pruned {
            cut,
            can_go: self.can_go(horizon),
            is_deleted: self.head.as_ref().is_some_and(|head| head.value.is_none()),
            is_its_own: self.head.as_ref().is_some_and(|head| head.wts == written),
        }
    }

    /// Returns whether the record can be removed: no reader at `horizon` or later finds a value in
    /// it, and no crash could bring a value back.
    pub(super) fn can_go(&self, horizon: Timestamp) -> bool {
        !self.gone
            && self.older.is_empty()
            && self.head.as_ref().is_none_or(|head| {
                head.value.is_none() && head.wts < horizon && head.state() == TxnState::Committed
            })
    }

    /// Marks the chain as gone; the caller removes the record from the index. Returns whether there
    /// was a version, and the `rts` for the record's gap: no key may be inserted into the gap at a
    /// lower timestamp.
    pub(super) fn take_out(&mut self) -> (Timestamp, bool) {
        self.gone = true;
        match self.head.take() {
            Some(head) => (self.base_rts.max(head.rts).max(head.wts), true),
            None => (self.base_rts, false),
        }
    }

    /// Returns whether the newest version is a tombstone.
    pub(super) fn is_deleted(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.value.is_none())
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.older.len() + usize::from(self.head.is_some())
    }

    /// Takes all versions, because their table is forgotten.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Version> + use<> {
        self.gone = true;
        std::mem::take(&mut self.older).into_iter().chain(self.head.take())
    }
}
