//! The arenas under the checkers: no other thread gets the memory of a record before the record is
//! released.
//!
//! Each record takes one place, which has a plain cell. Appenders write the cell, and a trimming
//! thread reads it before it releases, so a place that is reused too early shows as a data race. A
//! thread that finds no place gives up instead of waiting.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::PlainAccess;
use std::cell::Cell;
use std::sync::Arc;

const STEP: u64 = 8;
/// Number of chunks that are reserved for the Restart records of the log's openings (rule 5 of
/// `arena.rs`).
const OWN: u64 = 1;

struct Model {
    arenas: Arenas,
    reserved: AtomicU64,
    /// Place of the first record and its end, in one word; 0 for none yet. Stored when the record
    /// is filled.
    published: AtomicU64,
    cells: [(PlainAccess, Cell<u64>); 2 + OWN as usize],
}

// SAFETY: threads access each cell as the arenas allow, which is the property under test. The
// checker sees every access.
unsafe impl Sync for Model {}
// SAFETY: threads access each cell as the arenas allow, which is the property under test. The
// checker sees every access.
unsafe impl Send for Model {}

/// One step that a mutant leaves out, or does too early.
#[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// Records are released while a thread still reads them.
    ReleaseBeforeReading,
    /// A chunk does not store the end of its records.
    ForgetUntil,
}

impl Model {
    fn new(arenas: usize, chunks: u64) -> Arc<Self> {
        let model = Model {
            arenas: Arenas::new(arenas, chunks + OWN, 1, Vec::new(), 0),
            reserved: AtomicU64::new(0),
            published: AtomicU64::new(0),
            cells: std::array::from_fn(|_| (PlainAccess::new(), Cell::new(0))),
        };
        Arc::new(model)
    }

    /// Appends a record. Returns its place and its end.
    fn append(&self, slot: usize, mutant: Mutant) -> Option<(u64, u64)> {
        let mut place = self.arenas.place(slot, 1, || 0).ok()?;
        let (access, cell) = &self.cells[place.at() as usize];
        access.write();
        let end = self.reserved.fetch_add(STEP, Ordering::SeqCst) + STEP;
        cell.set(end);
        place.keep(if mutant == Mutant::ForgetUntil { 0 } else { end });
        Some((place.at(), end))
    }

    fn append_and_publish(&self, slot: usize, mutant: Mutant) -> Option<(u64, u64)> {
        let (at, end) = self.append(slot, mutant)?;
        self.published.store(end | at, Ordering::Release);
        Some((at, end))
    }

    /// Reads the record that `published` names, and releases it.
    fn trim(&self, mutant: Mutant) {
        let published = self.published.load(Ordering::Acquire);
        let (at, end) = (published % STEP, published / STEP * STEP);
        if published == 0 {
            // A release up to position 0 frees nothing that is in use.
            return self.arenas.release(0);
        }
        if mutant == Mutant::ReleaseBeforeReading {
            self.arenas.release(end);
        }
        let (access, cell) = &self.cells[at as usize];
        access.read();
        assert_eq!(cell.get(), end, "its memory was given to somebody else");
        self.arenas.release(end);
    }
}

fn a_place_is_used_again(mutant: Mutant) {
    let model = Model::new(1, 1);
    let (first, trimmer) = (model.clone(), model.clone());
    let first = spawn(move || first.append_and_publish(0, mutant));
    let trimmer = spawn(move || trimmer.trim(mutant));
    let second = model.append(1, mutant);
    let first = first.join().expect("first");
    trimmer.join().expect("trimmer");
    assert!(first.is_some() || second.is_some(), "there is one place");
    if let (Some((_, first)), Some((_, second))) = (first, second) {
        let released = model.arenas.released.load(Ordering::SeqCst);
        assert!(released >= first.min(second), "both are in one place");
    }
    model.arenas.release(model.reserved.load(Ordering::SeqCst));
    assert_eq!(model.arenas.free(), 1, "everything is free in the end");
}

checked!(
    /// Two appenders compete for one place while a third thread releases the first appender's
    /// record.
    loom_a_place_is_used_again explore_a_place_is_used_again miri_a_place_is_used_again,
    Some(3),
    || a_place_is_used_again(Mutant::None)
);

