//! Inserter `marks`: one `fetch_add` reserves; per-session marks say what is not filled yet. The default.
//!
//! The algorithm and its orderings are in [`kernel`]. Here: admission, small and large records, and the copy.
//!
//! Small records of the first slots reserve by `fetch_add`, which may overshoot the checked position by the slack that
//! admission keeps; all others by compare-and-swap.

pub(crate) mod kernel;

use super::{Admission, Image, Inserter, Piece, Scan, Stalled};
use crate::lsn::Lsn;
use crate::sync_shim::{Ordering, spin_loop};
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
    fn insert(
        &self,
        image: &Image,
        slot: usize,
        piece: &mut Piece<'_>,
        admission: Admission,
    ) -> Result<Lsn, Stalled> {
        let bytes = piece.bytes();
        let reserved = &image.frontiers.reserved;
        let start = if image.limiter.may_add(slot, bytes) {
            let bound = reserved.load(Ordering::Acquire);
            image.limiter.admit(bound, bytes, admission)?;
            self.marks.announce(slot, bound);
            self.marks.reserve(slot, bound, reserved, bytes)
        } else {
            loop {
                let start = reserved.load(Ordering::Acquire);
                if let Err(stalled) = image.limiter.admit(start, bytes, admission) {
                    self.marks.withdraw(slot);
                    return Err(stalled);
                }
                self.marks.announce(slot, start);
                if self.marks.reserve_at(reserved, start, bytes) {
                    break start;
                }
                spin_loop();
            }
        };
        // SAFETY: `[start, start + bytes)` was reserved by this thread alone (rule 1 of the ring); admission let it in,
        // with the slack that covers what others added since `bound` was read (rule 3 of the ring).
        unsafe { piece.copy_to(&image.ring, Lsn::new(start)) };
        self.marks.finish(slot, start + bytes);
        Ok(Lsn::new(start))
    }

    fn scan(&self, image: &Image) -> Scan {
        let scan = self.marks.scan(&image.frontiers.reserved);
        let filled = image.frontiers.advance_filled(scan.filled).get();
        // Another scan may have got further than this one's cutoff.
        Scan { cutoff: scan.cutoff.max(filled), filled }
    }
}
