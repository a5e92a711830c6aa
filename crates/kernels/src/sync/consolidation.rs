//! The consolidation array before the sync (Efficient flushing, sections 2.1 and 2.2). Committers
//! that meet at the latch for writing form a slot. The last thread of the slot writes and syncs
//! while the slot's other threads wait.
//!
//! A committing thread tries the latch for writing. If the latch is free, the thread writes alone
//! and flushes for itself. If not, the thread joins the open slot. The slot's first thread waits
//! for the latch, closes the slot and opens another slot of the pool. The last thread to leave the
//! slot writes up to the slot's end, gives the latch back, and flushes for the slot. The slot's
//! other threads wait until `sync LSN` has reached their own LSN ("flushwait" in the paper).
//!
//! The slots are those of Aether's consolidation array ([`Slots`]); a thread counts as one byte.
//! Difference from the paper: slots form when threads commit, not when they append, because only a
//! commit says that a record must be synced. The copy into the log buffer has already ended, so the
//! last thread to leave is the last to run, not the last to copy.
//!
//! Invariants:
//!
//! 1. Each member raises the slot's end before it leaves. The last member reads and resets the end
//!    after all have left, before the slot is free.
//! 2. A slot is free only after its flush. While all slots of the pool are being flushed, a slot's
//!    first thread waits, and the open slot fills up. A flush needs neither the latch nor a slot,
//!    so this wait ends.
//! 3. `synced.lsn` is raised to a position only after a sync that covered this position. No member
//!    is missed, because one latch covers both sides: a member reads `synced.lsn` and registers,
//!    and a thread raises `synced.lsn` and takes the registered members.

use super::flag::Request;
use super::per_commit::write_to;
use super::rounds::{Rounds, Stopwatch};
use crate::durability::Durability;
use crate::insert::aether::{Latch, Member, Slots};
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Mutex, MutexGuard, Ordering, raise};
use crossbeam_utils::CachePadded;
use std::mem;
use std::sync::{Arc, PoisonError};

/// The next step of a committing thread after the write.
#[derive(Debug)]
pub(super) enum Part {
    /// The thread syncs up to `end`, for itself and for the members of the slot.
    Flush { end: Lsn, slot: Option<Member> },
    /// The thread waits for the thread that syncs for its slot.
    Wait,
}

#[derive(Debug, Default)]
struct Synced {
    /// The paper's `syncLSN`; `None` before the first commit.
    lsn: Option<Lsn>,
    waiting: Vec<Arc<Request>>,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct FlushSlots {
    /// The latch for writing. No other latch of this file is taken while it is held.
    latch: Latch,
    slots: Slots,
    // For each slot, the largest end of its members (invariant 1). Members raise it, and the last
    // member resets it, by AcqRel read-modify-writes.
    ends: Box<[CachePadded<AtomicU64>]>,
    /// This is a leaf latch.
    synced: Mutex<Synced>,
}

impl FlushSlots {
    /// Makes a pool of `pool` slots, at least 2. One slot is open at a time.
    pub(super) fn new(pool: u32) -> Self {
        let pool = pool.max(2) as usize;
        FlushSlots {
            latch: Latch::default(),
            slots: Slots::of_members(1, pool),
            ends: (0..pool).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            synced: Mutex::new(Synced::default()),
        }
    }

    /// Writes up to `end` for a committer that asks for no sync.
    pub(super) fn write(&self, rounds: &dyn Rounds, end: Lsn) {
        self.begin(rounds);
        self.latch.take();
        write_to(rounds, end, Durability::Written, true);
        self.latch.give();
    }

    /// Writes up to `end`, alone or as a member of a slot. A [`Part::Flush`] must be ended with
    /// [`FlushSlots::flushed`].
    pub(super) fn enter(&self, rounds: &dyn Rounds, end: Lsn) -> Part {
        self.begin(rounds);
        if self.latch.try_take() {
            write_to(rounds, end, Durability::Written, true);
            self.latch.give();
            return Part::Flush { end, slot: None };
        }
        let member = self.slots.join(0, 1);
        let slot_end = &self.ends[member.slot()];
        raise(slot_end, end.get(), Ordering::AcqRel);
        if member.leads() {
            self.latch.take();
            let threads = self.slots.close(member);
            self.slots.notify_members(member, threads);
            rounds.tally().consolidated(threads);
        } else {
            self.slots.wait(member);
        }
        if !self.slots.leave(member, 1) {
            return Part::Wait;
        }
        // All members have left, and each has raised the end before it left.
        let end = Lsn::new(slot_end.swap(0, Ordering::AcqRel));
        write_to(rounds, end, Durability::Written, true);
        self.latch.give();
        Part::Flush { end, slot: Some(member) }
    }

    /// Frees the slot of a [`Part::Flush`] after its flush.
    pub(super) fn flushed(&self, slot: Option<Member>) {
        if let Some(member) = slot {
            self.slots.free(member);
        }
    }

    /// Blocks a member of a slot until `end` is synced.
    pub(super) fn wait(&self, rounds: &dyn Rounds, end: Lsn) {
        let watch = Stopwatch::start();
        let request = {
            let mut synced = self.lock();
            if synced.lsn >= Some(end) {
                return;
            }
            let request = Arc::new(Request::new(end));
            synced.waiting.push(request.clone());
            request
        };
        while !request.wait() {}
        rounds.tally().waited_for_slot(watch.nanoseconds());
    }

    /// Returns whether the sync LSN has reached `end`.
    pub(super) fn covers(&self, end: Lsn) -> bool {
        self.lock().lsn >= Some(end)
    }

    /// Raises the sync LSN after a sync for `end`, and completes the waiting members that the sync
    /// covers.
    pub(super) fn advance(&self, rounds: &dyn Rounds, end: Lsn) {
        let covered = {
            let mut synced = self.lock();
            synced.lsn = synced.lsn.max(Some(end));
            let waiting = mem::take(&mut synced.waiting);
            let (covered, waiting) = waiting.into_iter().partition(|request| request.end <= end);
            synced.waiting = waiting;
            covered
        };
        let covered: Vec<Arc<Request>> = covered;
        rounds.tally().count_released(covered.len() as u64);
        covered.iter().for_each(|request| request.complete(false));
    }

    /// Sets the sync LSN to the written frontier before the protocol's first write, because opening
    /// the log has made everything written durable.
    fn begin(&self, rounds: &dyn Rounds) {
        let mut synced = self.lock();
        if synced.lsn.is_none() {
            synced.lsn = Some(rounds.written());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Synced> {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
