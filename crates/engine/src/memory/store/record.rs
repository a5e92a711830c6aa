//! One key's versions, and the rules by which they are read, added to and cut off.
//!
//! A record's chain is guarded by its latch (rank 8: below the index's latches; no other is taken
//! while it is held, and nothing is waited for). The chain itself is pure. Invariants:
//!
//! 1. Versions are in the order of their timestamps; only the newest, the head, may be undecided or
//!    aborted.
//! 2. A version's `rts` is at least the timestamp of every transaction that was validated having
//!    read it; `base_rts` is the same for "there is no version". A version is put above another
//!    only with a timestamp not below that one's `rts`; so what was read at a timestamp stays what
//!    is there at that timestamp.
//! 3. Nothing is put on top of an undecided version: a later writer waits for its status, and an
//!    earlier writer gives way.
//! 4. A chain that is `gone` is in no index any more, and stays empty. A thread that finds it looks
//!    the key up again.

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

/// A key as it is kept: short ones without memory of their own.
pub(crate) type Key = SmallVec<[u8; 24]>;

/// One key of a table.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) table: TableId,
    pub(super) key: Key,
    /// Recent contention of its writers. Read and written by all, a hint.
    contention: AtomicU8,
    chain: Mutex<Chain>,
}

impl Record {
    pub(super) fn new(table: TableId, key: Key, base_rts: Timestamp) -> Self {
        Record { table, key, contention: AtomicU8::new(0), chain: Mutex::new(Chain::new(base_rts)) }
    }

    /// With a version that recovery found, of a key that is new.
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

    /// A conflict over it.
    pub(super) fn count_conflict(&self) {
        self.contention.store(self.contention().saturating_add(16), Ordering::Relaxed);
    }

    /// A write without a conflict.
    pub(super) fn count_success(&self) {
        let contention = self.contention();
        if contention > 0 {
            self.contention.store(contention - 1, Ordering::Relaxed);
        }
    }
}

/// Value of a key from some time on.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) wts: Timestamp,
    pub(super) rts: Timestamp,
    /// None: deleted.
    pub(super) value: Option<Value>,
    pub(super) outcome: Outcome,
}

impl Version {
    fn state(&self) -> TxnState {
        self.outcome.state()
    }
}

/// An obstacle that a transaction cannot pass.
#[derive(Debug)]
pub(super) enum ConflictCause {
    /// Wait for this one, and try again.
    Pending(Arc<TxnStatus>),
    /// It is not known whether this version is committed.
    InDoubt,
    /// Look the key up again (invariant 4).
    Gone,
    /// The version that it expects is gone, because of this transaction.
    Changed(Timestamp),
    /// A later transaction, this one if known, has read or written here.
    Overtaken(Timestamp),
}

/// Findings of a look through a chain.
#[derive(Debug)]
pub(super) struct Pruned {
    /// Versions cut off.
    pub(super) cut: SmallVec<[Version; 1]>,
    /// True if the record can go.
    pub(super) can_go: bool,
    /// True if it is a tombstone.
    pub(super) is_deleted: bool,
    /// True if its newest version is that of the transaction that has had it looked through.
    pub(super) is_its_own: bool,
}

/// All versions of one key.
#[derive(Debug)]
pub(super) struct Chain {
    base_rts: Timestamp,
    head: Option<Version>,
    /// Oldest first.
    older: Vec<Version>,
    gone: bool,
}

impl Chain {
    pub(super) fn new(base_rts: Timestamp) -> Self {
        Chain { base_rts, head: None, older: Vec::new(), gone: false }
    }

    /// The version that is there below `bound`: the one written last before it, and not aborted.
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

    /// Makes sure that a reader at `timestamp` finds what it expects, for ever: the version written
    /// at `expected`, or no value. What that depends on.
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

    /// The transaction that has changed what a reader below `bound` expects, if one has: `validate`
    /// would fail. Not so if that cannot be told yet.
    pub(super) fn was_changed(&mut self, bound: Timestamp, expected: Option<Timestamp>) -> Option<Timestamp> {
        let found = self.read(bound).ok()?;
        let there = found.as_ref().filter(|version| version.value.is_some()).map(|version| version.wts);
        (there != expected).then(|| found.map_or(Timestamp::ZERO, |version| version.wts))
    }

    /// Puts a version of an undecided transaction on top. `expected` is the version that its writer
    /// has read, by its timestamp, or no value. That read is validated by this, because nothing
    /// comes between the two any more. Returns the dependencies.
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
                // A blind write has not seen what it replaces.
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

    /// Returns whether a writer at `timestamp` that expects this would be refused already.
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
        // Looked at last: mostly it need not be, and it lies elsewhere.
        matches!(head.state(), TxnState::PreCommitted | TxnState::Committed).then_some(cause)
    }

    /// Takes the version away that the transaction of `timestamp` has put on top. Whether the chain
    /// is empty then.
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

    /// Takes what recovery found, if it is newer; then, the version that it replaces.
    pub(super) fn load(&mut self, timestamp: Timestamp, value: Option<&[u8]>) -> Option<Option<Version>> {
        if self.head.as_ref().is_some_and(|head| head.wts >= timestamp) {
            return None;
        }
        let value = value.map(Value::from);
        Some(self.head.replace(Version { wts: timestamp, rts: timestamp, value, outcome: Outcome::Durable }))
    }

    /// The newest version that is decided.
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
            // Mostly for long: what the allocator gives next time is nearer than what lay here
            // meanwhile.
            self.older = Vec::new();
        }
        Pruned {
            cut,
            can_go: self.can_go(horizon),
            is_deleted: self.head.as_ref().is_some_and(|head| head.value.is_none()),
            is_its_own: self.head.as_ref().is_some_and(|head| head.wts == written),
        }
    }

    /// Returns whether no reader at `horizon` or later finds a value, and no crash could bring one
    /// back.
    pub(super) fn can_go(&self, horizon: Timestamp) -> bool {
        !self.gone
            && self.older.is_empty()
            && self.head.as_ref().is_none_or(|head| {
                head.value.is_none() && head.wts < horizon && head.state() == TxnState::Committed
            })
    }

    /// Marks the chain as gone (its caller takes it out of the index). What its gap must know:
    /// nothing may be inserted earlier. And whether there was a version.
    pub(super) fn take_out(&mut self) -> (Timestamp, bool) {
        self.gone = true;
        match self.head.take() {
            Some(head) => (self.base_rts.max(head.rts).max(head.wts), true),
            None => (self.base_rts, false),
        }
    }

    /// Returns whether it is a tombstone.
    pub(super) fn is_deleted(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.value.is_none())
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.older.len() + usize::from(self.head.is_some())
    }

    /// All versions, to be forgotten with their table.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Version> + use<> {
        self.gone = true;
        std::mem::take(&mut self.older).into_iter().chain(self.head.take())
    }
}
