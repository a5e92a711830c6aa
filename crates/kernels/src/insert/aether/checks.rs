//! The designs under the checkers. The bytes of two threads never overlap, `filled` passes bytes in
//! order and after they were copied, no thread waits for ever, and a refused group leaves no state
//! behind.
//!
//! Each record of these models has one byte, and each position has a plain cell. The owner of the
//! position writes the cell, and a thread that has read `filled` reads the cells below it.

use super::super::mutants::Built;
use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::sync_shim::{AtomicU64, Ordering, PlainAccess};
use std::cell::Cell;
use std::sync::Arc;

const CELLS: usize = 4;

struct Log {
    reserved: AtomicU64,
    filled: AtomicU64,
    limit: u64,
    /// Written by each thread that advances `filled`. Two unordered advances are a data race, which
    /// the checkers report.
    turn: PlainAccess,
    cells: [(PlainAccess, Cell<bool>); CELLS],
}

impl Log {
    fn new(limit: u64) -> Self {
        Log {
            reserved: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            limit,
            turn: PlainAccess::new(),
            cells: std::array::from_fn(|_| (PlainAccess::new(), Cell::new(false))),
        }
    }

    fn fill(&self, at: u64) {
        let (access, cell) = &self.cells[at as usize];
        access.write();
        assert!(!cell.replace(true), "two own one position");
    }

    fn look(&self) -> u64 {
        let filled = self.filled.load(Ordering::Acquire);
        for (access, cell) in &self.cells[..filled as usize] {
            access.read();
            assert!(cell.get(), "claimed before it was filled");
        }
        filled
    }
}

impl BufferAccess for Log {
    fn reserve(&self, bytes: u64) -> Result<u64, Stalled> {
        let start = self.reserved.load(Ordering::SeqCst);
        if start + bytes > self.limit {
            return Err(Stalled);
        }
        self.reserved.store(start + bytes, Ordering::SeqCst);
        Ok(start)
    }

    fn filled(&self) -> u64 {
        self.filled.load(Ordering::Acquire)
    }

    fn advance_filled(&self, to: u64) {
        self.turn.write();
        assert!(self.filled.load(Ordering::Relaxed) < to, "filled only grows");
        self.filled.store(to, Ordering::Release);
    }
}

struct Model<O> {
    log: Log,
    aether: Aether<O>,
}

// SAFETY: threads access each cell as the design allows, which is the property under test. The
// checker sees every access.
unsafe impl<O: Sync> Sync for Model<O> {}
// SAFETY: threads access each cell as the design allows, which is the property under test. The
// checker sees every access.
unsafe impl<O: Send> Send for Model<O> {}

impl<O: Order> Model<O> {
    fn new(limit: u64, slots: Option<Slots>, order: O, built: Built) -> Arc<Self> {
        Arc::new(Model { log: Log::new(limit), aether: Aether::new(slots, order, built) })
    }

    fn append(&self, session: usize) -> bool {
        let mut filled = 0;
        let outcome = self.aether.reserve_and_fill(&self.log, session, 1, true, |at| {
            self.log.fill(at);
            filled += 1;
        });
        assert_eq!(filled, usize::from(outcome.is_ok()), "filled once, if at all");
        outcome.is_ok()
    }
}

/// Returns an array of one slot, with one spare slot, which is the minimum.
fn slots(built: Built) -> Option<Slots> {
    Some(Slots::new(1, 2, 2, built))
}

/// Two threads append once each while this thread reads `filled` and the cells below it.
fn two_append<O: Order + Send + Sync + 'static>(model: &Arc<Model<O>>) {
    let threads = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session))
    });
    model.log.look();
    let done = threads.map(|thread| thread.join().expect("appender"));
    assert_eq!(done, [true; 2]);
    assert_eq!(model.log.look(), 2, "everything is filled in the end");
}

/// Two threads find the latch taken, and form one group or two. `expected` appends succeed.
fn a_group_forms<O: Order + Send + Sync + 'static>(model: &Arc<Model<O>>, expected: u64) {
    model.aether.latch.take();
    let threads = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session))
    });
    model.aether.latch.give();
    // Check the cells after the first join too: the second join would hide a missing release,
    // because a join makes all stores of the joined thread visible.
    let done = threads.map(|thread| {
        let done = thread.join().expect("appender");
        model.log.look();
        done
    });
    assert_eq!(done.iter().filter(|done| **done).count() as u64, expected);
    assert_eq!(model.log.look(), expected, "everything is filled in the end");
    // A later append succeeds: the slots and the order can be used again.
    if expected < model.log.limit {
        assert!(model.append(0));
        assert_eq!(model.log.look(), expected + 1);
    }
}

/// A slow owner holds the first of two nodes while another thread takes the second and then needs a
/// third. That thread must not hold the latch while it waits, so that a thread that needs no node
/// gets the latch.
fn a_wait_for_a_node_leaves_the_latch(model: &Arc<Model<ReleaseQueue>>) {
    model.aether.latch.take();
    let slow = model.aether.reserve(&model.log, 1).expect("there is room");
    let other = {
        let model = model.clone();
        spawn(move || model.append(0) && model.append(1))
    };
    model.aether.latch.take();
    model.aether.latch.give();
    model.log.fill(slow.start);
    model.aether.order.release(&model.log, &model.aether.latch, slow);
    assert!(other.join().expect("appender"));
    assert_eq!(model.log.look(), 3, "everything is filled in the end");
}

/// Three threads append; this thread is one of them.
fn three_append<O: Order + Send + Sync + 'static>(model: &Arc<Model<O>>) {
    let threads = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session))
    });
    assert!(model.append(2));
    for thread in threads {
        assert!(thread.join().expect("appender"));
    }
    assert_eq!(model.log.look(), 3, "everything is filled in the end");
}

