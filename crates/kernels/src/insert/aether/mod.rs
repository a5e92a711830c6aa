//! Aether's log buffers (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki: PVLDB 2010; sections 5
//! and A.1 to A.4), in pieces.
//!
//! One latch guards the end of the log. The designs differ in two ways, and are put together from
//! these:
//!
//! | | where contenders for the latch go | how ranges become filled |
//! |---|---|---|
//! | `consolidated` (C) | they form a group in a slot ([`slots`]) | under the latch, by the last of the group |
//! | `decoupled` (D) | they wait for the latch | in turn: each waits for the range before it ([`order`]) |
//! | `hybrid` (CD) | as C | as D |
//! | `delegated` (CDME) | as C | in turn; a range may be left to the owner of the one before
//! ([`queue`]) |
//!
//! Run by every appending thread. Invariants:
//!
//! 1. `reserved` is changed only under the latch, after admission for exactly the bytes that are
//!    reserved.
//! 2. `filled` is advanced by one thread at a time, from the start of a range to its end, after all
//!    of it was copied. So it needs no search, and the advance is a plain store.
//! 3. A thread that waits inside a reservation waits only for ranges below its own, whose owners
//!    wait for nothing else: the lowest owner never waits.
//!
//! Where the paper leaves something open, or this code differs:
//!
//! - The paper waits for buffer space under the mutex. Here no thread waits there. A reservation
//!   that is not admitted is refused, and a group that is refused dissolves, because its total may
//!   not fit where a member's own bytes would. Each member then asks for itself, once, and gets
//!   `Stalled` if that is refused too. Records that may use the reserve form no groups.
//! - Its slots are chosen at random; here by the session's number, and by turns from there.
//! - It lets a group grow without bound; here to an eighth of the ring, which any record fits: a
//!   larger group would often be refused.

mod latch;
mod order;
mod queue;
mod slots;

#[cfg(test)]
mod checks;
#[cfg(all(test, not(any(loom, katydid_explore))))]
mod tests;

pub(crate) use latch::Latch;
pub(super) use order::{InTurn, Order, UnderLatch};
pub(super) use queue::ReleaseQueue;
#[cfg(not(katydid_simulated))]
pub(crate) use slots::Member;
pub(crate) use slots::Slots;

use super::mutants::Built;
use super::mutants::Mutant;
use super::{AppendClass, BufferSizes, Inserter, LogBuffer, PhysicalRecord, Scan, Stalled};
use crate::lsn::Lsn;
use crate::sync_shim::pause;
use std::fmt::Debug;

/// The log as the algorithms use it; implemented by the log, and by small models in tests.
pub(super) trait BufferAccess {
    /// Reserves, if admitted; returns the start. Called under the latch only.
    fn reserve(&self, bytes: u64) -> Result<u64, Stalled>;
    /// Up to where the log is filled (Acquire).
    fn filled(&self) -> u64;
    /// The log is filled up to here (Release). By one thread at a time, in order.
    fn advance_filled(&self, to: u64);
}

/// A reserved range, and its place in the order of release.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    start: u64,
    end: u64,
    /// Ticket from [`Order::enter`].
    ticket: u64,
}

/// A design, put together.
#[derive(Debug)]
pub(super) struct Aether<O> {
    latch: Latch,
    slots: Option<Slots>,
    order: O,
    built: Built,
}

impl<O: Order> Aether<O> {
    pub(super) fn new(slots: Option<Slots>, order: O, built: Built) -> Self {
        Aether { latch: Latch::new(built), slots, order, built }
    }

    /// Reserves `bytes`, calls `fill` with their start, once, and gives them back filled.
    pub(super) fn reserve_and_fill(
        &self,
        buffer: &impl BufferAccess,
        session: usize,
        bytes: u64,
        may_group: bool,
        mut fill: impl FnMut(u64),
    ) -> Result<u64, Stalled> {
        if !self.latch.try_take() {
            if may_group
                && let Some(slots) = &self.slots
                && let Some(start) = self.insert_in_group(slots, buffer, session, bytes, &mut fill)
            {
                return Ok(start);
            }
            self.latch.take();
        }
        let range = self.reserve(buffer, bytes)?;
        fill(range.start);
        self.order.release(buffer, &self.latch, range);
        Ok(range.start)
    }