checked!(
    /// Two arenas and two chunks: two appenders find different places.
    loom_two_appenders_have_two_places explore_two_appenders_have_two_places miri_two_appenders_have_two_places,
    Some(3),
    || {
        let model = Model::new(2, 2);
        let (other, trimmer) = (model.clone(), model.clone());
        let other = spawn(move || other.append(0, Mutant::None));
        let trimmer = spawn(move || trimmer.trim(Mutant::None));
        let mine = model.append(0, Mutant::None).expect("a place");
        let theirs = other.join().expect("no panic").expect("a place");
        trimmer.join().expect("trimmer");
        assert_ne!(mine.0, theirs.0);
        assert!(model.append(1, Mutant::None).is_none(), "both are taken");
        assert!(!model.arenas.has_place(1, 0));
    }
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_arenas explore_catches_mutants_of_the_arenas,
        [(Mutant::ReleaseBeforeReading, Detectors::Both), (Mutant::ForgetUntil, Detectors::Both)],
        |mutant| catches(3, move || a_place_is_used_again(mutant))
    );
}

#[cfg(not(any(loom, katydid_explore)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_when_all_their_records_are_gone() {
        let arenas = Arenas::new(1, 4 + OWN, 100, Vec::new(), 0);
        let mut ends = Vec::new();
        for number in 0..12 {
            let mut place = arenas.place(0, 30, || 1).expect("room");
            assert_eq!(place.at(), OWN * 100 + number % 3 * 30, "record {number}");
            place.keep((number + 1) * STEP);
            drop(place);
            ends.push((number + 1) * STEP);
            if number % 3 == 2 {
                // Release all records but the last one.
                arenas.release(ends[number as usize - 1]);
                assert_eq!(arenas.free(), 3, "record {number}");
                arenas.release(ends[number as usize]);
                assert_eq!(arenas.free(), 4, "record {number}");
            }
        }
    }

    #[test]
    fn free_chunks_are_kept_and_room_elsewhere_is_found() {
        let arenas = Arenas::new(2, 4 + OWN, 100, Vec::new(), 0);
        let put = |slot, bytes, kept| {
            let mut place = arenas.place(slot, bytes, || kept).ok()?;
            place.keep(STEP);
            Some(place.at())
        };
        let (first, second) = (put(0, 60, 2).expect("room"), put(1, 90, 2).expect("room"));
        assert_eq!((put(0, 60, 2), put(1, 60, 2)), (None, None), "two are kept");
        assert_eq!(put(1, 40, 2), Some(first + 60), "what is left in the other's chunk");
        assert!(!arenas.has_place(20, 2) && arenas.has_place(10, 2) && arenas.has_place(20, 1));
        assert_eq!(put(0, 10, 2), Some(second + 90));
        // A place that is not kept is free again.
        let place = arenas.place(0, 50, || 1).expect("a kept one").at();
        assert_eq!(put(0, 50, 1), Some(place));
        assert_eq!(arenas.free(), 1);
    }

    #[test]
    fn what_was_found_is_taken_and_goes_on_being_filled() {
        let open = |chunk, used| Open { chunk, used, until: 80 };
        let arenas = Arenas::new(1, 5, 100, vec![open(2, 96), open(0, 40), open(3, 90)], 16);
        assert_eq!((arenas.free(), arenas.chunks()), (1, 4));
        let mut place = arenas.place(0, 50, || 0).expect("room");
        assert_eq!(place.at(), 40, "the one with most room");
        place.keep(88);
        drop(place);
        assert_eq!(arenas.place_own(48, 96), Ok(100), "a free one");
        arenas.release(80);
        assert_eq!(arenas.free(), 3);
        arenas.release(88);
        assert_eq!(arenas.free(), 4);
        assert_eq!(arenas.place_own(48, 104), Ok(148), "its first record is not gone yet");
        assert_eq!(arenas.place_own(48, 112), Err(Full));
        arenas.release(104);
        assert_eq!(arenas.place_own(48, 112), Ok(100));
    }

    #[test]
    fn the_openings_own_chunk_stays_theirs() {
        let open = |chunk, used| Open { chunk, used, until: 80 };
        let arenas = Arenas::new(1, 3, 100, vec![open(0, 70), open(1, 30), open(2, 60)], 16);
        assert_eq!(arenas.free(), 0);
        assert!(!arenas.has_place(50, 0) && arenas.has_place(40, 0), "room is in theirs only");
        assert_eq!(arenas.place_own(48, 88), Ok(130));
    }
}