fn consolidated(limit: u64, built: Built) -> Arc<Model<UnderLatch>> {
    Model::new(limit, slots(built), UnderLatch, built)
}

fn decoupled(built: Built) -> Arc<Model<InTurn>> {
    Model::new(3, None, InTurn { built }, built)
}

fn hybrid(limit: u64, built: Built) -> Arc<Model<InTurn>> {
    Model::new(limit, slots(built), InTurn { built }, built)
}

/// A model of CDME. If `keeps` is 1, no thread delegates.
fn delegated(keeps: u64, built: Built) -> Arc<Model<ReleaseQueue>> {
    Model::new(3, None, ReleaseQueue::new(2, keeps, built), built)
}

const SOUND: fn() -> Built = Built::default;

checked!(
    /// C: a leader reserves the group's total, and the last member releases it.
    loom_consolidated_a_group_forms explore_consolidated_a_group_forms miri_consolidated_a_group_forms,
    Some(2),
    || a_group_forms(&consolidated(3, SOUND()), 2)
);

checked!(
    /// C: a group of two is refused as a whole, because there is room for one record only. Each
    /// member then tries alone: one gets the room, and the other is refused.
    loom_consolidated_a_group_is_refused explore_consolidated_a_group_is_refused miri_consolidated_a_group_is_refused,
    Some(1),
    || a_group_forms(&consolidated(1, SOUND()), 1)
);

checked!(
    /// C: the latch is free at first.
    loom_consolidated_two_append explore_consolidated_two_append miri_consolidated_two_append,
    Some(2),
    || two_append(&consolidated(3, SOUND()))
);

checked!(
    /// C: a group has room for one thread. The second thread tries until the full slot is replaced.
    loom_consolidated_a_full_group_is_passed explore_consolidated_a_full_group_is_passed miri_consolidated_a_full_group_is_passed,
    Some(1),
    || {
        let slots = Some(Slots::new(1, 2, 1, SOUND()));
        a_group_forms(&Model::new(3, slots, UnderLatch, SOUND()), 2);
    }
);

checked!(
    /// D: copies overlap, and are released in order.
    loom_decoupled_two_append explore_decoupled_two_append miri_decoupled_two_append,
    Some(2),
    || two_append(&decoupled(SOUND()))
);

checked!(
    /// CD: groups overlap, and slots are used again.
    loom_hybrid_a_group_forms explore_hybrid_a_group_forms miri_hybrid_a_group_forms,
    Some(2),
    || a_group_forms(&hybrid(3, SOUND()), 2)
);

checked!(
    /// CDME: an owner delegates its range to the previous owner, or does not.
    loom_delegated_two_append explore_delegated_two_append miri_delegated_two_append,
    Some(2),
    || two_append(&delegated(u64::MAX, SOUND()))
);

checked!(
    /// CDME: owners delegate in a queue of two nodes, whose nodes are used again.
    loom_delegated_three_append explore_delegated_three_append miri_delegated_three_append,
    Some(1),
    || three_append(&delegated(u64::MAX, SOUND()))
);

checked!(
    /// CDME: a thread waits for a node of the release queue.
    loom_delegated_waits_without_the_latch explore_delegated_waits_without_the_latch miri_delegated_waits_without_the_latch,
    Some(2),
    || a_wait_for_a_node_leaves_the_latch(&delegated(u64::MAX, SOUND()))
);

checked!(
    /// CDME: owners that do not delegate wait for their turn.
    loom_delegated_keepers_wait explore_delegated_keepers_wait miri_delegated_keepers_wait,
    Some(2),
    || two_append(&delegated(1, SOUND()))
);

checked!(
    /// CDME: the last member of a group delegates the group's range.
    loom_delegated_a_group_forms explore_delegated_a_group_forms miri_delegated_a_group_forms,
    Some(1),
    || {
        let queue = ReleaseQueue::new(2, u64::MAX, SOUND());
        a_group_forms(&Model::new(3, slots(SOUND()), queue, SOUND()), 2);
    }
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::super::super::mutants::Mutant;
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_latch_and_the_orders explore_catches_mutants_of_the_latch_and_the_orders,
        [
            (Mutant::RelaxedLatch, Detectors::Both),
            (Mutant::ReleasedOutOfTurn, Detectors::Both),
            (Mutant::RelaxedDelegation, Detectors::Explorer),
            (Mutant::DelegatedUnasked, Detectors::Both),
            (Mutant::GrantedEarly, Detectors::Both),
            (Mutant::WaitedUnderLatch, Detectors::Both),
        ],
        |mutant| match mutant {
            Mutant::RelaxedLatch => catches(2, move || two_append(&consolidated(3, Built::with(mutant)))),
            Mutant::WaitedUnderLatch => catches(2, move || {
                a_wait_for_a_node_leaves_the_latch(&delegated(u64::MAX, Built::with(mutant)));
            }),
            Mutant::ReleasedOutOfTurn => catches(2, move || two_append(&decoupled(Built::with(mutant)))),
            _ => catches(2, move || two_append(&delegated(u64::MAX, Built::with(mutant)))),
        }
    );

    noticed!(
        loom_catches_mutants_of_the_slots explore_catches_mutants_of_the_slots,
        [
            (Mutant::RelaxedNotify, Detectors::Both),
            (Mutant::RelaxedLeave, Detectors::Both),
            (Mutant::SlotFreedEarly, Detectors::Both),
            (Mutant::CloseInTwoSteps, Detectors::Both),
        ],
        |mutant| {
            catches(2, move || a_group_forms(&consolidated(3, Built::with(mutant)), 2))
                && catches(2, move || a_group_forms(&hybrid(3, Built::with(mutant)), 2))
        }
    );
}
