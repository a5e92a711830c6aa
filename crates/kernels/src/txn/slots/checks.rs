//! The slots under the explorer: tests of invariants 2 and 3, a reader's bound and the horizon.
//!
//! A version is a word that its writer sets between `may_install` and `installed`. The clock ticks
//! with each reading. Each mutant leaves one step out, or takes it too early; the explorer must
//! notice each.

use super::super::clock::{HandClock, Source};
use super::super::testing::FakeLog;
use super::*;
use crate::explore::{Explorer, catches, spawn};
use std::sync::Arc;

/// The slot of the reader. Writers have the slots before it.
const READER: usize = 2;
const SLOTS: usize = 3;

/// One step to leave out, or to take at the wrong time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// A writer reads the clock before it sets its slot to `Reading`.
    ClockFirst,
    /// A writer puts versions in place although it may have been overtaken.
    InstallsUnasked,
    /// A writer announces `Installed` before its version is in place.
    InstalledEarly,
    /// A reader looks at the slots before it reads the clock.
    ScansFirst,
    /// A reader withdraws its `reads_at` while it still reads.
    ReadsUnsaid,
    /// The horizon ignores the readers.
    ForgetsReaders,
}

struct Model {
    slots: Slots,
    clock: Clock,
    /// The version of each writer, by its timestamp.
    versions: [AtomicU64; READER],
    /// The greatest timestamp that was acknowledged to its writer.
    acknowledged: AtomicU64,
    /// Versions below this timestamp were removed.
    removed: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        let slots = Slots::new(SLOTS);
        slots.used.store(SLOTS, SeqCst);
        let zero = || AtomicU64::new(0);
        let clock = Clock::new(Source::Hand(HandClock::new(1)));
        Arc::new(Model { slots, clock, versions: [zero(), zero()], acknowledged: zero(), removed: zero() })
    }

    fn begin_write(&self, slot: usize, mutant: Mutant) -> Timestamp {
        if mutant != Mutant::ClockFirst {
            return self.slots.begin_write(slot, &self.clock);
        }
        let own = &self.slots.slots[slot];
        let tick = self.clock.after(own.last.load(SeqCst));
        own.last.store(tick, SeqCst);
        own.word.store(word(tick, Phase::Reading), SeqCst);
        Timestamp::of(tick, slot)
    }

    fn write(&self, slot: usize, mutant: Mutant) {
        let mut timestamp = self.begin_write(slot, mutant);
        while !self.slots.may_install(timestamp) {
            if mutant == Mutant::InstallsUnasked {
                break;
            }
            timestamp = self.slots.renew(slot, &self.clock);
        }
        if mutant == Mutant::InstalledEarly {
            self.slots.installed(timestamp);
        }
        self.versions[slot].store(timestamp.get(), SeqCst);
        self.slots.installed(timestamp);
        self.slots.acknowledge(timestamp);
        self.acknowledged.fetch_max(timestamp.get(), SeqCst);
        self.slots.give_back(slot);
    }

    fn begin_read(&self, mutant: Mutant) -> Timestamp {
        let log = FakeLog::default();
        if mutant != Mutant::ScansFirst {
            let begun = self.slots.begin_read(READER, &self.clock, Duration::MAX, &log);
            return begun.expect("writers come to an end").1;
        }
        let acknowledged = self.slots.acknowledged();
        let mut bound = Timestamp::MAX;
        for at in 0..READER {
            loop {
                match self.slots.meet(at, acknowledged, bound) {
                    Meeting::Passed => break,
                    Meeting::Below(lower) => bound = lower,
                    Meeting::Again => yield_now(),
                }
            }
        }
        bound.min(Timestamp::of(self.clock.after(acknowledged.tick()), 0))
    }

    /// Returns the versions below `bound`.
    fn below(&self, bound: Timestamp) -> [u64; READER] {
        let versions = self.versions.each_ref().map(|version| version.load(SeqCst));
        versions.map(|version| if version < bound.get() { version } else { 0 })
    }

    /// Reads. Returns the bound, and the versions below it.
    fn read(&self, mutant: Mutant) -> (Timestamp, [u64; READER]) {
        let acknowledged = self.acknowledged.load(SeqCst);
        let bound = self.begin_read(mutant);
        assert!(bound.get() > acknowledged, "what was acknowledged before it began lies above its bound");
        (bound, self.below(bound))
    }

    /// Removes versions as the garbage collector does.
    fn remove(&self, mutant: Mutant) {
        let horizon = match mutant {
            Mutant::ForgetsReaders => self.slots.acknowledged().next(),
            _ => self.slots.horizon(),
        };
        self.removed.fetch_max(horizon.get(), SeqCst);
    }

    /// Reads while a garbage collector runs, and asserts that no version that the reader needs is
    /// removed.
    fn read_what_is_kept(&self, mutant: Mutant) {
        let bound = self.begin_read(mutant);
        if mutant == Mutant::ReadsUnsaid {
            self.slots.read_all(READER);
        }
        for _ in 0..2 {
            assert!(self.removed.load(SeqCst) <= bound.get(), "a version that it needs was removed");
        }
        self.slots.give_back(READER);
    }
}

