//! Inserter `grasshopper`: one `fetch_add` reserves, and lists and an index of ranges say which
//! bytes are filled (ELEDA: Jung, Han, Kang, PVLDB 2017, sections 3 and 4).
//!
//! The algorithm, its invariants and the differences from the paper are in [`kernel`]. The thread
//! that tracks is in `tracker`. This file has admission and the copy. If a session's list is full,
//! its thread runs the tracker itself, before it reserves, until the list has room.

mod kernel;

use super::mutants::Built;
use super::{AppendClass, BufferSizes, Effort, Inserter, LogBuffer, PhysicalRecord, Scan, Stalled, Tracker};
use crate::lsn::Lsn;
use crate::sync_shim::pause;
use kernel::Lists;

/// Minimum number of nodes of a session's list.
const NODES_MIN: usize = 1024;
/// Maximum number of nodes of a session's list. They take 2 MiB.
const NODES_MAX: usize = 1 << 17;
/// Bytes of run-ahead for each node of a list. If eight sessions append records of 128 bytes, their
/// lists are full just when the run-ahead limit is reached.
const BYTES_A_NODE: usize = 1024;

/// Returns the number of nodes of a session's list: the maximum number of its records between head
/// and tail. The number grows with the run-ahead limit. With a fixed number, lists of small records
/// would be full before a range of 2^H bytes is full, and the tracker would never hop.
fn nodes(sizes: &BufferSizes) -> usize {
    (sizes.run_ahead_bytes / BYTES_A_NODE).clamp(NODES_MIN, NODES_MAX)
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct GrasshopperInserter {
    lists: Lists,
    tracker: Tracker,
}

impl GrasshopperInserter {
    pub(super) fn new(hop_bytes: u64, sizes: &BufferSizes, end: Lsn) -> Self {
        // At most the size of the ring is ever between the filled and the reserved frontier.
        let (slots, ahead) = (sizes.slots(), sizes.ring_bytes as u64);
        let shift = hop_bytes.trailing_zeros();
        GrasshopperInserter {
            lists: Lists::new(slots, nodes(sizes), shift, end.get(), ahead, Built::default()),
            tracker: Tracker::new(sizes, hop_bytes),
        }
    }

    #[cold]
    fn make_room(&self, buffer: &LogBuffer, slot: usize) {
        let mut step = 0;
        loop {
            self.scan(buffer);
            if self.lists.has_room(slot) {
                return;
            }
            // Another thread's hole stops the frontier. The owner of the hole needs the processor.
            pause(step);
            step += 1;
        }
    }
}

impl Inserter for GrasshopperInserter {
    fn open(&self, slot: usize) {
        self.lists.open(slot);
    }

    #[inline]
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled> {
        if !self.lists.has_room(slot) {
            self.make_room(buffer, slot);
        }
        let bytes = record.bytes();
        let start = super::buffer::reserve(buffer, slot, bytes, class)?;
        // SAFETY: this thread alone has reserved `[start, start + bytes)` (rule 1 of the ring).
        // These bytes were admitted; the slack covers the bytes that other threads reserved
        // meanwhile (rule 3 of the ring).
        unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        self.lists.filled(slot, start, start + bytes);
        self.tracker.filled(start, start + bytes);
        Ok(Lsn::new(start))
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let cutoff = buffer.frontiers.reserved().get();
        let filled = self.lists.track(cutoff);
        let filled = buffer.frontiers.advance_filled(filled).get();
        Scan { cutoff: cutoff.max(filled), filled }
    }

    fn tracker(&self) -> Option<&Tracker> {
        Some(&self.tracker)
    }

    fn effort(&self) -> Effort {
        let (crawled, hopped) = self.lists.travelled();
        Effort { crawled, hopped, ..Effort::default() }
    }
}
