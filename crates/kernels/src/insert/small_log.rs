//! A log of a few blocks for the models of inserters: the frontiers and admission of production,
//! and a plain cell for each block of the ring.
//!
//! A record has one block or several. A cell holds the end of the block that was last filled there.
//! `fill` and `lead` compare the content of a cell with what it must be. So they find a block that
//! is filled twice, and a block that is filled over one that the leader has not written out yet. If
//! a fill comes after the write only by chance, the checker reports a race on the cell.

use super::{Admission, Admitted, AppendClass, Scan, Stalled};
use crate::frontier::Frontiers;
use crate::lsn::{BLOCK_BYTES, Lsn};
use crate::sync_shim::{AtomicU64, Mutex, PlainAccess};
use std::cell::Cell;

/// The size of the smallest record in bytes.
pub(super) const BLOCK: u64 = BLOCK_BYTES;

/// See the head of this file.
pub(super) struct SmallLog {
    pub(super) frontiers: Frontiers,
    admission: Admission,
    cells: Vec<(PlainAccess, Cell<u64>)>,
    /// The thread that leads holds this lock.
    leads: Mutex<()>,
}

// SAFETY: threads access each cell as the inserter allows, which is the property under test. The
// checker sees every access.
unsafe impl Sync for SmallLog {}
// SAFETY: threads access each cell as the inserter allows, which is the property under test. The
// checker sees every access.
unsafe impl Send for SmallLog {}

impl SmallLog {
    /// Makes a log whose ring of `blocks` blocks was filled and written once. The first `adders`
    /// slots may reserve by addition (`fetch_add`), each at most `add_blocks` blocks at a time.
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

    /// Start of the log's first record.
    pub(super) fn begin(&self) -> u64 {
        self.ring()
    }

    /// The log as seen by the session of this slot.
    pub(super) fn slot(&self, slot: usize) -> Slot<'_> {
        Slot { log: self, slot }
    }

    fn ring(&self) -> u64 {
        self.cells.len() as u64 * BLOCK
    }

    fn cell(&self, at: u64) -> &(PlainAccess, Cell<u64>) {
        &self.cells[(at / BLOCK) as usize % self.cells.len()]
    }

    /// Copies a record, as the owner of `[from, to)`.
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

    /// Scans for the filled frontier. Any thread may call this. The scan takes no latch, because a
    /// latch would order it after other scans.
    pub(super) fn look(&self, scan: impl FnOnce() -> Scan) -> Scan {
        let scan = scan();
        assert!(scan.filled <= scan.cutoff);
        self.frontiers.advance_filled(scan.filled);
        scan
    }

    /// Leads: scans, writes the filled bytes, and makes room.
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

    /// End of the reservations. Called while no thread appends.
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
