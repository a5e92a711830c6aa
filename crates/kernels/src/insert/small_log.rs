//! A log of few blocks for the models of inserters: production's frontiers and admission, and a
//! plain cell for each block of the ring.
//!
//! A record is one block or several. A cell holds the end of the position that was filled last. So
//! a record that is filled twice, or over bytes that nothing has read yet, is found by what its
//! cell holds, and one that only happens to be right by a race on the cell.

use super::{Admission, Admitted, AppendClass, Scan, Stalled};
use crate::frontier::Frontiers;
use crate::lsn::{BLOCK_BYTES, Lsn};
use crate::sync_shim::{AtomicU64, Mutex, PlainAccess};
use std::cell::Cell;

/// The size of the smallest record.
pub(super) const BLOCK: u64 = BLOCK_BYTES;

/// See the head of this file.
pub(super) struct SmallLog {
    pub(super) frontiers: Frontiers,
    admission: Admission,
    cells: Vec<(PlainAccess, Cell<u64>)>,
    /// Held by a leader.
    leads: Mutex<()>,
}

// SAFETY: each cell is accessed as the inserter allows, which is what is being checked; the checker
// itself sees every access.
unsafe impl Sync for SmallLog {}
// SAFETY: each cell is accessed as the inserter allows, which is what is being checked; the checker
// itself sees every access.
unsafe impl Send for SmallLog {}

impl SmallLog {
    /// A ring of `blocks` blocks, once filled and written, to which `adders` slots may add at most
    /// `add_blocks` blocks at a time.
    pub(super) fn new(blocks: usize, (adders, add_blocks): (usize, u64)) -> Self {
        let begin = Lsn::new(blocks as u64 * BLOCK);
        let log = SmallLog {
            frontiers: Frontiers::at(begin),
            admission: Admission::of_blocks(blocks, adders, add_blocks),
            cells: (1..=blocks as u64).map(|end| (PlainAccess::new(), Cell::new(end * BLOCK))).collect(),
            leads: Mutex::new(()),
        };
        log.admission.refresh(&log.frontiers, Lsn::LIMIT);
        log
    }

    /// Start of its first record.
    pub(super) fn begin(&self) -> u64 {
        self.ring()
    }

    /// For records of this slot.
    pub(super) fn slot(&self, slot: usize) -> Slot<'_> {
        Slot { log: self, slot }
    }

    fn ring(&self) -> u64 {
        self.cells.len() as u64 * BLOCK
    }

    fn cell(&self, at: u64) -> &(PlainAccess, Cell<u64>) {
        &self.cells[(at / BLOCK) as usize % self.cells.len()]
    }

    /// The owner of `[from, to)` copies its record.
    pub(super) fn fill(&self, from: u64, to: u64) {
        assert!(from < to, "a record is not empty");
        for at in (from..to).step_by(BLOCK as usize) {
            let (access, cell) = self.cell(at);
            access.write();
            let before = cell.replace(at + BLOCK);
            assert_eq!(before + self.ring(), at + BLOCK, "filled twice, or before the ring's turn");
            assert!(self.frontiers.written().get() + self.ring() > at, "over what is not written yet");
        }
    }

    /// Any thread: finds out what is filled. Takes no latch, which would order it after other
    /// scans.
    pub(super) fn look(&self, scan: impl FnOnce() -> Scan) -> Scan {
        let scan = scan();
        assert!(scan.filled <= scan.cutoff);
        self.frontiers.advance_filled(scan.filled);
        scan
    }

    /// A leader: finds out what is filled, writes it, and makes room.
    pub(super) fn lead(&self, scan: impl FnOnce() -> Scan) -> Scan {
        let _leads = self.leads.lock().expect("not poisoned");
        let scan = self.look(scan);
        let filled = self.frontiers.filled().get();
        let written = self.frontiers.written().get();
        for at in (written..filled).step_by(BLOCK as usize) {
            let (access, cell) = self.cell(at);
            access.read();
            assert_eq!(cell.get(), at + BLOCK, "claimed before it was filled");
        }
        if filled > written {
            self.frontiers.advance_written(Lsn::new(filled));
            self.admission.refresh(&self.frontiers, Lsn::LIMIT);
        }
        scan
    }

    /// End of the reservations, with no thread appending.
    pub(super) fn end(&self) -> u64 {
        self.frontiers.reserved().get()
    }
}

/// See [`SmallLog::slot`].
pub(super) struct Slot<'a> {
    pub(super) log: &'a SmallLog,
    slot: usize,
}

impl Admitted for Slot<'_> {
    fn reserved(&self) -> &AtomicU64 {
        &self.log.frontiers.reserved
    }

    fn may_add(&self, bytes: u64) -> bool {
        self.log.admission.may_add(self.slot, bytes)
    }

    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        self.log.admission.admit(start, bytes, AppendClass::Normal)
    }
}
