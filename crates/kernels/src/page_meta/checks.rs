//! `PageMeta` under the explorer: a checkpoint reads it while the page is changed and written back.
//!
//! Atomics of the shim stand for the page's latch, the log's frontier and the device. Each mutant
//! takes one step too early; the explorer must notice each.

use super::*;
use crate::checking::{catches, check, spawn};
use crate::sync_shim::{AtomicBool, yield_now};
use std::sync::Arc;

/// One step at the wrong time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The flusher marks the page as clean before it marks it as being written back.
    CleanFirst,
    /// The writer appends its record before it marks the page as dirty.
    AppendFirst,
    /// The flusher calls `finish_flush` before the page is in place.
    InPlaceEarly,
    /// A checkpoint loads `flushing` before `rec_lsn`.
    FlushingFirst,
}

struct Model {
    meta: PageMeta,
    latched: AtomicBool,
    /// The log's reserved frontier. Each record takes one LSN.
    reserved: AtomicU64,
    /// LSN of the newest change of the page in memory; `place` is the LSN of the newest change in
    /// the page on the device.
    page: AtomicU64,
    place: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Model {
            meta: PageMeta::new(),
            latched: AtomicBool::new(false),
            reserved: AtomicU64::new(10),
            page: zero(),
            place: zero(),
        })
    }

    fn latch(&self) {
        while self.latched.swap(true, Ordering::AcqRel) {
            yield_now();
        }
    }

    fn unlatch(&self) {
        self.latched.store(false, Ordering::Release);
    }

    fn change(&self, mutant: Mutant) {
        self.latch();
        let floor = || Lsn::new(self.reserved.load(Ordering::Acquire));
        let lsn = if mutant == Mutant::AppendFirst {
            let lsn = self.reserved.fetch_add(1, Ordering::AcqRel);
            self.meta.begin_change(floor);
            lsn
        } else {
            self.meta.begin_change(floor);
            self.reserved.fetch_add(1, Ordering::AcqRel)
        };
        self.page.store(lsn, Ordering::Relaxed);
        self.meta.lower_recovery_lsn(Lsn::new(lsn));
        self.unlatch();
    }

    fn flush(&self, mutant: Mutant) {
        // The flusher skips a page that is latched.
        if self.latched.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_dirty = self.meta.recovery_lsn().is_some();
        let copy = self.page.load(Ordering::Relaxed);
        if is_dirty {
            if mutant == Mutant::CleanFirst {
                let rec_lsn = self.meta.rec_lsn.swap(NONE, Ordering::AcqRel);
                self.meta.flushing.fetch_min(rec_lsn, Ordering::AcqRel);
            } else {
                self.meta.begin_flush(|| ());
            }
        }
        self.unlatch();
        if !is_dirty {
            return;
        }
        if mutant == Mutant::InPlaceEarly {
            self.meta.finish_flush();
        }
        self.place.store(copy, Ordering::Release);
        self.meta.finish_flush();
    }

    /// Takes a checkpoint. Returns the position from which the page is redone, and the newest
    /// change in place. A checkpoint relies on this: a change below its begin record is in place,
    /// or the page's recovery LSN is at or below that change.
    fn checkpoint(&self, mutant: Mutant) -> (u64, u64) {
        let begin = self.reserved.fetch_add(1, Ordering::AcqRel);
        let dirty = if mutant == Mutant::FlushingFirst {
            let flushing = self.meta.flushing.load(Ordering::Acquire);
            let lowest = flushing.min(self.meta.rec_lsn.load(Ordering::Acquire));
            (lowest != NONE).then(|| Lsn::new(lowest))
        } else {
            self.meta.recovery_lsn()
        };
        (dirty.map_or(begin, Lsn::get).min(begin), self.place.load(Ordering::Acquire))
    }

    /// Checks the result of a checkpoint, `from` and `place`, after all threads have ended.
    fn check(&self, (from, place): (u64, u64)) {
        let newest = self.page.load(Ordering::Relaxed);
        assert!(
            newest >= from || newest <= place,
            "change {newest} is lost: in place is {place}, redone from {from}"
        );
    }
}

/// Runs a change, a write-back and a checkpoint at the same time.
fn captured(mutant: Mutant) {
    let model = Model::new();
    let (writer, flusher) = (model.clone(), model.clone());
    let threads = [spawn(move || writer.change(mutant)), spawn(move || flusher.flush(mutant))];
    let found = model.checkpoint(mutant);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    model.check(found);
}

#[test]
fn explore_a_checkpoint_misses_no_dirty_page() {
    check(Some(2), || captured(Mutant::None));
}

#[test]
fn explore_every_mutant_of_a_pages_meta_is_noticed() {
    for mutant in [Mutant::CleanFirst, Mutant::AppendFirst, Mutant::InPlaceEarly, Mutant::FlushingFirst] {
        assert!(catches(2, move || captured(mutant)), "{mutant:?} was not noticed");
    }
}
