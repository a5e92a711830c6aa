//! What the holder of the baton does to the log: find out what is filled, write it, make it durable.
//!
//! Run by whoever leads, one thread at a time; `leader`, the latch, is held during every write and sync, so that whoever ends the
//! log can wait for the last one.

use super::{Core, locked};
use crate::insert::{Image, Scan};
use crate::lsn::{BLOCK_BYTES, Lsn};
use crate::options::Background;
use crate::options::Durability;
use crate::record::padded_len;
use crate::sync::{Rounds, Wrote};
use crate::sync_shim::{Ordering, rest};
use katydid_device::{self as device, AlignedBuffer, Method, WriteMode};
use std::io::IoSlice;

/// Most bytes of one write. Larger ones gain nothing and delay whoever waits for their beginning.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// What the holder of the baton writes with.
#[derive(Debug)]
pub(super) struct LeaderState {
    /// The block that holds the filled frontier, zeros behind it.
    tail: AlignedBuffer,
    /// The lowest end of a record at or above what is written.
    next_end: Lsn,
}

impl LeaderState {
    /// For a log that is written up to `end`, the end of a record.
    pub(super) fn new(end: Lsn) -> Self {
        LeaderState { tail: AlignedBuffer::new_zeroed(BLOCK_BYTES as usize), next_end: end }
    }
}

impl Core {
    /// How far the log is filled; waits a moment for `own`, whose hole somebody is about to fill.
    fn filled(&self, own: Lsn) -> Scan {
        let written = self.image.frontiers.written().get();
        let mut step = 0;
        loop {
            let scan = self.inserter.scan(&self.image);
            // After a while, those who can be served are.
            if scan.filled >= own.get() || (step > 16 && scan.filled > written) || self.is_over() {
                return scan;
            }
            // A second scan passes chunks that stand still; holes need their owners.
            if step > 0 || self.in_order {
                rest(step);
            }
            step += 1;
        }
    }

    fn write_filled(&self, leader: &mut LeaderState, filled: Lsn, level: Durability) -> device::Result<Lsn> {
        let Image { frontiers, ring, limiter } = &self.image;
        let written = frontiers.written();
        let from = written.floor_block();
        let to = filled.min(from.plus(WRITE_BYTES_MAX));
        let whole = to.floor_block();
        // SAFETY: filled, and `written` moves only below, after the last use of the slices (rules 2 and 3 of the ring).
        let (first, second) = unsafe { ring.slices(from, whole) };
        let rest = to.since(whole) as usize;
        if rest > 0 {
            // SAFETY: filled (rule 2).
            unsafe { ring.copy_out(whole, &mut leader.tail[..rest]) };
            leader.tail[rest..].fill(0);
        }
        let mut parts = [IoSlice::new(&[]); 3];
        let mut used = 0;
        for part in [first, second, if rest > 0 { &leader.tail[..] } else { &[] }] {
            if !part.is_empty() {
                parts[used] = IoSlice::new(part);
                used += 1;
            }
        }
        // Invariant 3.
        let durable = level == Durability::Durable
            && frontiers.durable() == written
            && self.store.method(from) == Method::Direct;
        let mode = if durable { WriteMode::Durable } else { WriteMode::Written };
        self.store.write(from, &parts[..used], mode)?;
        self.tally.writes.add_alone(1);
        self.tally.bytes_written.add_alone(to.ceil_block().since(from));
        // Before: whoever has waited for it reads it.
        self.advance_readable(leader, to, filled);
        frontiers.advance_written(to);
        if durable {
            self.tally.syncs.add_alone(1);
            self.tally.bytes_synced.add_alone(to.since(frontiers.durable()));
            frontiers.advance_durable(to);
        }
        limiter.refresh(frontiers, self.store.prepared_end());
        Ok(to)
    }

    /// The log is written up to `to`, perhaps in the middle of a record, and filled up to `filled`, the end of one: whole records can be read.
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
            // SAFETY: filled, and `written` has not moved beyond yet (rules 2 and 3 of the ring); a record starts at a multiple of 8.
            unsafe { self.image.ring.copy_out(leader.next_end, &mut len) };
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
}

impl Rounds for Core {
    fn write(&self, level: Durability, own: Lsn) -> Wrote {
        let nothing = Wrote { all: true, needs_sync: false };
        let scan = self.filled(own);
        // Under the latch from here on: see `Core::end`.
        let mut leader = locked(&self.leader);
        if self.is_over() {
            return nothing;
        }
        let frontiers = &self.image.frontiers;
        let mut to = frontiers.written();
        let filled = Lsn::new(scan.filled);
        if filled > to {
            let outcome = self.write_filled(&mut leader, filled, level);
            drop(leader);
            match outcome {
                Ok(written) => to = written,
                Err(error) => {
                    self.fail(error);
                    return nothing;
                }
            }
            self.after_progress();
        } else if to.get() < scan.cutoff {
            drop(leader);
            // Only holes: their owners need the processor.
            rest(0);
        }
        let needs_sync = level == Durability::Durable && frontiers.durable() < to;
        Wrote { all: to.get() >= scan.cutoff, needs_sync }
    }

    fn sync(&self) {
        let leader = locked(&self.leader);
        if self.is_over() {
            return;
        }
        let frontiers = &self.image.frontiers;
        let (from, to) = (frontiers.durable(), frontiers.written());
        let outcome = self.store.sync(from, to);
        drop(leader);
        match outcome {
            Ok(()) => {
                self.tally.syncs.add_alone(1);
                self.tally.bytes_synced.add_alone(to.since(from));
                frontiers.advance_durable(to);
                self.after_progress();
            }
            Err(error) => self.fail(error),
        }
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        self.image.frontiers.reached(end, level) || self.is_over()
    }

    fn start_syncer(&self) -> bool {
        self.background == Background::Threads
            && self.spawn("katydid-log-syncer", |core| core.protocol.serve(core)).is_ok()
    }

    fn released(&self, waiters: u64) {
        if waiters > 0 {
            self.tally.released.add_alone(waiters);
        }
    }
}
