//! The consolidation array (Aether, Algorithm 5 and Figure 10): threads that cannot have the latch
//! form a group.
//!
//! The array holds the numbers of open slots; the pool holds all slots. A slot is one word, a state
//! and a count of bytes:
//!
//! | state | count | next state, and the thread that changes it |
//! |---|---|---|
//! | FREE | 0 | OPEN: a leader that puts it into the array, under the latch |
//! | OPEN | the group's bytes so far | the same with more: a joining thread; PENDING: the leader, under the latch |
//! | PENDING | 0 | COPYING: the leader, having reserved, or been refused |
//! | COPYING | bytes of members that have not left | less: a leaving thread; with 0 it is DONE |
//! | DONE | 0 | FREE: the last to leave |
//!
//! The member that found a count of 0 leads. Invariants:
//!
//! 1. Joining and closing are read-modify-writes of one word: the total that the leader reserves is
//!    the sum of exactly those who joined, and a member's offset is what had been joined before it.
//! 2. `start`, `end` and `ticket` are written between PENDING and COPYING (Release), and read after
//!    COPYING was seen (Acquire).
//! 3. A slot is FREE only after all members have left (their subtractions are AcqRel, so the last
//!    one sees every copy).
//!
//! The paper's text sets a fresh slot to OPEN before the array shows it and never sets the array
//! index in it. A thread that had read the same slot's number in an earlier life may so join, and
//! lead, a slot that is not in the array yet. That is harmless here: `place` is written before
//! OPEN, and the leader does nothing with it before it holds the latch, which the replacing one
//! still has.

use super::super::mutants::{Built, Mutant};
use super::Range;
use crate::sync_shim::{AtomicU64, AtomicUsize, Ordering, pause};
use crossbeam_utils::CachePadded;

const STATE: u64 = 0b111 << 61;
const FREE: u64 = 0;
const OPEN: u64 = 1 << 61;
const PENDING: u64 = 2 << 61;
const COPYING: u64 = 3 << 61;
/// In place of a start: the group was not admitted.
const REFUSED: u64 = u64::MAX;

#[derive(Debug)]
struct Slot {
    word: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    ticket: AtomicU64,
    /// Its index in the array. Under the latch only.
    place: AtomicUsize,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Slots {
    /// Indices into `pool`. Written under the latch (Release), read by joining threads (Acquire).
    array: Box<[CachePadded<AtomicUsize>]>,
    pool: Box<[CachePadded<Slot>]>,
    /// Index at which the search for a free slot begins. Under the latch only.
    next: AtomicUsize,
    group_bytes_max: u64,
    built: Built,
}

/// A thread's part in a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    slot: usize,
    offset: u64,
}

impl Member {
    pub(crate) fn leads(self) -> bool {
        self.offset == 0
    }

    pub(super) fn offset(self) -> u64 {
        self.offset
    }

    /// The number of its slot in the pool.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn slot(self) -> usize {
        self.slot
    }
}

impl Slots {
    /// An array of `open` slots out of `all`, of which there are more.
    pub(super) fn new(open: usize, all: usize, group_bytes_max: u64, built: Built) -> Self {
        assert!(0 < open && open < all, "a closed slot is replaced");
        let slot = |index: usize| {
            CachePadded::new(Slot {
                word: AtomicU64::new(if index < open { OPEN } else { FREE }),
                start: AtomicU64::new(0),
                end: AtomicU64::new(0),
                ticket: AtomicU64::new(0),
                place: AtomicUsize::new(index),
            })
        };
        Slots {
            array: (0..open).map(|index| CachePadded::new(AtomicUsize::new(index))).collect(),
            pool: (0..all).map(slot).collect(),
            next: AtomicUsize::new(open),
            group_bytes_max,
            built,
        }
    }

