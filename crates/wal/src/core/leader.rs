//! What a leader does to the log: find out what is filled, decide on a write, perform it, make it durable.
//!
//! [`Rounds::plan`] and [`Rounds::sync`] are called by one thread at a time (rules of `sync`); [`Rounds::perform`] by whoever
//! planned a
//! write, several at once where they are durable by themselves.
//!
//! Invariants:
//!
//! 1. `flights` are the writes under way, in order, without a gap from `written` on. `planned` is where the last one ends.
//! 2. Only writes that are durable by themselves are under way beside others. At most one, the last, ends within a block: none
//!    is planned
//!    behind it, for it would write the same block again.
//! 3. The frontiers advance, under the latch, over the first flights that have ended well. After a failure they do not move.
//! 4. A write may end within a record. The public durable frontier, which records remember and recovery holds the log to, is
//!    the end of a
//!    record: the last one below `durable`.
//! 5. While a flight is here, its bytes stay in the ring, for `written` lies below; and the log's directory stays ours
//!    (`wait_for_writes`).

use super::{Core, Store, locked};
use crate::options::Background;
use katydid_device::{self as device, Method, Verb, WriteMode};
use katydid_kernels::durability::Durability;
use katydid_kernels::insert::Scan;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::padded_len;
use katydid_kernels::sync::{Ask, Plan, Planned, Rounds, SyncTally};
use katydid_kernels::sync_shim::{Ordering, rest};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Instant;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct LeaderState {
    flights: VecDeque<Flight>,
    planned: Lsn,
    /// The device keeps everything below.
    durable: Lsn,
    /// The lowest end of a record at or above what is written.
    next_end: Lsn,
    /// When a frontier moved last, and how many bytes were on their way to durability after that.
    last: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Flight {
    write: Planned,
    ended: bool,
}

impl LeaderState {
    /// For a log that is written up to `end`, the end of a record.
    pub(super) fn new(end: Lsn) -> Self {
        LeaderState { flights: VecDeque::new(), planned: end, durable: end, next_end: end, last: None }
    }
}

impl Core {
    /// How far the log is filled; waits a moment for `own`, whose hole somebody is about to fill.
    fn filled(&self, own: Lsn) -> Scan {
        let planned = locked(&self.leader).planned.get();
        let mut step = 0;
        loop {
            let scan = self.inserter.scan(&self.buffer);
            // After a while, those who can be served are.
            if scan.filled >= own.get() || (step > 16 && scan.filled > planned) || self.is_over() {
                return scan;
            }
            // A second scan passes chunks that stand still; holes need their owners.
            if step > 0 || self.in_order {
                rest(step);
            }
            step += 1;
        }
    }

    /// Decides under the latch.
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
        // Invariant 3 of the log.
        let chained = if under_way {
            leader.flights.iter().all(|flight| flight.write.durable)
        } else {
            leader.durable == planned
        };
        let durable = chained
            && (under_way || ask.level == Durability::Durable)
            && self.store.method(from).is_some_and(Method::durable_writes);
        // Invariant 2.
        if under_way && (!durable || from < planned || leader.flights.len() >= ask.depth as usize) {
            return Plan::Blocked;
        }
        let mut to = end.min(from.plus(self.write_bytes_max));
        let mut parallel = durable && leader.flights.len() + 1 < ask.depth as usize;
        // The tail goes with the last write there may be. With others it does so only if the one who leads would have to wait
        // for it.
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
        let ring = &self.buffer.ring;
        let whole = write.to.floor_block();
        // SAFETY: filled, and `written` stays below until this write has ended, after the last use of the slices (rules 2 and
        // 3 of the
        // ring, invariant 4).
        let (first, second) = unsafe { ring.slices(write.from, whole) };
        let rest = write.to.since(whole) as usize;
        let mut tail = (rest > 0).then(|| locked(&self.tail));
        if let Some(tail) = &mut tail {
            // SAFETY: filled (rule 2).
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
        self.store.write(write.from, &parts[..used], mode)
    }

    /// Takes a write that has ended off the list; moves the frontiers. Whether they have moved.
    fn end_flight(&self, write: &Planned) -> bool {
        let mut leader = locked(&self.leader);
        let leader = &mut *leader;
        let Some(at) = leader.flights.iter().position(|flight| flight.write == *write) else { return false };
        if self.is_over() {
            // With it, those that have ended before and waited for one that came to nothing.
            leader.flights.retain(|flight| !flight.ended && flight.write != *write);
            return false;
        }
        leader.flights[at].ended = true;
        let frontiers = &self.buffer.frontiers;
        self.tally.writes.add(1);
        self.tally.bytes_written.add(write.to.ceil_block().since(write.from));
        let mut moved = false;
        while leader.flights.front().is_some_and(|first| first.ended) {
            let Some(Flight { write, .. }) = leader.flights.pop_front() else { break };
            // Before: whoever has waited for it reads it.
            self.advance_readable(leader, write.to, write.filled);
            frontiers.advance_written(write.to);
            if write.durable {
                self.make_durable(leader, write.to, self.readable());
            }
            moved = true;
        }
        if moved {
            self.buffer.admission.refresh(frontiers, self.store.prepared_end());
        }
        moved
    }

    /// The device keeps everything below `to`, of which `end` is the last end of a record.
    fn make_durable(&self, leader: &mut LeaderState, to: Lsn, end: Lsn) {
        let (from, reserved) = (leader.durable, self.buffer.frontiers.reserved());
        self.tally.syncs.add(1);
        self.tally.sync.durable_bytes.add(to.since(from));
        let now = Instant::now();
        if let Some((since, before)) = leader.last {
            // They have come one by one.
            let mean = u128::from(before + reserved.since(from)) / 2;
            let byte_ns = mean * now.duration_since(since).as_nanos();
            self.tally.sync.byte_ns.add(u64::try_from(byte_ns).unwrap_or(u64::MAX));
        }
        leader.last = Some((now, reserved.since(to)));
        leader.durable = to;
        self.buffer.frontiers.advance_durable(end);
    }

    /// Up to where whole records are written.
    fn readable(&self) -> Lsn {
        Lsn::new(self.readable.load(Ordering::Acquire))
    }

    /// The log is written up to `to`, perhaps in the middle of a record, and filled up to `filled`, the end of one: whole
    /// records can be read.
    fn advance_readable(&self, leader: &mut LeaderState, to: Lsn, filled: Lsn) {
        let mut last = None;
        if to == filled {
            leader.next_end = to;
            last = Some(to);
        }
        // Only behind a write of the largest size: from record to record, by the lengths that their headers begin with.
        while leader.next_end < to {
            last = Some(leader.next_end);
            let mut len = [0; 4];
            // SAFETY: filled, and `written` has not moved beyond yet (rules 2 and 3 of the ring); a record starts at a
            // multiple of 8.
            unsafe { self.buffer.ring.copy_out(leader.next_end, &mut len) };
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

    fn after_progress(&self) {
        self.wakers.release(|end, level| self.settled(end, level));
        self.nudge_maintenance();
    }

    /// Once `over` is set: until no write or sync is under way. None begins after that.
    pub(super) fn wait_for_writes(&self) {
        let mut step = 0;
        while !locked(&self.leader).flights.is_empty() {
            rest(step);
            step += 1;
        }
        drop(locked(&self.syncing));
    }
}

impl Core {
    fn plan_write(&self, ask: Ask) -> Plan {
        if let Store::Nvram(store) = &self.store {
            self.commit_in(store, ask.own);
            return Plan::Nothing { all: true, under_way: false, needs_sync: false };
        }
        let scan = self.filled(ask.own);
        let plan = {
            // Under the latch from here on: see `Core::end`.
            let mut leader = locked(&self.leader);
            if self.is_over() {
                return Plan::Nothing { all: true, under_way: false, needs_sync: false };
            }
            self.decide(&mut leader, &scan, ask)
        };
        if matches!(plan, Plan::Nothing { all: false, under_way: false, needs_sync: false }) {
            // Only holes: their owners need the processor.
            rest(0);
        }
        plan
    }

    fn perform_write(&self, write: &Planned) {
        let begun = write.durable.then(Instant::now);
        let outcome = self.write(write);
        if let Some(begun) = begun {
            self.count_sync_time(begun);
        }
        if let Err(error) = outcome {
            // Before the write is taken off the list, and those behind it become the first.
            self.fail(error);
        }
        if self.end_flight(write) {
            self.after_progress();
        }
    }

    fn sync_written(&self, again: bool) {
        let turn = locked(&self.syncing);
        if self.is_over() {
            return;
        }
        let (from, to, end) = {
            let leader = locked(&self.leader);
            (leader.durable, self.buffer.frontiers.written(), self.readable())
        };
        let begun = Instant::now();
        let outcome = if from < to {
            self.store.sync(from, to)
        } else if again {
            self.store.sync_again(to)
        } else {
            return;
        };
        self.count_sync_time(begun);
        match outcome {
            Ok(()) if from < to => {
                let mut leader = locked(&self.leader);
                if self.is_over() {
                    return;
                }
                self.make_durable(&mut leader, to, end);
                drop(leader);
                drop(turn);
                self.after_progress();
            }
            Ok(()) => self.tally.syncs.add(1),
            Err(error) => self.fail(error),
        }
    }
}

/// A panic in one of these steps fails the log (`Core::guarded`). It must not unwind through the protocol, which would leave the lead taken and
/// every waiter queued.
impl Rounds for Core {
    fn plan(&self, ask: Ask) -> Plan {
        let nothing = Plan::Nothing { all: true, under_way: false, needs_sync: false };
        self.guarded(Verb::Write, || self.plan_write(ask)).unwrap_or(nothing)
    }

    fn perform(&self, write: &Planned) {
        if self.guarded(Verb::Write, || self.perform_write(write)).is_none() {
            // Unless it was taken off the list before.
            self.end_flight(write);
        }
    }

    fn sync(&self, again: bool) {
        self.guarded(Verb::Sync, || self.sync_written(again));
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        self.buffer.frontiers.reached(end, level) || self.is_over()
    }

    fn ended(&self, to: Lsn) -> bool {
        // Under the latch: who has been told of it finds the durable frontier moved.
        locked(&self.leader).durable >= to || self.is_over()
    }

    fn reserved(&self) -> Lsn {
        self.buffer.frontiers.reserved()
    }

    fn written(&self) -> Lsn {
        self.buffer.frontiers.written()
    }

    fn is_over(&self) -> bool {
        Core::is_over(self)
    }

    fn start_syncer(&self, number: usize) -> bool {
        self.background == Background::Threads
            && self.spawn("katydid-log-syncer", move |core| core.protocol.serve(core, number)).is_ok()
    }

    fn tally(&self) -> &SyncTally {
        &self.tally.sync
    }
}

impl Core {
    fn count_sync_time(&self, begun: Instant) {
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.tally.sync.sync_ns.add(took);
    }
}
