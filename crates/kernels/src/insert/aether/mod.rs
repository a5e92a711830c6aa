//! The parts of Aether's log buffers (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki: PVLDB 2010;
//! sections 5 and A.1 to A.4).
//!
//! One latch guards the end of the log. The designs differ in two ways:
//!
//! | | contenders for the latch | the way in which ranges become filled |
//! |---|---|---|
//! | `consolidated` (C) | form a group in a slot ([`slots`]) | by the last member under the latch |
//! | `decoupled` (D) | wait for the latch | in turn, after the previous range ([`order`]) |
//! | `hybrid` (CD) | as C | as D |
//! | `delegated` (CDME) | as C | in turn, or by the previous range's owner ([`queue`]) |
//!
//! In `consolidated` the last member of a group gives back the latch that the group's leader took.
//!
//! Every appending thread runs this code. Invariants:
//!
//! 1. A thread changes `reserved` only under the latch, after admission for exactly the bytes that
//!    it reserves.
//! 2. One thread at a time advances `filled`, from the start of a range to its end, after the whole
//!    range was copied. So no thread searches for the frontier, and the advance is a plain store.
//! 3. A thread that owns a range waits only for ranges below its own. So the owner of the lowest
//!    range never waits.
//!
//! Differences from the paper, and points that the paper leaves open:
//!
//! - The paper waits for buffer space under the mutex. Here no thread waits for buffer space under
//!   the latch; a leader may wait under it for a free slot. A reservation that is not admitted is
//!   refused. A refused group dissolves, because a member's own bytes may fit where the group's
//!   total does not. Each member then asks once for itself, and gets `Stalled` if it is refused
//!   too. Records that may use the reserve form no groups.
//! - The paper's threads choose a slot at random. Here a thread begins with the slot of its
//!   session's number, and tries the slots after it in turn.
//! - The paper's groups have no maximum size. Here a group has at most an eighth of the ring,
//!   because a larger group would often be refused. Any record fits into an eighth of the ring.

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

/// The log as the algorithms see it. The log implements this trait, and so do small models in
/// tests.
pub(super) trait BufferAccess {
    /// Reserves `bytes` if they are admitted. Returns the start. Called only under the latch.
    fn reserve(&self, bytes: u64) -> Result<u64, Stalled>;
    /// The filled frontier (Acquire).
    fn filled(&self) -> u64;
    /// Advances the filled frontier to `to` (Release). Called by one thread at a time, in order.
    fn advance_filled(&self, to: u64);
}

/// A reserved range, and its ticket in the order of release.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    start: u64,
    end: u64,
    /// Ticket from [`Order::enter`].
    ticket: u64,
}

/// A design: a latch, slots for groups or none, and an order of release.
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

    /// Reserves `bytes`, calls `fill` once with their start, and releases them as filled.
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

    /// Waits until the order has room. The caller holds the latch. The call gives the latch back
    /// while it waits, and takes it again.
    fn wait_for_room(&self) {
        let keeps = self.built.is(Mutant::WaitedUnderLatch);
        while !self.order.has_room() {
            if !keeps {
                self.latch.give();
            }
            // Another thread may enter meanwhile, so this thread checks again with the latch.
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

    /// Reserves a range. The caller holds the latch; this call gives it back, unless the order
    /// keeps it until the release.
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

    /// Inserts a record as a member of a group. Returns `None` if the group was not admitted.
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

/// The log itself, for records of one class.
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

/// Makes `open` slots in which groups form.
pub(super) fn slots(open: usize, sizes: &BufferSizes) -> Slots {
    // Number of slots beyond those in the array. Each slot that is neither in the array nor free is
    // used by the threads of a group. If no slot is free, a leader waits for one.
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
            // ring): the reservation was made under the latch, and the members of a group divide
            // the range by their offsets. Exactly the reserved bytes were admitted (rule 3 of the
            // ring).
            unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        })?;
        Ok(Lsn::new(start))
    }

    /// Reads the frontiers: owners advance `filled` themselves, so there is nothing to find.
    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let cutoff = buffer.frontiers.reserved().get();
        Scan { cutoff, filled: buffer.frontiers.filled().get().min(cutoff) }
    }
}
