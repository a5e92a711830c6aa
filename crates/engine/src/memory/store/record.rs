//! One key's versions, and the rules by which they are read, added to and cut off.
//!
//! A record's chain is guarded by its latch (rank 8: below the index's latches; no other is taken while it is held, and nothing is
//! waited for). The chain itself is pure. Invariants:
//!
//! 1. Versions are in the order of their timestamps; only the newest, the head, may be undecided or aborted.
//! 2. A version's `rts` is at least the timestamp of every transaction that was validated having read it; `base_rts` is the same
//!    for "there is no version". A version is put above another only with a timestamp not below that one's `rts`; so what was read
//!    at a timestamp stays what is there at that timestamp.
//! 3. Nothing is put on top of an undecided version: whoever comes later waits for its fate, whoever is earlier gives way.
//! 4. A chain that is `gone` is in no index any more, and stays empty. Who finds it looks the key up again.

use super::LogView;
use super::clock::Timestamp;
use super::fate::{Fate, State};
pub(crate) use super::value::Value;
use crate::ids::TableId;
use parking_lot::{Mutex, MutexGuard};
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
    /// How much its writers were in each other's way lately. Read and written by all, a hint.
    heat: AtomicU8,
    chain: Mutex<Chain>,
}

impl Record {
    pub(super) fn new(table: TableId, key: Key, base_rts: Timestamp) -> Self {
        Record { table, key, heat: AtomicU8::new(0), chain: Mutex::new(Chain::new(base_rts)) }
    }

    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock()
    }

    pub(super) fn heat(&self) -> u8 {
        self.heat.load(Ordering::Relaxed)
    }

    /// A conflict over it.
    pub(super) fn heat_up(&self) {
        self.heat.store(self.heat().saturating_add(16), Ordering::Relaxed);
    }

    /// A write without a conflict.
    pub(super) fn cool_down(&self) {
        let heat = self.heat();
        if heat > 0 {
            self.heat.store(heat - 1, Ordering::Relaxed);
        }
    }
}

/// What a key had from some time on.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) wts: Timestamp,
    pub(super) rts: Timestamp,
    /// None: deleted.
    pub(super) value: Option<Value>,
    /// None: committed and durable.
    pub(super) fate: Option<Arc<Fate>>,
}

impl Version {
    fn state(&self) -> State {
        self.fate.as_ref().map_or(State::Committed, |fate| fate.state())
    }

    /// The fate as far as a reader has to follow it.
    pub(super) fn pre_committed(&self) -> Option<&Arc<Fate>> {
        self.fate.as_ref().filter(|fate| fate.state() == State::PreCommitted)
    }
}

