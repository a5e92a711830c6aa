//! Persist at commit under the checkers: everything below the durable frontier is persisted. One
//! thread at a time persists, and persists only memory that no other thread owns.
//!
//! Each record of this model takes one position. A position has two plain cells. The appender
//! writes the first cell, a pass reads it, and a thread that reuses the memory writes it again. A
//! pass writes the second cell, and a thread that has seen the durable frontier reads it. So the
//! checkers see the following faults as data races or as an empty cell: a pass over records that
//! are not filled, two passes at once, a pass over trimmed records, and a frontier that advances
//! too early. No thread waits: a pass that finds the turn taken does nothing.

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::insert::{Admitted, Marks, Stalled};
use crate::sync_shim::{AtomicU64, PlainAccess};
use std::cell::Cell;
use std::sync::Arc;

const CELLS: usize = 2;

struct Model {
    frontiers: Frontiers,
    marks: Marks,
    committer: Committer,
    copied: [(PlainAccess, Cell<bool>); CELLS],
    kept: [(PlainAccess, Cell<bool>); CELLS],
}

// SAFETY: threads access each cell as the frontiers allow, which is the property under test. The
// checker sees every access.
unsafe impl Sync for Model {}
// SAFETY: threads access each cell as the frontiers allow, which is the property under test. The
// checker sees every access.
unsafe impl Send for Model {}

/// One step that a mutant leaves out, or does too early.
#[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The frontier advances before the fence.
    AdvanceFirst,
    /// Threads persist without the turn.
    NoTurn,
    /// A thread reads the durable frontier before it takes the turn.
    OldFrontier,
    /// A thread persists up to the reserved frontier.
    NotFilled,
}

/// Every reservation is admitted, and may be made by an addition.
impl Admitted for Model {
    fn reserved(&self) -> &AtomicU64 {
        &self.frontiers.reserved
    }

    fn may_add(&self, _bytes: u64) -> bool {
        true
    }

    fn admit(&self, _start: u64, _bytes: u64) -> Result<(), Stalled> {
        Ok(())
    }
}

impl Model {
    fn new() -> Arc<Self> {
        let cells = || std::array::from_fn(|_| (PlainAccess::new(), Cell::new(false)));
        let model = Model {
            frontiers: Frontiers::at(Lsn::ZERO),
            marks: Marks::new(CELLS),
            committer: Committer::new(),
            copied: cells(),
            kept: cells(),
        };
        (0..CELLS).for_each(|slot| model.marks.open(slot));
        Arc::new(model)
    }

    fn append(&self, slot: usize) {
        let start = self.marks.reserve(self, slot, 1).expect("admitted");
        set(&self.copied[start as usize]);
        self.marks.finish(slot, start + 1);
    }

    fn persist(&self, from: Lsn, to: Lsn) -> bool {
        for at in from.get() as usize..to.get() as usize {
            assert!(get(&self.copied[at]), "it is not filled");
            set(&self.kept[at]);
        }
        true
    }

    fn pass(&self, mutant: Mutant) {
        let frontiers = &self.frontiers;
        frontiers.advance_filled(self.marks.scan(&frontiers.reserved).filled);
        match mutant {
            Mutant::None => self.committer.pass(frontiers, |from, to| self.persist(from, to)),
            Mutant::AdvanceFirst => self.committer.pass(frontiers, |from, to| {
                frontiers.advance_persisted(to);
                self.persist(from, to)
            }),
            Mutant::NoTurn => {
                let (from, to) = (frontiers.durable(), frontiers.filled());
                self.persist(from, to);
                frontiers.advance_persisted(to);
            }
            Mutant::OldFrontier => {
                let from = frontiers.durable();
                self.committer.pass(frontiers, |_, to| self.persist(from, to));
            }
            Mutant::NotFilled => {
                self.committer.pass(frontiers, |from, _| self.persist(from, frontiers.reserved()));
            }
        }
    }

    /// Asserts that everything below the durable frontier is persisted. Returns the frontier.
    fn check_durable(&self) -> Lsn {
        let durable = self.frontiers.durable();
        for kept in &self.kept[..durable.get() as usize] {
            assert!(get(kept), "it was not persisted");
        }
        durable
    }
}

fn set((access, cell): &(PlainAccess, Cell<bool>)) {
    access.write();
    cell.set(true);
}

fn get((access, cell): &(PlainAccess, Cell<bool>)) -> bool {
    access.read();
    cell.get()
}

fn two_commit(mutant: Mutant) {
    let model = Model::new();
    let other = model.clone();
    let other = spawn(move || {
        other.append(1);
        other.pass(mutant);
        other.check_durable();
    });
    model.append(0);
    model.pass(mutant);
    model.check_durable();
    other.join().expect("no panic");
    model.pass(Mutant::None);
    assert_eq!(model.check_durable(), Lsn::new(2), "a pass without other threads covers everything");
}

checked!(
    /// Two threads append one record each, and make it durable.
    loom_two_commit explore_two_commit miri_two_commit,
    Some(3),
    || two_commit(Mutant::None)
);

/// One thread appends and commits. Another thread commits too, and reuses the memory of the first
/// record once that record is durable.
fn one_covers_the_other(mutant: Mutant) {
    let model = Model::new();
    model.append(0);
    let other = model.clone();
    let other = spawn(move || {
        other.pass(mutant);
        if other.check_durable() > Lsn::ZERO {
            set(&other.copied[0]);
        }
    });
    model.append(1);
    model.pass(mutant);
    model.check_durable();
    other.join().expect("no panic");
}

checked!(
    /// A thread reuses memory as soon as the record in it is durable, while another thread commits.
    loom_one_covers_the_other explore_one_covers_the_other miri_one_covers_the_other,
    Some(3),
    || one_covers_the_other(Mutant::None)
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_commits explore_catches_mutants_of_commits,
        [
            (Mutant::AdvanceFirst, Detectors::Both),
            (Mutant::NoTurn, Detectors::Both),
            (Mutant::OldFrontier, Detectors::Both),
            (Mutant::NotFilled, Detectors::Both)
        ],
        |mutant| catches(3, move || two_commit(mutant)) || catches(3, move || one_covers_the_other(mutant))
    );
}
