//! Appending to `nv_entries` (the object, then its position, then the entry) and to `nv_logging`
//! (the position, then the object, then the entry). An object is a record in the heap.
//!
//! The steps follow section 4 of the report on NV-Logging. Every appender runs them, in place of an
//! inserter. The steps of `nv_entries`:
//!
//! | step | who else sees it |
//! |---|---|
//! | 1. admission, and a place in the heap; an arena is held until step 5 ends | no other thread |
//! | 2. the object is copied there | no other thread |
//! | 3. the mark announces a reservation; a `fetch_add` gives the position | scans see a hole |
//! | 4. the entry is stored without a lap, so it is not set | no other thread |
//! | 5. the mark counts the position as filled | scans pass it; commits persist object and entry |
//!
//! In `nv_logging` step 3 comes before step 2, and the thread persists the object after step 2. In
//! step 4 the thread sets the entry and persists it, so the mark of step 5 says that the position
//! is also persisted. The hole lasts from step 3 to step 5. A thread that owns the hole does not
//! wait, allocate or take a lock. Rules:
//!
//! 1. No step after step 3 can fail. In `nv_entries` the copy also comes before step 3, so the hole
//!    lasts as long as one store, whatever the record's size.
//! 2. The marks, not the entries, say which positions are filled (`insert/marks/kernel.rs`). A
//!    committing thread may read the objects and entries of other threads below the marks. An
//!    appender stores object and entry before its mark (Release), and the scan of the committing
//!    thread loads the mark (Acquire). Only opening decides by the entries that are set.
//! 3. No lock guards the position; in the report a lock does.
//!
//! If a crash comes before the entry is set, no entry names the object. If it comes after the entry
//! is persisted, the record survives, unless a hole lies below it. If it comes in between, the
//! entry may be set or not.

use super::entries::{ENTRY, Entries};
use katydid_kernels::insert::{
    AppendClass, Inserter, LogBuffer, Marks, OnBuffer, PhysicalRecord, Scan, Stalled,
};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::nvram::arena::{Arenas, Full};
use katydid_kernels::record::HEADER_BYTES;
use katydid_kernels::sync_shim::Ordering;
use std::sync::Arc;

/// Entries that only openings may use, for their Restart records; at most an eighth of all entries.
const HEADROOM_ENTRIES: u64 = 64;

/// The memory of an open log of kind `nv_entries` or `nv_logging`.
#[derive(Debug)]
pub(crate) struct Apart {
    pub(crate) entries: Entries,
    pub(crate) arenas: Arenas,
}

impl Apart {
    /// Returns the number of positions from the start on that appends may use. Only openings may
    /// use the rest of the entries.
    pub(crate) fn positions(&self) -> u64 {
        self.entries.bytes() - HEADROOM_ENTRIES.min(self.entries.bytes() / ENTRY / 8) * ENTRY
    }