/// What a transaction found that it cannot pass.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// Wait for this one, and try again.
    Pending(Arc<Fate>),
    /// Nobody knows what became of this version.
    Doubtful,
    /// Look the key up again (invariant 4).
    Gone,
    /// What it expects is not there any more, because of this transaction.
    Changed(Timestamp),
    /// A later transaction, this one if known, has read or written here.
    Overtaken(Timestamp),
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
    pub(super) fn read(&mut self, bound: Timestamp) -> Result<Option<&mut Version>, Obstacle> {
        if self.gone {
            return Err(Obstacle::Gone);
        }
        if self.head.as_ref().is_some_and(|head| head.wts < bound) {
            let state = self.head.as_ref().map_or(State::Committed, Version::state);
            match (state, &self.head) {
                (State::PreCommitted | State::Committed, _) => return Ok(self.head.as_mut()),
                (State::Pending, Some(Version { fate: Some(fate), .. })) => {
                    return Err(Obstacle::Pending(fate.clone()));
                }
                (State::Doubtful, _) => return Err(Obstacle::Doubtful),
                _ => {}
            }
        }
        let at = self.older.partition_point(|version| version.wts < bound);
        Ok(at.checked_sub(1).map(|at| &mut self.older[at]))
    }

    /// Makes sure that a reader at `timestamp` finds what it expects, for ever: the version written at `expected`, or no value.
    pub(super) fn validate(
        &mut self,
        timestamp: Timestamp,
        expected: Option<Timestamp>,
    ) -> Result<Option<Arc<Fate>>, Obstacle> {
        let found = self.read(timestamp)?;
        let there = found.as_ref().filter(|version| version.value.is_some()).map(|version| version.wts);
        if there != expected {
            let by = found.map_or(Timestamp::ZERO, |version| version.wts);
            return Err(Obstacle::Changed(by));
        }
        match found {
            Some(version) => {
                version.rts = version.rts.max(timestamp);
                Ok(version.pre_committed().cloned())
            }
            None => {
                self.base_rts = self.base_rts.max(timestamp);
                Ok(None)
            }
        }
    }

    /// Puts a version of an undecided transaction on top. With `expected` its writer has read: the version written then, or no value.
    /// That is thereby validated, since nothing comes between the two any more.
    pub(super) fn install(
        &mut self,
        timestamp: Timestamp,
        value: Option<Value>,
        fate: &Arc<Fate>,
        expected: Option<Option<Timestamp>>,
    ) -> Result<Option<Arc<Fate>>, Obstacle> {
        if self.gone {
            return Err(Obstacle::Gone);
        }
        self.drop_aborted();
        let mut rts = self.base_rts;
        let mut seen = None;
        let mut depends = None;
        if let Some(head) = &mut self.head {
            if head.wts > timestamp {
                return Err(match expected {
                    Some(_) => Obstacle::Changed(head.wts),
                    None => Obstacle::Overtaken(head.wts),
                });
            }
            match (head.state(), &head.fate) {
                (State::Pending, Some(fate)) => return Err(Obstacle::Pending(fate.clone())),
                (State::Doubtful, _) => return Err(Obstacle::Doubtful),
                (State::Committed, _) => head.fate = None,
                _ => {}
            }
            rts = head.rts;
            seen = head.value.is_some().then_some(head.wts);
            depends = head.fate.clone();
        }
        if let Some(expected) = expected {
            if expected != seen {
                return Err(Obstacle::Changed(self.head.as_ref().map_or(Timestamp::ZERO, |head| head.wts)));
            }
        } else {
            depends = None; // it has not seen what it replaces
        }
        if rts > timestamp {
            return Err(Obstacle::Overtaken(rts));
        }
        let new = Version { wts: timestamp, rts: timestamp, value, fate: Some(fate.clone()) };
        if let Some(head) = self.head.replace(new) {
            if self.older.capacity() == 0 {
                self.older.reserve_exact(1);
            }
            self.older.push(head);
        }
        Ok(depends)
    }

    /// Whether a writer at `timestamp` that expects this would be refused already.
    pub(super) fn would_refuse(
        &self,
        timestamp: Timestamp,
        expected: Option<Option<Timestamp>>,
    ) -> Option<Obstacle> {
        let head = self.head.as_ref()?;
        let seen = head.value.is_some().then_some(head.wts);
        let obstacle = match expected {
            Some(expected) if expected != seen => Obstacle::Changed(head.wts),
            _ if head.wts > timestamp => Obstacle::Overtaken(head.wts),
            _ if head.rts > timestamp => Obstacle::Overtaken(head.rts),
            _ => return None,
        };
        // Looked at last: mostly it need not be, and it lies elsewhere.
        matches!(head.state(), State::PreCommitted | State::Committed).then_some(obstacle)
    }

    /// Takes the version away that the transaction of `timestamp` has put on top. Whether the chain is empty then.
    pub(super) fn undo(&mut self, timestamp: Timestamp) -> bool {
        if self.head.as_ref().is_some_and(|head| head.wts == timestamp) {
            self.head = self.older.pop();
        }
        self.head.is_none()
    }

    fn drop_aborted(&mut self) {
        if self.head.as_ref().is_some_and(|head| head.state() == State::Aborted) {
            self.head = self.older.pop();
        }
    }

    /// Takes what recovery found, if it is newer; then, the version that it replaces.
    pub(super) fn load(&mut self, timestamp: Timestamp, value: Option<Value>) -> Option<Option<Version>> {
        if self.head.as_ref().is_some_and(|head| head.wts >= timestamp) {
            return None;
        }
        Some(self.head.replace(Version { wts: timestamp, rts: timestamp, value, fate: None }))
    }

    /// The newest version that is decided.
    pub(super) fn newest(&mut self) -> Result<Option<&Version>, Obstacle> {
        match self.read(Timestamp::MAX) {
            Ok(version) => Ok(version.map(|version| &*version)),
            Err(Obstacle::Gone) => Ok(None),
            Err(obstacle) => Err(obstacle),
        }
    }

    /// Cuts off what nobody reads at `horizon` or later. The versions cut off, and whether the record can go.
    pub(super) fn prune(
        &mut self,
        horizon: Timestamp,
        log: &dyn LogView,
    ) -> (impl Iterator<Item = Version> + use<>, bool) {
        self.drop_aborted();
        let head_is_final = match &mut self.head {
            Some(head) => {
                if head.fate.as_ref().is_some_and(|fate| fate.is_durable(log)) {
                    head.fate = None;
                }
                matches!(head.state(), State::PreCommitted | State::Committed)
            }
            None => false,
        };
        let at = self.older.partition_point(|version| version.wts < horizon);
        let keep_none = head_is_final && self.head.as_ref().is_some_and(|head| head.wts < horizon);
        let cut = if keep_none { self.older.len() } else { at.saturating_sub(1) };
        let cut: SmallVec<[Version; 1]> = self.older.drain(..cut).collect();
        if self.older.is_empty() && self.older.capacity() > 4 {
            self.older = Vec::new();
        }
        (cut.into_iter(), self.can_go(horizon))
    }

    /// Whether there is no value for anybody who reads at `horizon` or later, and never was one that a crash could bring back.
    pub(super) fn can_go(&self, horizon: Timestamp) -> bool {
        !self.gone
            && self.older.is_empty()
            && self.head.as_ref().is_none_or(|head| {
                head.value.is_none() && head.wts < horizon && head.state() == State::Committed
            })
    }

    /// Marks the chain as gone (its caller takes it out of the index). What its gap must know: nothing may be inserted earlier. And
    /// whether there was a version.
    pub(super) fn take_out(&mut self) -> (Timestamp, bool) {
        self.gone = true;
        match self.head.take() {
            Some(head) => (self.base_rts.max(head.rts).max(head.wts), true),
            None => (self.base_rts, false),
        }
    }

    /// Whether it is a tombstone.
    pub(super) fn is_deleted(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.value.is_none())
    }

    /// Whether its newest version was written then.
    pub(super) fn was_written_at(&self, written: Timestamp) -> bool {
        self.head.as_ref().is_some_and(|head| head.wts == written)
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
