//! Chunks under the checkers: no scan claims bytes that are neither copied nor padded, nobody fills what another fills, and what is
//! left open is always filled by whoever looks.
//!
//! One unit is one "byte"; each position has a plain cell that whoever fills it writes and a scan's reader reads.

use super::*;
use crate::sync_shim::PlainAccess;
use crate::sync_shim::checking::{checked, spawn};
use std::cell::Cell;
use std::sync::Arc;

const CELLS: usize = 8;

struct Log {
    reserved: AtomicU64,
    /// Most bytes that are added.
    adds: u64,
    cells: [(PlainAccess, Cell<bool>); CELLS],
}

struct Model {
    log: Log,
    chunks: Chunks,
}

// SAFETY: each cell is accessed as the chunks allow, which is what is being checked; the checker itself sees every access.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Log {
    fn fill(&self, at: u64) {
        let (access, cell) = &self.cells[at as usize];
        access.write();
        assert!(!cell.replace(true), "filled twice");
    }
}

impl Ground for Log {
    fn reserved(&self) -> &AtomicU64 {
        &self.reserved
    }

    fn may_add(&self, bytes: u64) -> bool {
        bytes <= self.adds
    }

    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        if start + bytes <= CELLS as u64 { Ok(()) } else { Err(Stalled) }
    }

    fn pad(&self, from: u64, to: u64) {
        assert!(from < to, "no padding of nothing");
        (from..to).for_each(|at| self.fill(at));
    }
}

impl Model {
    /// Sessions that are given chunks of two records. Positions begin at 1: 0 is nobody's.
    fn new(sessions: usize, adds: u64, built: Built) -> Arc<Self> {
        let log = Log {
            reserved: AtomicU64::new(1),
            adds,
            cells: std::array::from_fn(|at| (PlainAccess::new(), Cell::new(at == 0))),
        };
        let chunks = Chunks::new(sessions, 1, 2, CELLS as u64, built);
        for index in 0..sessions {
            chunks.open(index);
            chunks.sessions[index].since.store(2 * SHARE, Ordering::Relaxed);
            chunks.sessions[index].size.store(1, Ordering::Relaxed);
        }
        Arc::new(Model { log, chunks })
    }

    fn append(&self, session: usize, after: u64) -> u64 {
        let wanted = Wanted { bytes: 1, after, exactly: false };
        self.chunks.insert(&self.log, session, wanted, |at| self.log.fill(at)).expect("there is room")
    }

    fn scan(&self) -> Scan {
        let scan = self.chunks.scan(&self.log);
        assert!(scan.filled <= scan.cutoff);
        for (access, cell) in &self.log.cells[..scan.filled as usize] {
            access.read();
            assert!(cell.get(), "claimed before it was filled");
        }
        scan
    }

    /// With nobody appending.
    fn all_filled(&self) {
        self.scan();
        let scan = self.scan();
        assert_eq!(scan.filled, scan.cutoff, "what is left open is filled by whoever looks");
    }
}

/// Two sessions append once each, leaving chunks open, while a third thread scans.
fn two_appenders_and_a_scan(adds: u64, built: Built) {
    let model = Model::new(2, adds, built);
    let appenders = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session, 0))
    });
    model.scan();
    for appender in appenders {
        appender.join().expect("appender");
    }
    model.all_filled();
}

/// One session appends twice, into one chunk or, should a scan seal it, two.
fn a_chunk_is_sealed_under_its_owner(built: Built) {
    let model = Model::new(1, 0, built);
    let theirs = model.clone();
    let appender = spawn(move || {
        let first = theirs.append(0, 0);
        assert!(theirs.append(0, 0) > first, "records of a session are in order");
    });
    model.scan();
    model.scan();
    appender.join().expect("appender");
    model.all_filled();
}

/// Two threads scan an open chunk.
fn two_scanners(built: Built) {
    let model = Model::new(1, 0, built);
    model.append(0, 0);
    model.scan();
    let theirs = model.clone();
    let scanner = spawn(move || {
        theirs.scan();
    });
    model.scan();
    model.append(0, 0);
    scanner.join().expect("scanner");
    model.all_filled();
}

checked!(
    /// Sessions and a scan.
    loom_chunked_two_appenders_and_a_scan explore_chunked_two_appenders_and_a_scan miri_chunked_two_appenders_and_a_scan,
    Some(1),
    || two_appenders_and_a_scan(0, Built::default())
);

checked!(
    /// The same where chunks are reserved by addition.
    loom_chunked_by_addition explore_chunked_by_addition miri_chunked_by_addition,
    Some(1),
    || two_appenders_and_a_scan(2, Built::default())
);

checked!(
    /// The owner and a scanner both want the rest.
    loom_chunked_a_chunk_is_sealed_under_its_owner explore_chunked_a_chunk_is_sealed_under_its_owner miri_chunked_a_chunk_is_sealed_under_its_owner,
    Some(2),
    || a_chunk_is_sealed_under_its_owner(Built::default())
);

checked!(
    /// Two scanners seal one chunk.
    loom_chunked_two_scanners explore_chunked_two_scanners miri_chunked_two_scanners,
    Some(2),
    || two_scanners(Built::default())
);

checked!(
    /// A record that depends on another session's is put above it, wherever its own chunk lies.
    loom_chunked_order_respects_after explore_chunked_order_respects_after miri_chunked_order_respects_after,
    Some(2),
    || {
        let model = Model::new(2, 0, Built::default());
        let page = Arc::new(AtomicU64::new(0));
        let (theirs, their_page) = (model.clone(), page.clone());
        let other = spawn(move || {
            let at = theirs.append(1, 0);
            their_page.store(at, Ordering::Release);
        });
        model.append(0, 0);
        let after = page.load(Ordering::Acquire);
        assert!(model.append(0, after) > after, "the log's order respects `after`");
        other.join().expect("other");
        model.all_filled();
    }
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::sync_shim::checking::{By, catches, noticed};

    noticed!(
        loom_catches_mutants_of_the_chunks explore_catches_mutants_of_the_chunks,
        [
            (Mutant::RelaxedBusy, By::Both),
            (Mutant::RelaxedChunk, By::Both),
            (Mutant::RelaxedOpen, By::Both),
            (Mutant::RelaxedSeal, By::Both),
            (Mutant::ClaimedUnasked, By::Both),
            (Mutant::SealedUnasked, By::Both),
            (Mutant::ChunkCutoffLast, By::Both),
        ],
        |mutant| {
            catches(2, move || a_chunk_is_sealed_under_its_owner(Built::with(mutant)))
                || catches(2, move || two_scanners(Built::with(mutant)))
                || catches(2, move || two_appenders_and_a_scan(0, Built::with(mutant)))
                || catches(2, move || two_appenders_and_a_scan(2, Built::with(mutant)))
        }
    );
}
