//! Writes in flight of which the baton was let go: the waiters to release when they have ended, and
//! the threads that wait for room for the next.
//!
//! Run by leaders. With a depth of 1 a thread only ever finds it empty.
//!
//! Invariants:
//!
//! 1. Groups lie in the order of their writes. One is entered under the baton, before its write is
//!    performed; so no frontier passes its end before it is here.
//! 2. A thread that performed a write looks here afterwards, once the frontiers have advanced: the
//!    thread whose write ended last releases the waiters that it or a slower write before it has
//!    delayed. Waiters that join a group do so under the lock, having found it unsettled there.
//! 3. At most one thread waits for a write to end without being of its group: the holder of the
//!    baton. It has read [`InFlight::ended`] before it looked at what is under way, so an end in
//!    between is seen.

use super::rounds::Rounds;
use super::waiters::{Covered, Waiter};
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Mutex, MutexGuard, Ordering, Thread, current, park, return_token};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Held for a moment; before the log's own latch of writes under way.
    state: Mutex<State>,
    // Number of writes of `state` that have ended. Changed under its lock; read without it by the
    // holder of the baton, which looks again under it.
    ended: AtomicU64,
    // Number of groups that `state` has; changed under its lock. Relaxed: a thread that needs to
    // see a group has entered it, or a frontier behind it.
    groups: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    groups: VecDeque<(Lsn, Covered)>,
    next: Option<Thread>,
}

impl InFlight {
    pub(super) fn new() -> Self {
        InFlight { state: Mutex::new(State::default()), ended: AtomicU64::new(0), groups: AtomicU64::new(0) }
    }

    /// Returns whether no group is in flight, as far as the holder of the baton can see.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.load(Ordering::Acquire) == 0
    }

    /// Holder of the baton only: those who are covered by the write that ends at `to`.
    pub(super) fn enter(&self, to: Lsn, covered: Covered) {
        let mut state = self.lock();
        state.groups.push_back((to, covered));
        self.groups.store(state.groups.len() as u64, Ordering::Release);
    }

    /// Holder of the baton only: more of those who are covered by the write entered last.
    pub(super) fn add(&self, covered: Covered) {
        let mut state = self.lock();
        match state.groups.back_mut() {
            Some((_, group)) => group.append(covered),
            // It has ended meanwhile, and with it what they wait for.
            None => {
                drop(state);
                covered.finish();
            }
        }
    }

    /// After a write, of any kind, was performed: wakes the one who wants to plan the next, then
    /// those who are done.
    pub(super) fn ended(&self, rounds: &dyn Rounds) {
        if self.is_empty() {
            return;
        }
        let mut done = Covered::none();
        let next = {
            let mut state = self.lock();
            while let Some((to, _)) = state.groups.front()
                && rounds.ended(*to)
            {
                if let Some((_, group)) = state.groups.pop_front() {
                    done.append(group);
                }
            }
            self.groups.store(state.groups.len() as u64, Ordering::Release);
            self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Release);
            state.next.take()
        };
        if let Some(next) = next {
            next.unpark();
        }
        rounds.tally().told(done.count());
        done.finish();
    }

    /// Number of groups that have ended so far; to be read before looking at what is in flight.
    pub(super) fn so_far(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Holder of the baton only: blocks until more than `before` have ended, or nothing is under
    /// way.
    pub(super) fn wait_for_an_end(&self, before: u64) {
        let mut parked = false;
        loop {
            {
                let mut state = self.lock();
                if state.groups.is_empty() || self.ended.load(Ordering::Acquire) != before {
                    state.next = None;
                    break;
                }
                state.next = Some(current());
            }
            park();
            parked = true;
        }
        if parked {
            return_token();
        }
    }

    /// Blocks until `waiter`, which was covered by a write that this thread has performed, is
    /// settled: a slower one before it is under way.
    pub(super) fn join(&self, rounds: &dyn Rounds, waiter: &Waiter) {
        {
            let mut state = self.lock();
            if rounds.settled(Lsn::new(waiter.end), waiter.level) {
                return;
            }
            let group = state.groups.iter_mut().find(|(to, _)| to.get() >= waiter.end);
            let Some((_, group)) = group else { return };
            group.push(waiter);
        }
        waiter.wait(0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