    /// Returns the number of chunks that hold this number of bytes of records, however much is lost
    /// at the chunks' ends.
    fn chunks_for(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk_bytes_sure())
    }

    fn chunk_bytes_sure(&self) -> u64 {
        self.entries.chunk_bytes() - self.entries.physical_bytes_max() as u64
    }

    /// Returns the number of free chunks that an append of this class must leave for the reserve of
    /// `reserve` bytes.
    fn kept(&self, class: AppendClass, reserve: impl FnOnce() -> u64) -> u64 {
        match class {
            AppendClass::Normal => self.chunks_for(reserve()),
            AppendClass::Critical => 0,
        }
    }

    /// Returns whether the heap has a place for one more record of this number of bytes.
    pub(crate) fn has_place(&self, bytes: u64, class: AppendClass, reserve: u64) -> bool {
        self.arenas.has_place(bytes, self.kept(class, || reserve))
    }

    /// Returns whether records of this number of bytes together have places in free chunks.
    pub(crate) fn has_chunks(&self, bytes: u64, class: AppendClass, reserve: u64) -> bool {
        self.arenas.free() >= self.kept(class, || reserve) + self.chunks_for(bytes)
    }

    /// Returns the number of bytes of records that the memory surely holds between two trims, when
    /// neither `lost` positions nor the chunks kept for `reserve` bytes can be used.
    pub(crate) fn capacity(&self, lost: u64, reserve: u64) -> u64 {
        let chunks = self.arenas.chunks().saturating_sub(self.chunks_for(reserve));
        let entries = self.positions().saturating_sub(lost) / ENTRY;
        (chunks * self.chunk_bytes_sure()).min(entries * self.entries.physical_bytes_max() as u64)
    }

    /// Returns the maximum bytes of a reserve, if `slack` positions cannot be used. The reserve has
    /// entries for records of the shortest length.
    pub(crate) fn reserve_bytes_max(&self, slack: u64) -> u64 {
        let entries = self.positions().saturating_sub(slack) / ENTRY;
        (self.arenas.chunks() * self.chunk_bytes_sure()).min(entries * HEADER_BYTES as u64)
    }

    /// Puts one of the log's own records at `at`, while the log is opened.
    ///
    /// # Safety
    /// The caller has the region alone, and no valid record is there.
    pub(super) unsafe fn put_own(&self, at: Lsn, record: &PhysicalRecord<'_>) -> Result<(), Full> {
        let place = self.arenas.place_own(record.bytes(), at.get() + ENTRY)?;
        // SAFETY: the place is this thread's.
        unsafe { self.entries.put(place, record) };
        match self.entries.pointers() {
            None => {
                self.entries.announce(at, place);
                // SAFETY: the object was put and announced above, and the caller has the region
                // alone.
                unsafe { self.entries.persist(at, at.plus(ENTRY)) };
            }
            // SAFETY: the object was put above, and the caller has the region alone.
            Some(_) => unsafe { self.entries.set(at, place, record.bytes()) },
        }
        Ok(())
    }

    /// Returns the number of bytes of used chunks, and that of free chunks.
    pub(crate) fn taken_and_free(&self) -> (u64, u64) {
        let (chunks, free) = (self.arenas.chunks(), self.arenas.free());
        let of = |chunks: u64| chunks * self.entries.chunk_bytes();
        (of(chunks - free), of(free))
    }

    /// Returns the number of used chunks, in per mille of the chunks that are not kept for
    /// `reserve` bytes.
    pub(crate) fn fullness(&self, reserve: u64) -> u64 {
        let kept = self.kept(AppendClass::Normal, || reserve);
        let taken = self.arenas.chunks() - self.arenas.free();
        taken * 1000 / self.arenas.chunks().saturating_sub(kept).max(1)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ApartInserter {
    marks: Marks,
    apart: Arc<Apart>,
}

impl ApartInserter {
    pub(crate) fn new(slots: usize, apart: Arc<Apart>) -> Self {
        ApartInserter { marks: Marks::new(slots), apart }
    }
}

impl Inserter for ApartInserter {
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
        let Apart { entries, arenas } = &*self.apart;
        // The reservation below asks the admission again. This first check avoids the copy of an
        // object whose append would be refused.
        buffer.admission.admit(buffer.frontiers.reserved.load(Ordering::Acquire), ENTRY, class)?;
        let kept = || self.apart.kept(class, || buffer.admission.reserve());
        let mut place = arenas.place(slot, record.bytes(), kept).map_err(|_| Stalled)?;
        let log = OnBuffer { buffer, slot, class };
        let start = if entries.pointers().is_some() {
            let start = Lsn::new(self.marks.reserve(&log, slot, ENTRY)?);
            // SAFETY: the place is this thread's (rule 1 of the arenas), and so is the entry.
            unsafe {
                entries.put(place.at(), record);
                entries.set(start, place.at(), record.bytes());
            }
            start
        } else {
            // SAFETY: the place is this thread's (rule 1 of the arenas).
            unsafe { entries.put(place.at(), record) };
            let start = Lsn::new(self.marks.reserve(&log, slot, ENTRY)?);
            entries.announce(start, place.at());
            start
        };
        place.keep(start.get() + ENTRY);
        self.marks.finish(slot, start.get() + ENTRY);
        Ok(start)
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let scan = self.marks.scan(&buffer.frontiers.reserved);
        let filled = buffer.frontiers.advance_filled(scan.filled).get();
        // Another scan may have advanced the frontier beyond this scan's cutoff.
        Scan { cutoff: scan.cutoff.max(filled), filled }
    }
}