/// Writers and a reader: no version below the reader's bound appears after it began.
fn consistent(writers: usize, mutant: Mutant) {
    let model = Model::new();
    let threads: Vec<_> = (0..writers)
        .map(|slot| {
            let model = model.clone();
            spawn(move || model.write(slot, mutant))
        })
        .collect();
    let (bound, seen) = model.read(mutant);
    threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
    assert_eq!(model.below(bound), seen, "something has come into being below a reader's bound");
    assert!(model.versions.iter().take(writers).all(|version| version.load(SeqCst) > 0));
}

/// A writer (twice), a collector and a reader: versions that the reader may need are kept.
fn kept(mutant: Mutant) {
    let model = Model::new();
    let (writer, collector) = (model.clone(), model.clone());
    let threads = [
        spawn(move || {
            writer.write(0, Mutant::None);
            writer.write(0, Mutant::None);
        }),
        spawn(move || {
            collector.remove(mutant);
            collector.remove(mutant);
        }),
    ];
    model.read_what_is_kept(mutant);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn explore(preemptions: Option<u32>, body: impl Fn() + Send + Sync + 'static) {
    let explorer = Explorer { preemptions, ..Default::default() };
    match explorer.check(body) {
        Ok(report) => {
            println!("{report:?}");
            assert!(report.complete, "not everything was tried");
        }
        Err(failure) => panic!("{}\npath {:?}\n{}", failure.message, failure.path, failure.trace.join("\n")),
    }
}

#[test]
fn explore_below_a_readers_bound_nothing_changes_beside_one_writer() {
    explore(Some(4), || consistent(1, Mutant::None));
}

#[test]
fn explore_below_a_readers_bound_nothing_changes_beside_two_writers() {
    explore(Some(2), || consistent(2, Mutant::None));
}

#[test]
fn explore_no_version_that_a_reader_needs_is_removed() {
    explore(Some(2), || kept(Mutant::None));
}

#[test]
fn explore_every_mutant_of_the_slots_is_noticed() {
    let noticed = |mutant, body: fn(Mutant)| {
        let explorer = Explorer { preemptions: Some(2), ..Default::default() };
        assert!(catches(&explorer, move || body(mutant)), "{mutant:?} was not noticed");
    };
    for mutant in [Mutant::ClockFirst, Mutant::ScansFirst] {
        noticed(mutant, |mutant| consistent(1, mutant));
    }
    // These mutants need two writers, because a reader overtakes or waits for a writer only if a
    // greater timestamp was acknowledged.
    for mutant in [Mutant::InstallsUnasked, Mutant::InstalledEarly] {
        noticed(mutant, |mutant| consistent(2, mutant));
    }
    for mutant in [Mutant::ReadsUnsaid, Mutant::ForgetsReaders] {
        noticed(mutant, kept);
    }
}
