//! The marks under the checkers. A scan may report only filled bytes as filled. In the end scans
//! must find all filled bytes. No byte of the ring may be used again before it was written to the
//! device.
//!
//! The models use the reservation, admission and frontiers of production, on a ring of a few blocks
//! (`insert/small_log.rs`). The mutants show that the checkers notice faults.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::insert::small_log::{BLOCK, SmallLog};
use crate::sync_shim::{Mutex, yield_now};
use std::sync::Arc;

struct Model {
    log: SmallLog,
    marks: Marks,
}

impl Model {
    /// Makes a model with `sessions` open sessions. The first `adders` sessions may reserve by
    /// addition.
    fn new(blocks: usize, sessions: usize, adders: usize, built: Built) -> Arc<Self> {
        let model =
            Model { log: SmallLog::new(blocks, (adders, 1)), marks: Marks::built(sessions.max(2), built) };
        (0..sessions).for_each(|session| model.marks.open(session));
        Arc::new(model)
    }

    /// Appends a record of one block, if it is admitted.
    fn try_append(&self, session: usize) -> Result<(), Stalled> {
        let start = self.marks.reserve(&self.log.slot(session), session, BLOCK)?;
        self.log.fill(start, start + BLOCK);
        self.marks.finish(session, start + BLOCK);
        Ok(())
    }

    /// Appends a record of one block. Makes room and tries again as long as the record is refused.
    fn append(&self, session: usize) {
        while self.try_append(session).is_err() {
            let before = self.log.frontiers.written();
            self.lead();
            if self.log.frontiers.written() == before {
                // Another thread is making room, or has a hole to fill.
                yield_now();
            }
        }
    }

    fn lead(&self) -> Scan {
        self.log.lead(|| self.marks.scan(&self.log.frontiers.reserved))
    }

    /// Asserts, while no thread appends, that all `records` are filled and no mark is left behind.
    fn ends_with(&self, records: u64) {
        let scan = self.lead();
        assert_eq!((scan.filled, scan.cutoff), (self.log.end(), self.log.end()), "a mark was left behind");
        assert_eq!(self.log.end(), self.log.begin() + records * BLOCK, "records");
    }
}

fn two_appenders_and_a_scan(built: Built) {
    let model = Model::new(4, 2, 2, built);
    let appenders = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session))
    });
    model.lead();
    for appender in appenders {
        appender.join().expect("appender");
    }
    model.ends_with(2);
}

checked!(
    /// Two sessions append while a third thread scans.
    loom_two_appenders_and_a_scan explore_two_appenders_and_a_scan miri_two_appenders_and_a_scan,
    Some(2),
    || two_appenders_and_a_scan(Built::default())
);

fn two_appends_and_scans(built: Built) {
    let model = Model::new(4, 1, 1, built);
    let theirs = model.clone();
    let appender = spawn(move || {
        theirs.append(0);
        theirs.append(0);
    });
    model.lead();
    model.lead();
    appender.join().expect("appender");
    model.ends_with(2);
}

checked!(
    /// One session appends twice: its second announcement must publish its first copy.
    loom_a_second_append_publishes_the_first explore_a_second_append_publishes_the_first miri_a_second_append_publishes_the_first,
    Some(2),
    || two_appends_and_scans(Built::default())
);

checked!(
    /// A session opens its mark while a scan runs: if the scan sees the session's reservation, the
    /// scan counts the mark.
    loom_a_session_comes_during_a_scan explore_a_session_comes_during_a_scan miri_a_session_comes_during_a_scan,
    Some(2),
    || {
        let model = Model::new(4, 1, 2, Built::default());
        let theirs = model.clone();
        let newcomer = spawn(move || {
            theirs.marks.open(1);
            theirs.append(1);
        });
        model.append(0);
        model.lead();
        newcomer.join().expect("newcomer");
        model.ends_with(2);
    }
);

checked!(
    /// One session reserves by addition while another one reserves by compare-and-swap.
    loom_adding_and_swapping explore_adding_and_swapping miri_adding_and_swapping,
    Some(2),
    || {
        let model = Model::new(4, 2, 1, Built::default());
        let theirs = model.clone();
        let large = spawn(move || theirs.append(1));
        let theirs = model.clone();
        let scanner = spawn(move || {
            theirs.lead();
        });
        model.append(0);
        large.join().expect("large");
        scanner.join().expect("scanner");
        model.ends_with(2);
    }
);

/// One session is admitted and then stands still while another fills the whole ring. After that the
/// first session adds its record.
fn the_ring_goes_round(built: Built) {
    let model = Model::new(3, 2, 2, built);
    let theirs = model.clone();
    let slow = spawn(move || theirs.append(1));
    for _ in 0..3 {
        model.append(0);
        model.lead();
    }
    slow.join().expect("slow");
    model.ends_with(4);
}

checked!(
    /// A session reuses bytes of the ring only if it has seen that they were written.
    loom_the_ring_goes_round explore_the_ring_goes_round miri_the_ring_goes_round,
    Some(2),
    || the_ring_goes_round(Built::default())
);

/// Two sessions try to reserve the last block, by compare-and-swap.
fn one_is_refused(built: Built) {
    let model = Model::new(1, 2, 0, built);
    let theirs = model.clone();
    let other = spawn(move || theirs.try_append(1).is_ok());
    let own = model.try_append(0).is_ok();
    let other = other.join().expect("other");
    assert!(own != other, "one block, one record");
    model.ends_with(1);
}

checked!(
    /// A session that is refused after its announcement withdraws it, and delays no scan.
    loom_one_is_refused explore_one_is_refused miri_one_is_refused,
    Some(2),
    || one_is_refused(Built::default())
);

/// A session ends, and another thread gets its slot.
fn a_slot_is_handed_on(built: Built) {
    let model = Model::new(4, 1, 2, built);
    let free = Arc::new(Mutex::new(None));
    let (theirs, given) = (model.clone(), free.clone());
    let first = spawn(move || {
        theirs.append(0);
        *given.lock().expect("not poisoned") = Some(0);
    });
    let theirs = model.clone();
    let second = spawn(move || {
        let slot = free.lock().expect("not poisoned").take().unwrap_or(1);
        theirs.marks.open(slot);
        theirs.append(slot);
    });
    model.lead();
    first.join().expect("first");
    second.join().expect("second");
    model.ends_with(2);
}

checked!(
    /// If a second thread uses a mark after its first owner, the mark covers the records of both
    /// threads.
    loom_a_slot_is_handed_on explore_a_slot_is_handed_on miri_a_slot_is_handed_on,
    Some(2),
    || a_slot_is_handed_on(Built::default())
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_marks explore_catches_mutants_of_the_marks,
        [
            (Mutant::RelaxedAnnounce, Detectors::Both),
            (Mutant::NoAnnounce, Detectors::Explorer),
            (Mutant::RelaxedReserve, Detectors::Explorer),
            (Mutant::ReleaseOnlyReserve, Detectors::Explorer),
            (Mutant::RelaxedFinish, Detectors::Explorer),
            (Mutant::NeverWithdrawn, Detectors::Both),
            (Mutant::MarksCutoffLast, Detectors::Both),
        ],
        |mutant| {
            let built = move || Built::with(mutant);
            match mutant {
                Mutant::RelaxedAnnounce => catches(2, move || two_appends_and_scans(built())),
                Mutant::ReleaseOnlyReserve => catches(2, move || the_ring_goes_round(built())),
                Mutant::NeverWithdrawn => catches(2, move || one_is_refused(built())),
                _ => catches(2, move || two_appenders_and_a_scan(built())),
            }
        }
    );
}
