//! How a writing transaction ends: one word that decides all its versions at once.
//!
//! Shared by the transaction's versions and whoever waits for them. Invariants:
//!
//! 1. Pending goes to one of the others, pre-committed to committed; nothing else changes.
//! 2. What a pre-committed transaction waits for is written before the state that says so (release), and never changes.
//! 3. One waits only for a fate of a lower timestamp than one's own, so no two wait for each other; and never for ever.
//! 4. What a version knows ([`Outcome`]) is only made shorter: a fate becomes the one place that it still waits for, and that, once it is
//!    durable, nothing. So whoever sees the version depends on the same that is not durable, and the fate itself is soon gone.

use super::LogView;
use super::clock::Timestamp;
use super::deadline::Deadline;
use katydid_wal::{Dependences, Lsn, Place, StreamId};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Yields before a waiter parks: a validation takes less, and waking costs more.
const YIELDS: u32 = 20;

/// What has become of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// It is being validated, or not durable and keeps its versions to itself until then.
    Pending,
    /// Its record is in the log: its versions are there for all, who then depend on its place.
    PreCommitted,
    /// Durable.
    Committed,
    /// Its versions are as if they had never been.
    Aborted,
    /// The log failed with its record in it: nobody knows until the database is opened again.
    Doubtful,
}

impl State {
    fn of(number: u8) -> Self {
        match number {
            0 => State::Pending,
            1 => State::PreCommitted,
            2 => State::Committed,
            3 => State::Aborted,
            _ => State::Doubtful,
        }
    }
}

/// What a version knows of the end of its transaction: as little as is enough.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// Committed and durable.
    Durable,
    /// Committed, and durable when this stream has come up to there.
    Until { stream: StreamId, end: Lsn },
    /// It is told there.
    By(Arc<Fate>),
}

impl Outcome {
    pub(super) fn state(&self) -> State {
        match self {
            Outcome::Durable => State::Committed,
            Outcome::Until { .. } => State::PreCommitted,
            Outcome::By(fate) => fate.state(),
        }
    }

    /// Adds what of it is not durable yet to what a reader of its versions depends on.
    pub(super) fn join_into(&self, depends: &mut Dependences, log: &dyn LogView) {
        match self {
            Outcome::Durable => {}
            Outcome::Until { stream, end } => {
                let place = Place { stream: *stream, end: *end };
                if !log.is_durable(place) {
                    depends.join(place);
                }
            }
            Outcome::By(fate) => fate.join_into(depends, log),
        }
    }

    /// Forgets what need not be known any more (invariant 4).
    pub(super) fn settle(&mut self, log: &dyn LogView) {
        match self {
            Outcome::Durable => {}
            Outcome::Until { stream, end } => {
                if log.is_durable(Place { stream: *stream, end: *end }) {
                    *self = Outcome::Durable;
                }
            }
            Outcome::By(fate) => *self = fate.outcome(log),
        }
    }
}

/// The end of one transaction, when it has come.
#[derive(Debug)]
pub(super) struct Fate {
    timestamp: Timestamp,
    /// Written by the transaction's owner, and by readers from pre-committed to committed; read by all.
    state: AtomicU8,
    waiters: AtomicU32,
    /// Invariant 2.
    place: OnceLock<(Place, Dependences)>,
    /// Guards nothing but the sleep of waiters. Rank: below every latch of this engine; taken with none held.
    latch: Mutex<()>,
    decided: Condvar,
}

impl Fate {
    pub(super) fn new(timestamp: Timestamp) -> Self {
        Fate {
            timestamp,
            state: AtomicU8::new(State::Pending as u8),
            waiters: AtomicU32::new(0),
            place: OnceLock::new(),
            latch: Mutex::new(()),
            decided: Condvar::new(),
        }
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    pub(super) fn state(&self) -> State {
        State::of(self.state.load(Ordering::SeqCst))
    }

    /// Decides, and wakes who waits.
    pub(super) fn decide(&self, state: State) {
        self.state.store(state as u8, Ordering::SeqCst);
        // A waiter counts itself before it looks at the state for the last time.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _asleep_or_awake = self.latch.lock();
            self.decided.notify_all();
        }
    }

    /// Decides: the record ends at `place`, and survives a crash if all of `depends` do.
    pub(super) fn pre_commit(&self, place: Place, depends: Dependences) {
        let first = self.place.set((place, depends)).is_ok();
        debug_assert!(first, "a transaction has one record");
        self.decide(State::PreCommitted);
    }

