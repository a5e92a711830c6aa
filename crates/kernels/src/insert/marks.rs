//! Inserter `marks`, the default: one `fetch_add` reserves, and one mark for each session says what
//! is not filled yet.
//!
//! The algorithm and its orderings are in [`kernel`]. This file has the copy.

pub mod kernel;

use super::{AppendClass, Inserter, LogBuffer, OnBuffer, PhysicalRecord, Scan, Stalled};
use crate::lsn::Lsn;
use kernel::Marks;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct MarksInserter {
    marks: Marks,
}

impl MarksInserter {
    pub(super) fn new(slots: usize) -> Self {
        MarksInserter { marks: Marks::new(slots) }
    }
}

impl Inserter for MarksInserter {
    fn open(&self, slot: usize) {
        self.marks.open(slot);
    }

    #[inline]
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled> {
        let bytes = record.bytes();
        let start = self.marks.reserve(&OnBuffer { buffer, slot, class }, slot, bytes)?;
        // SAFETY: this thread alone has reserved `[start, start + bytes)` (rule 1 of the ring).
        // These bytes were admitted; the slack covers the bytes that other threads reserved
        // meanwhile (rule 3 of the ring).
        unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        self.marks.finish(slot, start + bytes);
        Ok(Lsn::new(start))
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let scan = self.marks.scan(&buffer.frontiers.reserved);
        let filled = buffer.frontiers.advance_filled(scan.filled).get();
        // Another scan may have advanced the frontier beyond this scan's cutoff.
        Scan { cutoff: scan.cutoff.max(filled), filled }
    }
}
