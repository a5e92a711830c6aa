//! The writer: a leader finds what is filled, decides on a write, performs it, and makes it
//! durable.
//!
//! [`Writer::plan`] and [`Writer::sync`] are called by one thread at a time (rules of `sync`). The
//! thread that planned a write calls [`Writer::perform`]; several such threads run at once if
//! writes are durable by themselves.
//!
//! Invariants:
//!
//! 1. `flights` are the writes under way, in order, without a gap from `written` on. `planned` is
//!    the end of the last flight.
//! 2. Several writes are under way only if each is durable by itself. At most one of them, the
//!    last, ends within a block. No write is planned above such a write, because both writes would
//!    write the block in which it ends.
//! 3. The frontiers advance, under the latch, over a flight only if that flight and all earlier
//!    ones have ended without failure. After a failure the frontiers do not move.
//! 4. A write may end within a record. The public durable frontier is the last end of a record at
//!    or below `durable`. Records store this frontier, and recovery refuses a log that ends below
//!    it.
//! 5. While a flight is in `flights`, its bytes stay in the ring, because `written` lies below
//!    them; and no other opening gets the log's directory (`wait_for_writes`).

use crate::core::{Core, locked};
use crate::segment::SegmentStore;
use katydid_device::{self as device, AlignedBuffer, Method, WriteMode};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::Scan;
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::record::padded_len;
use katydid_kernels::ring::Ring;
use katydid_kernels::sync::{Ask, Plan, Planned};
use katydid_kernels::sync_shim::{AtomicU64, Ordering, rest};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Writer {
    segments: Arc<SegmentStore>,
    /// The ring from which writes take filled bytes.
    ring: Ring,
    /// The writes under way. A thread holds this latch for a moment when it plans a write and when
    /// a write or sync has ended. Taken before the lock of the segments and the latch of the
    /// admission.
    leader: Mutex<LeaderState>,
    /// A copy of the last block of a write that ends within a block; the write takes the bytes of
    /// that block from this copy. One thread at a time makes such a write, and holds this latch
    /// meanwhile. Taken before `leader`.
    tail: Mutex<AlignedBuffer>,
    /// A thread holds this latch during a sync. Taken before `leader`.
    syncing: Mutex<()>,
    write_bytes_max: u64,
    /// The end of the last record that is written as a whole. Stored (Release) by the leader, read
    /// (Acquire) by readers.
    readable: AtomicU64,
}