    /// What a version of it has to know.
    pub(super) fn outcome(self: &Arc<Self>, log: &dyn LogView) -> Outcome {
        let mut lacking = Dependences::default();
        self.join_into(&mut lacking, log);
        // Looked at last: joining may have found it durable.
        match self.state() {
            State::Committed => Outcome::Durable,
            State::PreCommitted if lacking.len() == 1 => lacking
                .iter()
                .next()
                .map_or(Outcome::Durable, |Place { stream, end }| Outcome::Until { stream, end }),
            _ => Outcome::By(self.clone()),
        }
    }

    /// Adds what of it is not durable yet to what a reader of its versions depends on.
    pub(super) fn join_into(&self, depends: &mut Dependences, log: &dyn LogView) {
        if self.state() != State::PreCommitted {
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
            self.state.store(State::Committed as u8, Ordering::SeqCst);
        }
    }

    /// Waits until it is decided; nothing if that takes longer than `at_most`.
    pub(super) fn wait(&self, at_most: Duration, log: &dyn LogView) -> Option<State> {
        for _ in 0..YIELDS {
            let state = self.state();
            if state != State::Pending {
                return Some(state);
            }
            std::thread::yield_now();
        }
        // The other may wait for a group of which records of this thread are a part (paper, section III-B.2).
        log.before_wait();
        let deadline = Deadline::after(at_most);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut latch = self.latch.lock();
        let mut state = self.state();
        while state == State::Pending && !deadline.sleep(&self.decided, &mut latch) {
            state = self.state();
        }
        drop(latch);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        Some(self.state()).filter(|state| *state != State::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::FakeLog;
    use super::*;
    use katydid_wal::{Lsn, StreamId};
    use std::sync::Arc;

    fn place(stream: u16, end: u64) -> Place {
        Place { stream: StreamId::new(stream), end: Lsn::new(end) }
    }

    #[test]
    fn who_reads_a_pre_committed_version_depends_on_all_that_it_depends_on() {
        let log = FakeLog::default();
        log.durable_below(0);
        let fate = Fate::new(Timestamp::of(5, 0));
        fate.pre_commit(place(0, 100), [place(1, 50)].into_iter().collect());
        let mut depends = Dependences::default();
        fate.join_into(&mut depends, &log);
        assert_eq!(depends.iter().collect::<Vec<_>>(), [place(0, 100), place(1, 50)]);
        log.durable_below(60);
        let mut depends = Dependences::default();
        fate.join_into(&mut depends, &log);
        assert_eq!(depends.iter().collect::<Vec<_>>(), [place(0, 100)]);
        log.durable_below(100);
        let mut depends = Dependences::default();
        fate.join_into(&mut depends, &log);
        assert!(depends.is_empty());
        assert_eq!(fate.state(), State::Committed);
    }

    #[test]
    fn a_version_forgets_a_fate_when_there_is_one_place_to_wait_for() {
        let log = FakeLog::default();
        log.durable_below(0);
        let fate = Arc::new(Fate::new(Timestamp::of(5, 0)));
        let mut outcome = Outcome::By(fate.clone());
        let depends = |outcome: &Outcome| {
            let mut depends = Dependences::default();
            outcome.join_into(&mut depends, &log);
            depends.iter().collect::<Vec<_>>()
        };
        outcome.settle(&log);
        assert_eq!(outcome.state(), State::Pending);
        fate.pre_commit(place(0, 50), [place(1, 100)].into_iter().collect());
        outcome.settle(&log);
        assert_eq!((outcome.state(), Arc::strong_count(&fate)), (State::PreCommitted, 2));
        assert_eq!(depends(&outcome), [place(0, 50), place(1, 100)]);
        log.durable_below(60);
        outcome.settle(&log);
        assert_eq!((outcome.state(), Arc::strong_count(&fate)), (State::PreCommitted, 1));
        assert_eq!(depends(&outcome), [place(1, 100)]);
        log.durable_below(100);
        assert_eq!(depends(&outcome), []);
        outcome.settle(&log);
        assert!(matches!(outcome, Outcome::Durable));
        for (state, shown) in [(State::Aborted, State::Aborted), (State::Doubtful, State::Doubtful)] {
            let fate = Arc::new(Fate::new(Timestamp::of(5, 0)));
            fate.decide(state);
            let mut outcome = Outcome::By(fate);
            outcome.settle(&log);
            assert_eq!(outcome.state(), shown);
        }
    }

    #[test]
    fn a_wait_ends_with_the_decision_or_when_its_time_is_over() {
        let fate = Arc::new(Fate::new(Timestamp::of(5, 0)));
        assert_eq!(fate.wait(Duration::ZERO, &FakeLog::default()), None);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let fate = fate.clone();
                std::thread::spawn(move || fate.wait(Duration::from_secs(600), &FakeLog::default()))
            })
            .collect();
        fate.decide(State::Aborted);
        for waiter in waiters {
            assert_eq!(waiter.join().expect("no panic"), Some(State::Aborted));
        }
    }
}
