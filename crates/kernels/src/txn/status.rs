//! Status of a writing transaction: one word that decides for all its versions at once whether they
//! count.
//!
//! The transaction's versions, and the threads that wait for them, share the status. Invariants:
//!
//! 1. Pending changes to one of the other states, and pre-committed to committed. No other change
//!    is possible.
//! 2. The positions that a pre-committed transaction waits for are stored before its state, and
//!    never change. So a thread that reads the state `PreCommitted` finds them.
//! 3. A transaction waits only for the status of a transaction with a lower timestamp, so no two
//!    wait for each other. Every wait has a time limit.
//! 4. The [`Outcome`] of a version is replaced only by a shorter one. A position replaces the
//!    status once the transaction waits for only this position. `Durable` replaces the status once
//!    the transaction waits for no position, and replaces a position once its stream is durable up
//!    to it. A reader of the version gets the same dependencies from each form, and the status is
//!    soon freed.

use super::DurablePlaces;
use super::clock::Timestamp;
use super::deadline::Deadline;
use crate::dependencies::{Dependencies, StreamId, StreamLsn};
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU32, Ordering, yield_now};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Number of yields before a waiter sleeps. A validation takes less time than these yields, and
/// waking a thread costs more.
const YIELDS: u32 = 20;

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum TxnState {
    /// The transaction is being validated, or hides its versions until it is durable.
    Pending,
    /// The record of the transaction is in the log. Transactions that see its versions depend on
    /// the position of the record.
    PreCommitted,
    /// The transaction is durable.
    Committed,
    /// The transaction is undone: its versions do not count.
    Aborted,
    /// The log failed with the record of the transaction in it. The next opening of the database
    /// decides whether the transaction committed.
    InDoubt,
}

impl TxnState {
    fn of(number: u32) -> Self {
        match number {
            0 => TxnState::Pending,
            1 => TxnState::PreCommitted,
            2 => TxnState::Committed,
            3 => TxnState::Aborted,
            _ => TxnState::InDoubt,
        }
    }
}

/// A version's knowledge about the outcome of its transaction, in as few bytes as possible.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The transaction is committed and durable.
    Durable,
    /// The transaction is pre-committed. It is durable once `stream` is durable up to `end`.
    Until {
        /// The stream.
        stream: StreamId,
        /// Exclusive end of the record in the stream.
        end: Lsn,
    },
    /// The status holds the state of the transaction.
    By(Arc<TxnStatus>),
}

impl Outcome {
    /// The state of the transaction, as far as the version knows it.
    pub fn state(&self) -> TxnState {
        match self {
            Outcome::Durable => TxnState::Committed,
            Outcome::Until { .. } => TxnState::PreCommitted,
            Outcome::By(status) => status.state(),
        }
    }

    /// Adds the positions that are not durable yet to `depends`, the dependencies of a reader of
    /// the version.
    pub fn join_into(&self, depends: &mut Dependencies, log: &(impl DurablePlaces + ?Sized)) {
        match self {
            Outcome::Durable => {}
            Outcome::Until { stream, end } => {
                let place = StreamLsn { stream: *stream, end: *end };
                if !log.is_durable(place) {
                    depends.join(place);
                }
            }
            Outcome::By(status) => status.join_into(depends, log),
        }
    }

    /// Replaces the outcome by a shorter one if there is one (invariant 4).
    pub fn settle(&mut self, log: &(impl DurablePlaces + ?Sized)) {
        match self {
            Outcome::Durable => {}
            Outcome::Until { stream, end } => {
                if log.is_durable(StreamLsn { stream: *stream, end: *end }) {
                    *self = Outcome::Durable;
                }
            }
            Outcome::By(status) => *self = status.outcome(log),
        }
    }
}

/// The status of one transaction.
#[derive(Debug)]
pub struct TxnStatus {
    timestamp: Timestamp,
    /// Written by the transaction's owner; readers change it from pre-committed to committed. Read
    /// by any thread.
    state: AtomicU32,
    waiters: AtomicU32,
    /// The end of the record and its dependencies (invariant 2).
    place: OnceLock<(StreamLsn, Dependencies)>,
    /// Guards only the sleep of waiters. Rank: below every latch of the memory engine. A thread
    /// takes it while it holds no other latch.
    latch: Mutex<()>,
    decided: Condvar,
}

impl TxnStatus {
    /// Makes the status of a pending transaction.
    pub fn new(timestamp: Timestamp) -> Self {
        TxnStatus {
            timestamp,
            state: AtomicU32::new(TxnState::Pending as u32),
            waiters: AtomicU32::new(0),
            place: OnceLock::new(),
            latch: Mutex::new(()),
            decided: Condvar::new(),
        }
    }

    /// The timestamp of the transaction.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The present state.
    #[inline]
    pub fn state(&self) -> TxnState {
        TxnState::of(self.state.load(Ordering::SeqCst))
    }