#[derive(Debug)]
struct LeaderState {
    flights: VecDeque<Flight>,
    planned: Lsn,
    /// Everything below this position is durable.
    durable: Lsn,
    /// The lowest end of a record at or above the written frontier.
    next_end: Lsn,
    /// Time at which `durable` moved last, and the reserved bytes that were not durable then.
    last: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Flight {
    write: Planned,
    ended: bool,
}

impl LeaderState {
    /// Makes the state of a log that is written up to `end`, the end of a record.
    fn new(end: Lsn) -> Self {
        LeaderState { flights: VecDeque::new(), planned: end, durable: end, next_end: end, last: None }
    }
}

impl Writer {
    /// Makes the writer of a log that is durable up to `end`, the end of a record; a write has no
    /// more than `write_bytes_max` bytes.
    pub(super) fn new(segments: Arc<SegmentStore>, ring: Ring, end: Lsn, write_bytes_max: u64) -> Self {
        Writer {
            segments,
            ring,
            leader: Mutex::new(LeaderState::new(end)),
            tail: Mutex::new(AlignedBuffer::new_zeroed(BLOCK_BYTES as usize)),
            syncing: Mutex::new(()),
            write_bytes_max,
            readable: AtomicU64::new(end.get()),
        }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Finds how far the log is filled. Waits briefly if another thread is about to fill a hole
    /// below `own`.
    fn filled(&self, core: &Core, own: Lsn) -> Scan {
        let planned = locked(&self.leader).planned.get();
        let mut step = 0;
        loop {
            let scan = core.inserter.scan(&core.buffer);
            // After 16 steps the leader no longer waits for `own` if bytes above `planned` are
            // filled: it can write these for other waiters.
            if scan.filled >= own.get() || (step > 16 && scan.filled > planned) || core.is_over() {
                return scan;
            }
            // With open chunks the second scan follows at once, because a scan passes only chunks
            // that have not changed since the previous scan. After that the leader rests, so that
            // the owner of the hole can fill it.
            if step > 0 || core.in_order {
                rest(step);
            }
            step += 1;
        }
    }

    /// Decides on a write, under the latch.
    fn decide(&self, leader: &mut LeaderState, scan: &Scan, ask: Ask) -> Plan {
        let under_way = !leader.flights.is_empty();
        let planned = leader.planned;
        let filled = Lsn::new(scan.filled);
        let end = if ask.only_own { filled.min(ask.own) } else { filled };
        if end <= planned {
            let all = planned.get() >= scan.cutoff;
            let wants_sync = ask.level == Durability::Durable && leader.durable < planned;
            return Plan::Nothing { all, under_way, needs_sync: wants_sync && !under_way };
        }
        let from = planned.floor_block();
        // The write needs no sync if everything before it is durable, or is part of a durable write
        // under way (invariant 3 of `core.rs`).
        let chained = if under_way {
            leader.flights.iter().all(|flight| flight.write.durable)
        } else {
            leader.durable == planned
        };
        let durable = chained
            && (under_way || ask.level == Durability::Durable)
            && Method::durable_writes(self.segments.method(from));
        // A second write must be durable by itself, and must not write the block in which a write
        // under way ends (invariant 2).
        if under_way && (!durable || from < planned || leader.flights.len() >= ask.depth as usize) {
            return Plan::Blocked;
        }
        let mut to = end.min(from.plus(self.write_bytes_max));
        let mut parallel = durable && leader.flights.len() + 1 < ask.depth as usize;
        // The last write that may be in flight also takes the tail: the block at the end, which is
        // not full. An earlier write takes the tail only if the leader's own record ends in it, or
        // if there is nothing else to write.
        let whole = to.floor_block();
        if parallel && whole > from && whole >= ask.own {
            to = whole;
        }
        parallel &= to == whole;
        let all = to.get() >= scan.cutoff;
        let write = Planned { from, to, filled, all, durable, parallel };
        leader.planned = to;
        leader.flights.push_back(Flight { write, ended: false });
        Plan::Write(write)
    }

    fn write(&self, write: &Planned) -> device::Result<()> {
        let ring = &self.ring;
        let whole = write.to.floor_block();
        // SAFETY: the bytes are filled, and `written` stays below them until this write has ended
        // (rules 2 and 3 of the ring, invariant 5). The write ends after the last use of the
        // slices.
        let (first, second) = unsafe { ring.slices(write.from, whole) };
        let rest = write.to.since(whole) as usize;
        let mut tail = (rest > 0).then(|| locked(&self.tail));
        if let Some(tail) = &mut tail {
            // SAFETY: the bytes are filled (rule 2 of the ring).
            unsafe { ring.copy_out(whole, &mut tail[..rest]) };
            tail[rest..].fill(0);
        }
        let mut parts = [IoSlice::new(&[]); 3];
        let mut used = 0;
        for part in [first, second, tail.as_ref().map_or(&[][..], |tail| &tail[..])] {
            if !part.is_empty() {
                parts[used] = IoSlice::new(part);
                used += 1;
            }
        }
        let mode = if write.durable { WriteMode::Durable } else { WriteMode::Written };
        self.segments.write(write.from, &parts[..used], mode)
    }

    /// Takes a write that has ended off the list, and moves the frontiers. Returns whether they
    /// have moved.
    pub(super) fn end_flight(&self, core: &Core, write: &Planned) -> bool {
        let mut leader = locked(&self.leader);
        let leader = &mut *leader;
        let Some(at) = leader.flights.iter().position(|flight| flight.write == *write) else { return false };
        if core.is_over() {
            // After a failure, ended writes above the failed one are also taken off the list.
            leader.flights.retain(|flight| !flight.ended && flight.write != *write);
            return false;
        }
        leader.flights[at].ended = true;
        let frontiers = &core.buffer.frontiers;
        core.tally.writes.add(1);
        core.tally.bytes_written.add(write.to.ceil_block().since(write.from));
        let mut moved = false;
        while leader.flights.front().is_some_and(|first| first.ended) {
            let Some(Flight { write, .. }) = leader.flights.pop_front() else { break };
            // `readable` moves before the frontiers, because a thread that waits for a record may
            // read it as soon as a frontier has moved.
            self.advance_readable(leader, write.to, write.filled);
            frontiers.advance_written(write.to);
            if write.durable {
                self.make_durable(core, leader, write.to, self.readable());
            }
            moved = true;
        }
        if moved {
            core.buffer.admission.refresh(frontiers, self.segments.prepared_end());
        }
        moved
    }

    /// Moves the durable frontier: everything below `to` is durable, and `end` is the last end of a
    /// record up to `to`.
    fn make_durable(&self, core: &Core, leader: &mut LeaderState, to: Lsn, end: Lsn) {
        let (from, reserved) = (leader.durable, core.buffer.frontiers.reserved());
        core.tally.syncs.add(1);
        core.tally.sync.durable_bytes.add(to.since(from));
        let now = Instant::now();
        if let Some((since, before)) = leader.last {
            // If bytes were reserved at a constant rate since the last move, half of this sum is
            // the mean number of reserved bytes that were not durable.
            let mean = u128::from(before + reserved.since(from)) / 2;
            let byte_ns = mean * now.duration_since(since).as_nanos();
            core.tally.sync.byte_ns.add(u64::try_from(byte_ns).unwrap_or(u64::MAX));
        }
        leader.last = Some((now, reserved.since(to)));
        leader.durable = to;
        core.buffer.frontiers.advance_durable(end);
    }

    /// Returns the position up to which whole records are written.
    pub(super) fn readable(&self) -> Lsn {
        Lsn::new(self.readable.load(Ordering::Acquire))
    }

    /// Moves `readable` to the last end of a record up to `to`. The log is written up to `to`,
    /// perhaps in the middle of a record, and filled up to `filled`, the end of a record.
    fn advance_readable(&self, leader: &mut LeaderState, to: Lsn, filled: Lsn) {
        let mut last = None;
        if to == filled {
            leader.next_end = to;
            last = Some(to);
        }
        // Runs only after a write that did not take everything filled. Such a write may end within
        // a record. Steps from record to record, by the length at the beginning of each header.
        while leader.next_end < to {
            last = Some(leader.next_end);
            let mut len = [0; 4];
            // SAFETY: the header is filled, and `written` has not passed it yet (rules 2 and 3 of
            // the ring); a record starts at a multiple of 8.
            unsafe { self.ring.copy_out(leader.next_end, &mut len) };
            let len = u32::from_le_bytes(len) as usize;
            leader.next_end = leader.next_end.plus(padded_len(len) as u64);
        }
        if leader.next_end == to {
            last = Some(to);
        }
        if let Some(end) = last {
            self.readable.store(end.get(), Ordering::Release);
        }
    }

    /// Returns whether the device keeps everything below `to`.
    pub(super) fn is_durable(&self, to: Lsn) -> bool {
        // Read under the latch, so that a caller which gets true also finds the durable frontier
        // moved.
        locked(&self.leader).durable >= to
    }

    /// Waits until no write or sync is under way. `over` is set, so none begins any more.
    pub(super) fn wait_for_writes(&self) {
        let mut step = 0;
        while !locked(&self.leader).flights.is_empty() {
            rest(step);
            step += 1;
        }
        drop(locked(&self.syncing));
    }
}

impl Writer {
    /// See [`Medium::plan`](crate::core::Medium::plan).
    pub(super) fn plan(&self, core: &Core, ask: Ask) -> Plan {
        let scan = self.filled(core, ask.own);
        let plan = {
            // `over` is read under the latch: see `Core::end`.
            let mut leader = locked(&self.leader);
            if core.is_over() {
                return Plan::Nothing { all: true, under_way: false, needs_sync: false };
            }
            self.decide(&mut leader, &scan, ask)
        };
        if matches!(plan, Plan::Nothing { all: false, under_way: false, needs_sync: false }) {
            // Every byte that could be written is above a hole, and the threads that fill the holes
            // need the processor.
            rest(0);
        }
        plan
    }

