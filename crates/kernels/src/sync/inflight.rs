//! Writes in flight whose leader passed the baton (the right to lead) on before it performed the
//! write. For each write this file keeps the waiters to release when the write has ended. The file
//! also keeps the thread that waits until a further write may be in flight.
//!
//! Leaders run this code. With a depth of 1 no write is entered here.
//!
//! Invariants:
//!
//! 1. A group is the waiters of one write. Groups are in the order of their writes. The holder of
//!    the baton enters a group before the write is performed, so no frontier passes the end of the
//!    write before the group is entered.
//! 2. A thread that has performed a write calls [`InFlight::ended`] once the frontiers have
//!    advanced. So the thread whose write ended last also releases the waiters of writes at higher
//!    positions that ended earlier. A waiter joins a group under the lock, after it has found under
//!    the same lock that it is not settled.
//! 3. Besides the waiters of groups at most one thread waits for a write to end: the holder of the
//!    baton. The holder reads the field `ended` before it plans, so it does not miss an end in
//!    between.

use super::rounds::Rounds;
use super::waiters::{Covered, Waiter};
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Mutex, MutexGuard, Ordering, Thread, current, park, return_token};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct InFlight {
    /// This latch is held for a short time, and taken before the log's own latch of writes in
    /// flight.
    state: Mutex<State>,
    // Number of calls of `ended` so far that found a group in flight. Changed under the lock of
    // `state`. The holder of the baton reads the number without the lock, and again with the lock
    // before it parks.
    ended: AtomicU64,
    // Number of groups in `state`, changed under its lock. Threads read it without the lock. A
    // thread that must see a group does not miss it, because this thread has entered the group
    // itself, or has seen a frontier that the group's write advanced.
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

    /// Returns whether no group is in flight. Exact for the holder of the baton.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.load(Ordering::Acquire) == 0
    }

    /// Enters a group: the waiters covered by the write that ends at `to`. Called by the holder of
    /// the baton.
    pub(super) fn enter(&self, to: Lsn, covered: Covered) {
        let mut state = self.lock();
        state.groups.push_back((to, covered));
        self.groups.store(state.groups.len() as u64, Ordering::Release);
    }

    /// Adds waiters to the group that was entered last. Called by the holder of the baton.
    pub(super) fn add(&self, covered: Covered) {
        let mut state = self.lock();
        match state.groups.back_mut() {
            Some((_, group)) => group.append(covered),
            // The write has ended meanwhile, so these waiters are settled.
            None => {
                drop(state);
                covered.finish();
            }
        }
    }

    /// Called after any write was performed. Wakes the thread that waits to plan the next write,
    /// then the waiters of all groups that have ended.
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
        rounds.tally().count_released(done.count());
        done.finish();
    }

    /// Returns the value that [`InFlight::wait_for_an_end`] takes. Called before the plan.
    pub(super) fn so_far(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Blocks until a write has ended since `so_far` returned `before`, or no group is in flight.
    /// Called by the holder of the baton.
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

    /// Blocks until `waiter` is settled. This thread has performed the write that covers the
    /// waiter, but a write at a lower position may still be in flight.
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
