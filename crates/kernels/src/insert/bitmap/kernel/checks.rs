//! The bitmap under the checkers. The frontier passes only filled bytes and stops only at ends of
//! records, also when the ring is used again.
//!
//! In these models a word has two bits, and the ring has four bytes. Each byte has a plain cell.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::{PlainAccess, yield_now};
use std::cell::Cell;
use std::sync::Arc;

const RING: u64 = 4;
const CELLS: usize = 8;

struct Model {
    reserved: AtomicU64,
    filled: AtomicU64,
    bitmap: Bitmap,
    cells: [(PlainAccess, Cell<bool>); CELLS],
    /// 1 at the last byte of each record.
    ends: [AtomicU64; CELLS],
}

// SAFETY: threads access each cell as the bitmap allows, which is the property under test. The
// checker sees every access.
unsafe impl Sync for Model {}
// SAFETY: threads access each cell as the bitmap allows, which is the property under test. The
// checker sees every access.
unsafe impl Send for Model {}

impl Model {
    fn new(built: Built) -> Arc<Self> {
        Arc::new(Model {
            reserved: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            bitmap: Bitmap::new(RING, 2, 0, built),
            cells: std::array::from_fn(|_| (PlainAccess::new(), Cell::new(false))),
            ends: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    fn append(&self, bytes: u64) {
        let start = loop {
            let start = self.reserved.load(Ordering::Acquire);
            // Admission: the places in the ring are free once this thread has seen the frontier
            // pass them.
            if start + bytes > self.filled.load(Ordering::Acquire) + RING {
                yield_now();
                continue;
            }
            let reserved =
                self.reserved.compare_exchange(start, start + bytes, Ordering::SeqCst, Ordering::Relaxed);
            if reserved.is_ok() {
                break start;
            }
        };
        for at in start..start + bytes {
            let (access, cell) = &self.cells[at as usize];
            access.write();
            cell.set(true);
        }
        self.ends[(start + bytes - 1) as usize].store(1, Ordering::Relaxed);
        self.bitmap.set(start, start + bytes);
    }

    fn scan(&self) -> u64 {
        let filled = self.bitmap.scan(|filled| {
            self.filled.fetch_max(filled, Ordering::AcqRel);
        });
        for (access, cell) in &self.cells[..filled as usize] {
            access.read();
            assert!(cell.get(), "claimed before it was filled");
        }
        let at_an_end = filled == 0 || self.ends[filled as usize - 1].load(Ordering::Relaxed) == 1;
        assert!(at_an_end, "half a record at {filled}");
        filled
    }
}

/// One session appends records of the sizes `first`, and another appends one of size `second`. This
/// thread scans until the frontier has passed all of them.
fn sessions_and_a_scanner(first: &'static [u64], second: u64, built: Built) {
    let model = Model::new(built);
    let all = first.iter().sum::<u64>() + second;
    let theirs = model.clone();
    let one = spawn(move || first.iter().for_each(|bytes| theirs.append(*bytes)));
    let theirs = model.clone();
    let other = (second > 0).then(|| spawn(move || theirs.append(second)));
    let mut filled = 0;
    while filled < all {
        let now = model.scan();
        if now == filled {
            yield_now();
        }
        filled = now;
    }
    one.join().expect("one");
    if let Some(other) = other {
        other.join().expect("other");
    }
}

checked!(
    /// Two sessions whose records share a word.
    loom_bitmap_words_are_shared explore_bitmap_words_are_shared miri_bitmap_words_are_shared,
    Some(1),
    || sessions_and_a_scanner(&[3], 1, Built::default())
);

checked!(
    /// One session appends more bytes than the ring has.
    loom_bitmap_goes_round explore_bitmap_goes_round miri_bitmap_goes_round,
    Some(2),
    || sessions_and_a_scanner(&[3, 2, 1], 0, Built::default())
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_bitmap explore_catches_mutants_of_the_bitmap,
        [
            (Mutant::RelaxedBits, Detectors::Both),
            (Mutant::FirstBitFirst, Detectors::Both),
            (Mutant::ClearedLate, Detectors::Both),
        ],
        |mutant| catches(2, move || sessions_and_a_scanner(&[3, 2, 1], 0, Built::with(mutant)))
    );
}