    /// Holding the latch, which is given back while the order has no room.
    fn wait_for_room(&self) {
        let keeps = self.built.is(Mutant::WaitedUnderLatch);
        while !self.order.has_room() {
            if !keeps {
                self.latch.give();
            }
            // Another thread may enter meanwhile, so the caller looks again with the latch.
            let mut step = 0;
            while !self.order.has_room() {
                pause(step);
                step += 1;
            }
            if !keeps {
                self.latch.take();
            }
        }
    }

    /// Holding the latch, which is given back unless the order keeps it.
    fn reserve(&self, buffer: &impl BufferAccess, bytes: u64) -> Result<Range, Stalled> {
        self.wait_for_room();
        match buffer.reserve(bytes) {
            Ok(start) => {
                let end = start + bytes;
                Ok(Range { start, end, ticket: self.order.enter(&self.latch, end) })
            }
            Err(stalled) => {
                self.latch.give();
                Err(stalled)
            }
        }
    }

    /// None if the group was not admitted.
    fn insert_in_group(
        &self,
        slots: &Slots,
        buffer: &impl BufferAccess,
        session: usize,
        bytes: u64,
        fill: &mut impl FnMut(u64),
    ) -> Option<u64> {
        let member = slots.join(session, bytes);
        let group = if member.leads() {
            self.latch.take();
            let total = slots.close(member);
            let range = self.reserve(buffer, total).ok();
            slots.notify(member, total, range);
            range
        } else {
            slots.wait(member)
        };
        let start = group.map(|range| range.start + member.offset());
        if let Some(start) = start {
            fill(start);
        }
        if slots.leave(member, bytes) {
            slots.free(member);
            if let Some(range) = group {
                self.order.release(buffer, &self.latch, range);
            }
        }
        start
    }
}

/// The log itself, for a record so admitted.
struct OnBuffer<'a> {
    buffer: &'a LogBuffer,
    class: AppendClass,
}

impl BufferAccess for OnBuffer<'_> {
    fn reserve(&self, bytes: u64) -> Result<u64, Stalled> {
        let start = self.buffer.frontiers.reserved().get();
        self.buffer.admission.admit(start, bytes, self.class)?;
        self.buffer.frontiers.advance_reserved(start + bytes);
        Ok(start)
    }

    fn filled(&self) -> u64 {
        self.buffer.frontiers.filled().get()
    }

    fn advance_filled(&self, to: u64) {
        self.buffer.frontiers.advance_filled_alone(to);
    }
}

/// `open` slots in which groups form.
pub(super) fn slots(open: usize, sizes: &BufferSizes) -> Slots {
    // Each slot that is not in the array is being used by a thread at least; beyond these many,
    // leaders wait for one.
    const SPARE: usize = 64;
    let most = (sizes.ring_bytes / 8) as u64;
    Slots::new(open, open + SPARE, most, Built::default())
}

impl<O: Order + Send + Sync + Debug> Inserter for Aether<O> {
    fn open(&self, _slot: usize) {}

    #[inline]
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled> {
        let bytes = record.bytes();
        let may_group = class == AppendClass::Normal;
        let start = self.reserve_and_fill(&OnBuffer { buffer, class }, slot, bytes, may_group, |start| {
            // SAFETY: `[start, start + bytes)` was reserved for this thread alone (rule 1 of the
            // ring): under the latch, and a group's members divide theirs by their offsets.
            // Admission let exactly that in (rule 3 of the ring).
            unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        })?;
        Ok(Lsn::new(start))
    }

    /// The frontier is advanced by the owners themselves: there is nothing to find.
    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let cutoff = buffer.frontiers.reserved().get();
        Scan { cutoff, filled: buffer.frontiers.filled().get().min(cutoff) }
    }
}
