//! Inserter `bitmap`: one `fetch_add` reserves, and a bit for each byte says whether it is filled
//! (the slow baseline of ELEDA, section 6.5.4).
//!
//! The algorithm is in [`kernel`]; this file has admission and the copy. The paper's dedicated
//! scanning thread is in `tracker`; here a thread that needs the frontier scans too. The paper's
//! threads stop before they outrun the scanner; here admission stops them, as in every design.

mod kernel;

use super::mutants::Built;
use super::{AppendClass, BufferSizes, Inserter, LogBuffer, PhysicalRecord, Scan, Stalled, Tracker};
use crate::lsn::Lsn;
use crate::sync_shim::Ordering;
use kernel::Bitmap;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct BitmapInserter {
    bitmap: Bitmap,
    tracker: Tracker,
}

impl BitmapInserter {
    pub(super) fn new(sizes: &BufferSizes, end: Lsn) -> Self {
        let ring = sizes.ring_bytes as u64;
        BitmapInserter {
            bitmap: Bitmap::new(ring, 64, end.get(), Built::default()),
            tracker: Tracker::new(sizes, ring),
        }
    }
}

impl Inserter for BitmapInserter {
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
        let start = super::buffer::reserve(buffer, slot, bytes, class)?;
        // SAFETY: this thread alone has reserved `[start, start + bytes)` (rule 1 of the ring).
        // These bytes were admitted; the slack covers the bytes that other threads reserved
        // meanwhile (rule 3 of the ring).
        unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        self.bitmap.set(start, start + bytes);
        self.tracker.filled(start, start + bytes);
        Ok(Lsn::new(start))
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        let cutoff = buffer.frontiers.reserved.load(Ordering::SeqCst);
        let filled = self.bitmap.scan(|filled| {
            buffer.frontiers.advance_filled(filled);
        });
        Scan { cutoff: cutoff.max(filled), filled }
    }

    fn tracker(&self) -> Option<&Tracker> {
        Some(&self.tracker)
    }
}