    /// See [`Medium::perform`](crate::core::Medium::perform).
    pub(super) fn perform(&self, core: &Core, write: &Planned) {
        let begun = write.durable.then(Instant::now);
        let outcome = self.write(write);
        if let Some(begun) = begun {
            count_sync_time(core, begun);
        }
        if let Err(error) = outcome {
            // The log fails first. If the write were taken off the list before that, the frontiers
            // could advance over later writes.
            core.fail(error);
        }
        if self.end_flight(core, write) {
            core.after_progress();
        }
    }

    /// See [`Medium::sync`](crate::core::Medium::sync).
    pub(super) fn sync(&self, core: &Core, again: bool) {
        let turn = locked(&self.syncing);
        if core.is_over() {
            return;
        }
        let (from, to, end) = {
            let leader = locked(&self.leader);
            (leader.durable, core.buffer.frontiers.written(), self.readable())
        };
        let begun = Instant::now();
        let outcome = if from < to {
            self.segments.sync(from, to)
        } else if again {
            self.segments.sync_again(to)
        } else {
            return;
        };
        count_sync_time(core, begun);
        match outcome {
            Ok(()) if from < to => {
                let mut leader = locked(&self.leader);
                if core.is_over() {
                    return;
                }
                self.make_durable(core, &mut leader, to, end);
                drop(leader);
                drop(turn);
                core.after_progress();
            }
            Ok(()) => core.tally.syncs.add(1),
            Err(error) => core.fail(error),
        }
    }
}

fn count_sync_time(core: &Core, begun: Instant) {
    let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    core.tally.sync.sync_ns.add(took);
}
