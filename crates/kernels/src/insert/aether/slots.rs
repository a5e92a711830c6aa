//! The consolidation array (Aether, Algorithm 5 and Figure 10): threads that find the latch taken
//! form a group.
//!
//! The array holds the numbers of open slots; the pool holds all slots. A slot's word is a state
//! and a count of bytes:
//!
//! | state | count | next state, and the thread that changes it |
//! |---|---|---|
//! | FREE | 0 | OPEN: a leader that puts the slot into the array, under the latch |
//! | OPEN | the group's bytes so far | OPEN, more bytes: a joining thread; PENDING: the leader |
//! | PENDING | 0 | COPYING: the leader, after it has reserved or was refused |
//! | COPYING | bytes of members still in it | COPYING, fewer bytes: a leaving thread |
//! | COPYING | 0: all members have left | FREE: the last member to leave |
//!
//! The member that finds a count of 0 leads. Invariants:
//!
//! 1. Joining and closing are read-modify-writes of one word. So the total that the leader reserves
//!    is exactly the sum of the members' bytes, and a member's offset is the sum of the bytes of
//!    the members that joined before it.
//! 2. The leader writes `start`, `end` and `ticket` between PENDING and COPYING (Release). Members
//!    read them after they have seen COPYING (Acquire).
//! 3. A slot is FREE only after all members have left. The members' subtractions are AcqRel, so the
//!    last member sees every copy.
//!
//! The paper, like this code, sets a new slot to OPEN before it is in the array. The paper never
//! sets the array index in the slot. A thread may have read the slot's number from the array during
//! an earlier use of the slot. This thread may then join the slot, and lead it, before the slot is
//! in the array again. Here that is harmless: `place` is written before OPEN, and a leader uses
//! `place` only after it has got the latch. The leader that puts the slot into the array holds the
//! latch until the slot is there.

use super::super::mutants::{Built, Mutant};
use super::Range;
use crate::sync_shim::{AtomicU64, AtomicUsize, Ordering, pause};
use crossbeam_utils::CachePadded;

const STATE: u64 = 0b111 << 61;
const FREE: u64 = 0;
const OPEN: u64 = 1 << 61;
const PENDING: u64 = 2 << 61;
const COPYING: u64 = 3 << 61;
/// Value of `start` if the group was not admitted.
const REFUSED: u64 = u64::MAX;

#[derive(Debug)]
struct Slot {
    word: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    ticket: AtomicU64,
    /// The slot's index in the array. Accessed only under the latch.
    place: AtomicUsize,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Slots {
    /// Indices into `pool`. Written under the latch (Release), read by joining threads (Acquire).
    array: Box<[CachePadded<AtomicUsize>]>,
    pool: Box<[CachePadded<Slot>]>,
    /// Index in the pool at which the search for a free slot begins. Accessed only under the latch.
    next: AtomicUsize,
    group_bytes_max: u64,
    built: Built,
}

/// A thread's membership in a group.
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

    /// The number of the member's slot in the pool.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn slot(self) -> usize {
        self.slot
    }
}

impl Slots {
    /// Makes a pool of `all` slots, and an array of `open` of them. `all` is greater than `open`.
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

    /// Makes slots that count threads: each thread joins with one byte, and groups have no maximum
    /// size.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn of_members(open: usize, all: usize) -> Self {
        Slots::new(open, all, !STATE, Built::default())
    }

    /// Joins a group. If no slot is open and has room, the call first waits for one. While all
    /// slots are full or closing, their leaders hold the latch or wait for it, and then replace the
    /// slots.
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

    /// Tries each slot of the array once.
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

    /// Returns the sum of the bytes of all open groups.
    #[cfg(test)]
    pub(super) fn joined_bytes(&self) -> u64 {
        let words = self.array.iter().map(|slot| &self.pool[slot.load(Ordering::Acquire)].word);
        let open = words.map(|word| word.load(Ordering::Acquire)).filter(|word| word & STATE == OPEN);
        open.map(|word| word & !STATE).sum()
    }

    /// Closes the leader's slot, and puts a free slot into its place in the array. Returns the
    /// group's bytes. Called by the leader, under the latch.
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
            // After a whole pass without a free slot, groups that were closed earlier own all slots
            // outside the array. Such groups need neither the latch nor another slot, so this wait
            // ends.
            if index + 1 == self.pool.len() {
                pause(step);
                step += 1;
            }
        }
    }

    /// Notifies the members of a group of `total` bytes: they learn the group's range, or its
    /// refusal (`None`). Called by the leader.
    pub(super) fn notify(&self, leader: Member, total: u64, range: Option<Range>) {
        let slot = &self.pool[leader.slot];
        let Range { start, end, ticket } = range.unwrap_or(Range { start: REFUSED, end: 0, ticket: 0 });
        slot.start.store(start, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        slot.ticket.store(ticket, Ordering::Relaxed);
        slot.word.store(COPYING | total, self.built.order(Mutant::RelaxedNotify, Ordering::Release));
    }

    /// Notifies the `total` members of a group that the group is closed. The group reserves
    /// nothing. Called by the leader.
    #[cfg(not(katydid_simulated))]
    pub(crate) fn notify_members(&self, leader: Member, total: u64) {
        self.notify(leader, total, Some(Range::default()));
    }

    /// Waits for the leader's notification. Returns the group's range, or `None` if the group was
    /// refused. Called by a member that does not lead.
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

    /// Takes a member out of the group, after the member has copied its `bytes`. Returns true if it
    /// was the last member, which must free the slot. Only the last member touches the slot
    /// afterwards.
    pub(crate) fn leave(&self, member: Member, bytes: u64) -> bool {
        let word = &self.pool[member.slot].word;
        let old = word.fetch_sub(bytes, self.built.order(Mutant::RelaxedLeave, Ordering::AcqRel));
        if member.leads() && self.built.is(Mutant::SlotFreedEarly) {
            word.store(FREE, Ordering::Release);
        }
        old == COPYING | bytes
    }

    /// Frees the slot for another group. Called by the last member after it has left.
    pub(crate) fn free(&self, last: Member) {
        self.pool[last.slot].word.store(FREE, Ordering::Release);
    }
}