    /// Decides the state, and wakes the waiters.
    pub fn decide(&self, state: TxnState) {
        self.state.store(state as u32, Ordering::SeqCst);
        // No waiter is missed: this thread stores the state and then loads `waiters`; a waiter adds
        // itself to `waiters` and then loads the state once more. All four accesses are SeqCst.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _asleep_or_awake = self.latch.lock();
            self.decided.notify_all();
        }
    }

    /// Makes the transaction pre-committed. The record of the transaction ends at `place`. After a
    /// crash the record is kept only if it and everything in `depends` have survived.
    pub fn pre_commit(&self, place: StreamLsn, depends: Dependencies) {
        let first = self.place.set((place, depends)).is_ok();
        debug_assert!(first, "a transaction has one record");
        self.decide(TxnState::PreCommitted);
    }

    /// Returns the shortest outcome that a version of the transaction can store.
    pub fn outcome(self: &Arc<Self>, log: &(impl DurablePlaces + ?Sized)) -> Outcome {
        let mut lacking = Dependencies::default();
        self.join_into(&mut lacking, log);
        // The state is read last, because `join_into` may have changed it to `Committed`.
        match self.state() {
            TxnState::Committed => Outcome::Durable,
            TxnState::PreCommitted if lacking.len() == 1 => lacking
                .iter()
                .next()
                .map_or(Outcome::Durable, |StreamLsn { stream, end }| Outcome::Until { stream, end }),
            _ => Outcome::By(self.clone()),
        }
    }

    /// Adds the positions that are not durable yet to `depends`, the dependencies of a reader of a
    /// version. Adds nothing unless the transaction is pre-committed.
    pub fn join_into(&self, depends: &mut Dependencies, log: &(impl DurablePlaces + ?Sized)) {
        if self.state() != TxnState::PreCommitted {
            return;
        }
        let Some((place, others)) = self.place.get() else { return };
        let mut all_durable = true;
        for place in std::iter::once(*place).chain(others.iter()) {
            if !log.is_durable(place) {
                depends.join(place);
                all_durable = false;
            }
        }
        if all_durable {
            self.state.store(TxnState::Committed as u32, Ordering::SeqCst);
        }
    }

    /// Waits until the state is no longer pending; returns `None` if that takes longer than
    /// `at_most`.
    pub fn wait(&self, at_most: Duration, log: &(impl DurablePlaces + ?Sized)) -> Option<TxnState> {
        for _ in 0..YIELDS {
            let state = self.state();
            if state != TxnState::Pending {
                return Some(state);
            }
            yield_now();
        }
        // If the committing threads write their groups themselves (protocol `inline`; Cicada with
        // P-WAL, section III-B.2), the other transaction may wait for a group that contains records
        // of this thread. So the log first makes sure that these records are written.
        log.before_wait();
        let deadline = Deadline::after(at_most);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut latch = self.latch.lock();
        let mut state = self.state();
        while state == TxnState::Pending && !deadline.sleep(&self.decided, &mut latch) {
            state = self.state();
        }
        drop(latch);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        Some(self.state()).filter(|state| *state != TxnState::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::FakeLog;
    use super::*;
    use std::sync::Arc;

    fn place(stream: u16, end: u64) -> StreamLsn {
        StreamLsn { stream: StreamId::new(stream), end: Lsn::new(end) }
    }

    #[test]
    fn who_reads_a_pre_committed_version_depends_on_all_that_it_depends_on() {
        let log = FakeLog::default();
        log.durable_below(0);
        let status = TxnStatus::new(Timestamp::of(5, 0));
        status.pre_commit(place(0, 100), [place(1, 50)].into_iter().collect());
        let mut depends = Dependencies::default();
        status.join_into(&mut depends, &log);
        assert_eq!(depends.iter().collect::<Vec<_>>(), [place(0, 100), place(1, 50)]);
        log.durable_below(60);
        let mut depends = Dependencies::default();
        status.join_into(&mut depends, &log);
        assert_eq!(depends.iter().collect::<Vec<_>>(), [place(0, 100)]);
        log.durable_below(100);
        let mut depends = Dependencies::default();
        status.join_into(&mut depends, &log);
        assert!(depends.is_empty());
        assert_eq!(status.state(), TxnState::Committed);
    }

    #[test]
    fn a_version_forgets_a_status_when_there_is_one_place_to_wait_for() {
        let log = FakeLog::default();
        log.durable_below(0);
        let status = Arc::new(TxnStatus::new(Timestamp::of(5, 0)));
        let mut outcome = Outcome::By(status.clone());
        let depends = |outcome: &Outcome| {
            let mut depends = Dependencies::default();
            outcome.join_into(&mut depends, &log);
            depends.iter().collect::<Vec<_>>()
        };
        outcome.settle(&log);
        assert_eq!(outcome.state(), TxnState::Pending);
        status.pre_commit(place(0, 50), [place(1, 100)].into_iter().collect());
        outcome.settle(&log);
        assert_eq!((outcome.state(), Arc::strong_count(&status)), (TxnState::PreCommitted, 2));
        assert_eq!(depends(&outcome), [place(0, 50), place(1, 100)]);
        log.durable_below(60);
        outcome.settle(&log);
        assert_eq!((outcome.state(), Arc::strong_count(&status)), (TxnState::PreCommitted, 1));
        assert_eq!(depends(&outcome), [place(1, 100)]);
        log.durable_below(100);
        assert_eq!(depends(&outcome), []);
        outcome.settle(&log);
        assert!(matches!(outcome, Outcome::Durable));
        for (state, shown) in [(TxnState::Aborted, TxnState::Aborted), (TxnState::InDoubt, TxnState::InDoubt)]
        {
            let status = Arc::new(TxnStatus::new(Timestamp::of(5, 0)));
            status.decide(state);
            let mut outcome = Outcome::By(status);
            outcome.settle(&log);
            assert_eq!(outcome.state(), shown);
        }
    }

    #[test]
    fn a_wait_ends_with_the_decision_or_when_its_time_is_over() {
        let status = Arc::new(TxnStatus::new(Timestamp::of(5, 0)));
        assert_eq!(status.wait(Duration::ZERO, &FakeLog::default()), None);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let status = status.clone();
                std::thread::spawn(move || status.wait(Duration::from_secs(600), &FakeLog::default()))
            })
            .collect();
        status.decide(TxnState::Aborted);
        for waiter in waiters {
            assert_eq!(waiter.join().expect("no panic"), Some(TxnState::Aborted));
        }
    }
}
