//! The marks under the checkers: no scan may claim bytes that are not filled, and none may be forgotten.
//!
//! One unit is one "byte"; each position has a plain cell that its owner writes and a scan's reader reads, so that a claim too
//! much is a data race, or a cell found empty. The mutants show that the checkers would notice.

use super::*;
use crate::sync_shim::PlainAccess;
use crate::sync_shim::checking::{checked, spawn};
use std::cell::Cell;
use std::sync::Arc;

const CELLS: usize = 4;

struct Model {
    reserved: AtomicU64,
    marks: Marks,
    cells: [(PlainAccess, Cell<bool>); CELLS],
}

// SAFETY: each cell is accessed as the marks allow, which is what is being checked; the checker itself sees every access.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

/// One step to weaken.
#[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    RelaxedAnnounce,
    NoAnnounce,
    RelaxedReserve,
    CutoffLast,
}

impl Model {
    fn new(slots: usize) -> Arc<Self> {
        let model = Model {
            reserved: AtomicU64::new(0),
            marks: Marks::new(slots),
            cells: std::array::from_fn(|_| (PlainAccess::new(), Cell::new(false))),
        };
        Arc::new(model)
    }

    fn append(&self, slot: usize, mutant: Mutant) {
        let bound = self.reserved.load(Ordering::Acquire);
        match mutant {
            Mutant::NoAnnounce => {}
            Mutant::RelaxedAnnounce => self.marks.marks[slot].store(BUSY | bound, Ordering::Relaxed),
            _ => self.marks.announce(slot, bound),
        }
        let start = match mutant {
            Mutant::RelaxedReserve => self.reserved.fetch_add(1, Ordering::Relaxed),
            _ => self.marks.reserve(slot, bound, &self.reserved, 1),
        };
        self.fill(start);
        self.marks.finish(slot, start + 1);
    }

    /// As records do that are too large to be added.
    fn append_exactly(&self, slot: usize) {
        let start = loop {
            let start = self.reserved.load(Ordering::Acquire);
            self.marks.announce(slot, start);
            if self.marks.reserve_at(&self.reserved, start, 1) {
                break start;
            }
        };
        self.fill(start);
        self.marks.finish(slot, start + 1);
    }

    fn fill(&self, at: u64) {
        let (access, cell) = &self.cells[at as usize];
        access.write();
        cell.set(true);
    }

    fn scan(&self, mutant: Mutant) -> u64 {
        let mut scan = self.marks.scan(&self.reserved);
        if mutant == Mutant::CutoffLast {
            let used = self.marks.used.load(Ordering::Acquire);
            let busy = self.marks.marks[..used].iter().map(|mark| mark.load(Ordering::Acquire));
            let lowest = busy.filter(|mark| mark & BUSY != 0).map(|mark| mark & !BUSY).min();
            scan.cutoff = self.reserved.load(Ordering::SeqCst);
            scan.filled = lowest.map_or(scan.cutoff, |lowest| lowest.min(scan.cutoff));
        }
        assert!(scan.filled <= scan.cutoff);
        for (access, cell) in &self.cells[..scan.filled as usize] {
            access.read();
            assert!(cell.get(), "claimed before it was filled");
        }
        scan.filled
    }
}

fn two_appenders_and_a_scan(mutant: Mutant) {
    let model = Model::new(2);
    model.marks.open(0);
    model.marks.open(1);
    let appenders = [0, 1].map(|slot| {
        let model = model.clone();
        spawn(move || model.append(slot, mutant))
    });
    model.scan(mutant);
    for appender in appenders {
        appender.join().expect("appender");
    }
    assert_eq!(model.scan(Mutant::None), 2, "everything is filled in the end");
}

checked!(
    /// Two sessions append while a third thread scans.
    loom_two_appenders_and_a_scan explore_two_appenders_and_a_scan miri_two_appenders_and_a_scan,
    Some(2),
    || two_appenders_and_a_scan(Mutant::None)
);

fn two_appends_and_scans(mutant: Mutant) {
    let model = Model::new(1);
    model.marks.open(0);
    let theirs = model.clone();
    let appender = spawn(move || {
        theirs.append(0, mutant);
        theirs.append(0, mutant);
    });
    model.scan(mutant);
    model.scan(mutant);
    appender.join().expect("appender");
    assert_eq!(model.scan(Mutant::None), 2);
}

checked!(
    /// One session appends twice: its second announcement must publish its first copy.
    loom_a_second_append_publishes_the_first explore_a_second_append_publishes_the_first miri_a_second_append_publishes_the_first,
    Some(2),
    || two_appends_and_scans(Mutant::None)
);

checked!(
    /// A session opens its mark while a scan runs: the scan that sees its reservation counts its mark.
    loom_a_session_comes_during_a_scan explore_a_session_comes_during_a_scan miri_a_session_comes_during_a_scan,
    Some(2),
    || {
        let model = Model::new(2);
        model.marks.open(0);
        let theirs = model.clone();
        let newcomer = spawn(move || {
            theirs.marks.open(1);
            theirs.append(1, Mutant::None);
        });
        model.append(0, Mutant::None);
        model.scan(Mutant::None);
        newcomer.join().expect("newcomer");
        assert_eq!(model.scan(Mutant::None), 2);
    }
);

checked!(
    /// Reservations by addition and by compare-and-swap together.
    loom_adding_and_swapping explore_adding_and_swapping miri_adding_and_swapping,
    Some(2),
    || {
        let model = Model::new(2);
        model.marks.open(0);
        model.marks.open(1);
        let theirs = model.clone();
        let large = spawn(move || theirs.append_exactly(1));
        let theirs = model.clone();
        let scanner = spawn(move || theirs.scan(Mutant::None));
        model.append(0, Mutant::None);
        large.join().expect("large");
        scanner.join().expect("scanner");
        assert_eq!(model.scan(Mutant::None), 2);
    }
);

/// The checker notices each mutant; otherwise what it says about the real thing is worth little.
/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::sync_shim::checking::{By, catches, noticed};

    noticed!(
        loom_catches_mutants_of_the_marks explore_catches_mutants_of_the_marks,
        [
            (Mutant::RelaxedAnnounce, By::Both),
            (Mutant::NoAnnounce, By::Explorer),
            (Mutant::RelaxedReserve, By::Explorer),
            (Mutant::CutoffLast, By::Both),
        ],
        |mutant| match mutant {
            Mutant::RelaxedAnnounce => catches(2, move || two_appends_and_scans(mutant)),
            _ => catches(2, move || two_appenders_and_a_scan(mutant)),
        }
    );
}