    /// Slots in which threads are counted: each joins with one byte, and groups have no limit.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn of_members(open: usize, all: usize) -> Self {
        Slots::new(open, all, !STATE, Built::default())
    }

    /// Joins a group, and probes until one is open and has room. While all are full or closing,
    /// their leaders have the latch or wait for it, and replace them.
    pub(crate) fn join(&self, session: usize, bytes: u64) -> Member {
        let mut step = 0;
        loop {
            if let Some(member) = self.try_join(session, bytes) {
                return member;
            }
            pause(step);
            step += 1;
        }
    }

    /// Looks at each open slot once.
    fn try_join(&self, session: usize, bytes: u64) -> Option<Member> {
        for probe in 0..self.array.len() {
            let slot = self.array[(session + probe) % self.array.len()].load(Ordering::Acquire);
            let word = &self.pool[slot].word;
            let mut old = word.load(Ordering::Acquire);
            while old & STATE == OPEN && (old == OPEN || (old & !STATE) + bytes <= self.group_bytes_max) {
                match word.compare_exchange(old, old + bytes, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(Member { slot, offset: old & !STATE }),
                    Err(now) => old = now,
                }
            }
        }
        None
    }

    /// Bytes of the members of the open groups.
    #[cfg(test)]
    pub(super) fn joined_bytes(&self) -> u64 {
        let words = self.array.iter().map(|slot| &self.pool[slot.load(Ordering::Acquire)].word);
        let open = words.map(|word| word.load(Ordering::Acquire)).filter(|word| word & STATE == OPEN);
        open.map(|word| word & !STATE).sum()
    }

    /// The leader, under the latch: puts a fresh slot into the array and closes this one; the
    /// group's bytes.
    pub(crate) fn close(&self, leader: Member) -> u64 {
        let slot = &self.pool[leader.slot];
        let place = slot.place.load(Ordering::Relaxed);
        let fresh = self.take_free();
        self.pool[fresh].place.store(place, Ordering::Relaxed);
        self.pool[fresh].word.store(OPEN, Ordering::Release);
        self.array[place].store(fresh, Ordering::Release);
        if self.built.is(Mutant::CloseInTwoSteps) {
            let old = slot.word.load(Ordering::Acquire);
            slot.word.store(PENDING, Ordering::Release);
            return old & !STATE;
        }
        slot.word.swap(PENDING, Ordering::AcqRel) & !STATE
    }

    fn take_free(&self) -> usize {
        let mut step = 0;
        loop {
            let index = self.next.load(Ordering::Relaxed);
            self.next.store((index + 1) % self.pool.len(), Ordering::Relaxed);
            if self.pool[index].word.load(Ordering::Acquire) == FREE {
                return index;
            }
            // Owned by groups that are copying: they need neither the latch nor a slot.
            if index + 1 == self.pool.len() {
                pause(step);
                step += 1;
            }
        }
    }

    /// The leader: tells the group, of `total` bytes, where it lies, or that it was refused.
    pub(super) fn notify(&self, leader: Member, total: u64, range: Option<Range>) {
        let slot = &self.pool[leader.slot];
        let Range { start, end, ticket } = range.unwrap_or(Range { start: REFUSED, end: 0, ticket: 0 });
        slot.start.store(start, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        slot.ticket.store(ticket, Ordering::Relaxed);
        slot.word.store(COPYING | total, self.built.order(Mutant::RelaxedNotify, Ordering::Release));
    }

    /// The leader of a group that reserves nothing: tells its `total` members that it is closed.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn notify_members(&self, leader: Member, total: u64) {
        self.notify(leader, total, Some(Range::default()));
    }

    /// A follower: where the group lies; none if it was refused.
    pub(crate) fn wait(&self, follower: Member) -> Option<Range> {
        let slot = &self.pool[follower.slot];
        let mut step = 0;
        while slot.word.load(Ordering::Acquire) & STATE != COPYING {
            pause(step);
            step += 1;
        }
        let start = slot.start.load(Ordering::Relaxed);
        (start != REFUSED).then(|| Range {
            start,
            end: slot.end.load(Ordering::Relaxed),
            ticket: slot.ticket.load(Ordering::Relaxed),
        })
    }

    /// Lets a member leave that has copied `bytes`. Returns whether it was the last one, which
    /// frees the slot. No other member touches the slot after this.
    pub(crate) fn leave(&self, member: Member, bytes: u64) -> bool {
        let word = &self.pool[member.slot].word;
        let old = word.fetch_sub(bytes, self.built.order(Mutant::RelaxedLeave, Ordering::AcqRel));
        if member.leads() && self.built.is(Mutant::SlotFreedEarly) {
            word.store(FREE, Ordering::Release);
        }
        old == COPYING | bytes
    }

    /// The last member to leave: the slot may be used again.
    pub(crate) fn free(&self, last: Member) {
        self.pool[last.slot].word.store(FREE, Ordering::Release);
    }
}
