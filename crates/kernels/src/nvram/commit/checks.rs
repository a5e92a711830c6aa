//! Persist at commit under the checkers: what the durable frontier says is persisted; one thread at
//! a time persists it, and only what no other thread owns yet.
//!
//! One unit is one "byte". Each position has two plain cells. The first is written by its appender,
//! read by a pass, and written by a thread that uses the memory again. The second is written by a
//! pass, and read by a thread that was told. So a pass over what is not filled, two passes at once,
//! a pass over what was trimmed, and a frontier that tells too early are data races, or a cell
//! found empty. No thread waits: a pass that finds the turn taken is given up.

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

// SAFETY: each cell is accessed as the frontiers allow, which is what is being checked; the checker
// itself sees every access.
unsafe impl Sync for Model {}
// SAFETY: each cell is accessed as the frontiers allow, which is what is being checked; the checker
// itself sees every access.
unsafe impl Send for Model {}

/// One step to leave out.
#[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The frontier moves before the fence.
    TellFirst,
    /// Threads take no turns.
    NoTurn,
    /// A thread reads what is durable before it takes the turn.
    OldFrontier,
    /// It persists what is reserved.
    NotFilled,
}

/// Everything is admitted, and added.
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
            Mutant::TellFirst => self.committer.pass(frontiers, |from, to| {
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

    /// A thread that was told that something is durable finds it so. The memory of the first record
    /// may be used again then.
    fn told(&self) -> Lsn {
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
        other.told();
    });
    model.append(0);
    model.pass(mutant);
    model.told();
    other.join().expect("no panic");
    model.pass(Mutant::None);
    assert_eq!(model.told(), Lsn::new(2), "a pass that nobody is in the way of covers everything");
}

checked!(
    /// Two threads append, and make durable what is there.
    loom_two_commit explore_two_commit miri_two_commit,
    Some(3),
    || two_commit(Mutant::None)
);

/// One appends and commits; another commits too, and uses the memory of what is durable again.
fn one_covers_the_other(mutant: Mutant) {
    let model = Model::new();
    model.append(0);
    let other = model.clone();
    let other = spawn(move || {
        other.pass(mutant);
        if other.told() > Lsn::ZERO {
            set(&other.copied[0]);
        }
    });
    model.append(1);
    model.pass(mutant);
    model.told();
    other.join().expect("no panic");
}

checked!(
    /// Memory is used again as soon as it is durable, while another thread commits.
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
            (Mutant::TellFirst, Detectors::Both),
            (Mutant::NoTurn, Detectors::Both),
            (Mutant::OldFrontier, Detectors::Both),
            (Mutant::NotFilled, Detectors::Both)
        ],
        |mutant| catches(3, move || two_commit(mutant)) || catches(3, move || one_covers_the_other(mutant))
    );
}
