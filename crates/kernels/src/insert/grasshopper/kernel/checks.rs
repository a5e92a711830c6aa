//! Crawling and hopping under the checkers. The frontier never passes bytes that are not filled,
//! stops only at ends of records, and reaches the end once everything is filled.
//!
//! In these models a range has two bytes. Each byte has a plain cell, which its owner writes and a
//! tracking thread reads.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::{PlainAccess, yield_now};
use std::cell::Cell;
use std::sync::Arc;

const CELLS: usize = 8;

struct Model {
    reserved: AtomicU64,
    lists: Lists,
    cells: [(PlainAccess, Cell<bool>); CELLS],
    /// 1 at the last byte of each record.
    ends: [AtomicU64; CELLS],
}

// SAFETY: threads access each cell as the lists allow, which is the property under test. The
// checker sees every access.
unsafe impl Sync for Model {}
// SAFETY: threads access each cell as the lists allow, which is the property under test. The
// checker sees every access.
unsafe impl Send for Model {}

impl Model {
    fn new(sessions: usize, nodes: usize, built: Built) -> Arc<Self> {
        let lists = Lists::new(sessions, nodes, 1, 0, CELLS as u64, built);
        (0..sessions).for_each(|index| lists.open(index));
        Arc::new(Model {
            reserved: AtomicU64::new(0),
            lists,
            cells: std::array::from_fn(|_| (PlainAccess::new(), Cell::new(false))),
            ends: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    fn append(&self, session: usize, bytes: u64) {
        while !self.lists.has_room(session) {
            self.track();
            if !self.lists.has_room(session) {
                yield_now();
            }
        }
        let start = self.reserved.fetch_add(bytes, Ordering::SeqCst);
        for at in start..start + bytes {
            let (access, cell) = &self.cells[at as usize];
            access.write();
            cell.set(true);
        }
        self.ends[(start + bytes - 1) as usize].store(1, Ordering::Relaxed);
        self.lists.filled(session, start, start + bytes);
    }

    fn track(&self) -> u64 {
        let filled = self.lists.track(self.reserved.load(Ordering::SeqCst));
        for (access, cell) in &self.cells[..filled as usize] {
            access.read();
            assert!(cell.get(), "claimed before it was filled");
        }
        let at_an_end = filled == 0 || self.ends[filled as usize - 1].load(Ordering::Relaxed) == 1;
        assert!(at_an_end, "half a record at {filled}");
        filled
    }
}

/// Two sessions append records of these sizes while another thread tracks.
fn sessions_and_a_tracker(sizes: [&'static [u64]; 2], nodes: usize, built: Built) {
    let model = Model::new(2, nodes, built);
    let theirs = model.clone();
    let other = spawn(move || sizes[1].iter().for_each(|bytes| theirs.append(1, *bytes)));
    let theirs = model.clone();
    let tracker = spawn(move || {
        theirs.track();
    });
    sizes[0].iter().for_each(|bytes| model.append(0, *bytes));
    other.join().expect("other");
    tracker.join().expect("tracker");
    let all = sizes.iter().flat_map(|sizes| sizes.iter()).sum::<u64>();
    assert_eq!(model.track(), all, "everything is found in the end");
    assert_eq!(model.lists.travelled().0 + model.lists.travelled().1, all);
}

checked!(
    /// All records are in one range, so the tracker only crawls.
    loom_grasshopper_crawls explore_grasshopper_crawls miri_grasshopper_crawls,
    Some(1),
    || sessions_and_a_tracker([&[1], &[1]], 2, Built::default())
);

checked!(
    /// One record crosses a boundary, and ranges become full.
    loom_grasshopper_hops explore_grasshopper_hops miri_grasshopper_hops,
    Some(1),
    || sessions_and_a_tracker([&[3], &[1, 1]], 4, Built::default())
);

checked!(
    /// Lists have one node: before an owner reserves again, it waits until the tracker has passed
    /// its node.
    loom_grasshopper_full_lists explore_grasshopper_full_lists miri_grasshopper_full_lists,
    Some(1),
    || sessions_and_a_tracker([&[1], &[1, 1]], 1, Built::default())
);

/// One thread tests how far the frontier crawls and hops, and that entries and lists are used
/// again.
#[cfg(not(any(loom, katydid_explore)))]
#[test]
fn hops_over_full_ranges_and_crawls_the_rest() {
    let lists = Lists::new(2, 8, 4, 5, 64, Built::default());
    lists.open(0);
    lists.open(1);
    let mut at = 5;
    let mut expected = (0, 0);
    for round in 0..200u64 {
        let before = at;
        // Enough bytes for whole ranges, with records that cross boundaries.
        for number in 0..7 {
            let bytes = 1 + (round * 5 + number * 3) % 9;
            lists.filled((number % 2) as usize, at, at + bytes);
            at += bytes;
        }
        assert!(at - before < 64);
        assert_eq!(lists.track(at), at);
        let travelled = lists.travelled();
        assert_eq!(travelled.0 + travelled.1, at - 5);
        assert!(travelled.0 >= expected.0 && travelled.1 >= expected.1);
        expected = travelled;
    }
    assert!(expected.1 > expected.0, "most of it hopped: {expected:?}");
}

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_lists explore_catches_mutants_of_the_lists,
        [
            (Mutant::RelaxedTail, Detectors::Both),
            (Mutant::RelaxedCount, Detectors::Both),
            (Mutant::CountedFirst, Detectors::Both),
            (Mutant::ListOverrun, Detectors::Both),
        ],
        |mutant| {
            [(&[3][..], 4), (&[1], 1), (&[1], 2)].into_iter().any(|(first, nodes)| {
                catches(1, move || sessions_and_a_tracker([first, &[1, 1]], nodes, Built::with(mutant)))
            })
        }
    );
}
