//! Chunks under the checkers. Scans report bytes as filled only after the bytes were copied or
//! padded, no two threads fill the same bytes, and scans pad every chunk that was left open.
//!
//! The models use the reservation, admission and frontiers of production, on a ring of a few blocks
//! (`insert/small_log.rs`).

use super::*;
use crate::checked;
use crate::checking::spawn;
use crate::insert::small_log::{self, BLOCK, SmallLog};
use crate::sync_shim::{Mutex, yield_now};
use std::sync::Arc;

struct Model {
    log: SmallLog,
    chunks: Chunks,
}

impl Admitted for Slot<'_> {
    fn reserved(&self) -> &AtomicU64 {
        self.0.reserved()
    }

    fn may_add(&self, bytes: u64) -> bool {
        self.0.may_add(bytes)
    }

    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        self.0.admit(start, bytes)
    }
}

/// The log as seen by one session.
struct Slot<'a>(small_log::Slot<'a>);

impl Ground for Slot<'_> {
    fn pad(&self, from: u64, to: u64) {
        self.0.log.fill(from, to);
    }
}

impl Model {
    /// Makes a model whose sessions get chunks of two records, in a ring of 8 blocks. If `adds` is
    /// not 0, sessions reserve chunks of at most `adds` blocks by addition. If it is 0, they
    /// reserve by compare-and-swap.
    fn new(sessions: usize, adds: u64, built: Built) -> Arc<Self> {
        Self::with_ring(8, sessions, if adds > 0 { (sessions, adds) } else { (0, 1) }, built)
    }

    fn with_ring(blocks: usize, sessions: usize, adds: (usize, u64), built: Built) -> Arc<Self> {
        let chunks = Chunks::new(sessions, BLOCK, 2 * BLOCK, 8 * BLOCK, built);
        let model = Model { log: SmallLog::new(blocks, adds), chunks };
        (0..sessions).for_each(|session| model.open(session));
        Arc::new(model)
    }

    fn open(&self, session: usize) {
        self.chunks.open(session);
        self.chunks.sessions[session].since.store(2 * SHARE * BLOCK, Ordering::Relaxed);
        self.chunks.sessions[session].size.store(BLOCK, Ordering::Relaxed);
    }

    fn slot(&self, session: usize) -> Slot<'_> {
        Slot(self.log.slot(session))
    }

    /// Appends a record of one block, if it is admitted.
    fn try_append(&self, session: usize, wanted: Wanted) -> Result<u64, Stalled> {
        self.chunks.insert(&self.slot(session), session, wanted, |at| self.log.fill(at, at + BLOCK))
    }

    /// Appends a record of one block. Makes room and tries again as long as the record is refused.
    fn append_as(&self, session: usize, wanted: Wanted) -> u64 {
        loop {
            if let Ok(at) = self.try_append(session, wanted) {
                return at;
            }
            let before = self.log.frontiers.written();
            self.lead();
            if self.log.frontiers.written() == before {
                // Another thread is making room, or has a hole to fill.
                yield_now();
            }
        }
    }

    fn append(&self, session: usize, after: u64) -> u64 {
        self.append_as(session, Wanted { bytes: BLOCK, after, exactly: false })
    }

    fn look(&self) {
        self.log.look(|| self.chunks.scan(&self.slot(usize::MAX)));
    }

    fn lead(&self) -> Scan {
        self.log.lead(|| self.chunks.scan(&self.slot(usize::MAX)))
    }

    /// Asserts, while no thread appends, that two scans find everything filled.
    fn all_filled(&self) {
        self.lead();
        let scan = self.lead();
        assert_eq!(scan.filled, scan.cutoff, "what is left open is filled by the next two scans");
        assert_eq!(scan.cutoff, self.log.end());
    }
}

/// Two sessions append once each, and leave their chunks open, while this thread scans.
fn two_appenders_and_a_scan(adds: u64, built: Built) {
    let model = Model::new(2, adds, built);
    let appenders = [0, 1].map(|session| {
        let model = model.clone();
        spawn(move || model.append(session, 0))
    });
    model.lead();
    for appender in appenders {
        appender.join().expect("appender");
    }
    model.all_filled();
}

/// One session appends twice, into one chunk, or into two if a scan seals the first.
fn a_chunk_is_sealed_under_its_owner(built: Built) {
    let model = Model::new(1, 0, built);
    let theirs = model.clone();
    let appender = spawn(move || {
        let first = theirs.append(0, 0);
        assert!(theirs.append(0, 0) > first, "records of a session are in order");
    });
    model.lead();
    model.lead();
    appender.join().expect("appender");
    model.all_filled();
}

/// One session appends twice, each time into a chunk of its own.
fn two_full_chunks(built: Built) {
    let model = Model::new(1, 0, built);
    let theirs = model.clone();
    let wanted = Wanted { bytes: BLOCK, after: 0, exactly: true };
    let appender = spawn(move || {
        theirs.append_as(0, wanted);
        theirs.append_as(0, wanted);
    });
    model.lead();
    model.lead();
    appender.join().expect("appender");
    model.all_filled();
}

/// Two threads scan an open chunk.
fn two_scanners(built: Built) {
    let model = Model::new(1, 0, built);
    model.append(0, 0);
    model.look();
    let theirs = model.clone();
    let scanner = spawn(move || {
        theirs.lead();
    });
    model.look();
    model.append(0, 0);
    scanner.join().expect("scanner");
    model.all_filled();
}

checked!(
    /// Two sessions reserve chunks by compare-and-swap while a thread scans.
    loom_chunked_two_appenders_and_a_scan explore_chunked_two_appenders_and_a_scan miri_chunked_two_appenders_and_a_scan,
    Some(2),
    || two_appenders_and_a_scan(0, Built::default())
);

checked!(
    /// Two sessions reserve chunks by addition while a thread scans.
    loom_chunked_by_addition explore_chunked_by_addition miri_chunked_by_addition,
    Some(2),
    || two_appenders_and_a_scan(2, Built::default())
);

checked!(
    /// The owner and a scanner compete for the rest of a chunk.
    loom_chunked_a_chunk_is_sealed_under_its_owner explore_chunked_a_chunk_is_sealed_under_its_owner miri_chunked_a_chunk_is_sealed_under_its_owner,
    Some(2),
    || a_chunk_is_sealed_under_its_owner(Built::default())
);

checked!(
    /// A session's store of BUSY for a chunk publishes its records in the previous chunk.
    loom_chunked_two_full_chunks explore_chunked_two_full_chunks miri_chunked_two_full_chunks,
    Some(2),
    || two_full_chunks(Built::default())
);

checked!(
    /// Two scanners seal one chunk.
    loom_chunked_two_scanners explore_chunked_two_scanners miri_chunked_two_scanners,
    Some(2),
    || two_scanners(Built::default())
);

checked!(
    /// A record that depends on another session's record lies above that record, wherever its
    /// session's chunk is.
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

/// One session is admitted and then stands still while another fills the whole ring. After that the
/// first session adds its record.
fn the_ring_goes_round(built: Built) {
    let model = Model::with_ring(3, 2, (2, 1), built);
    let wanted = Wanted { bytes: BLOCK, after: 0, exactly: true };
    let theirs = model.clone();
    let slow = spawn(move || theirs.append_as(1, wanted));
    for _ in 0..3 {
        model.append_as(0, wanted);
        model.lead();
    }
    slow.join().expect("slow");
    model.all_filled();
    assert_eq!(model.log.end(), model.log.begin() + 4 * BLOCK, "four records and no padding");
}

checked!(
    /// A session reuses bytes of the ring only if it has seen that they were written.
    loom_chunked_the_ring_goes_round explore_chunked_the_ring_goes_round miri_chunked_the_ring_goes_round,
    Some(1),
    || the_ring_goes_round(Built::default())
);

checked!(
    /// Chunks are sealed, refused and reserved again while the bytes of the ring are reused.
    loom_chunked_chunks_go_round explore_chunked_chunks_go_round miri_chunked_chunks_go_round,
    Some(2),
    || {
        let model = Model::with_ring(2, 1, (0, 1), Built::default());
        let theirs = model.clone();
        let appender = spawn(move || (0..3).map(|_| theirs.append(0, 0)).collect::<Vec<_>>());
        model.lead();
        model.lead();
        let ends = appender.join().expect("appender");
        assert!(ends.is_sorted(), "records of a session are in order: {ends:?}");
        model.all_filled();
    }
);

/// Two sessions try to reserve the last block. Each asks for two blocks first.
fn one_is_refused(built: Built) {
    let model = Model::with_ring(1, 2, (0, 1), built);
    let wanted = Wanted { bytes: BLOCK, after: 0, exactly: false };
    let theirs = model.clone();
    let other = spawn(move || theirs.try_append(1, wanted).is_ok());
    let own = model.try_append(0, wanted).is_ok();
    assert!(own != other.join().expect("other"), "one block, one record");
    model.all_filled();
    assert_eq!(model.log.end(), model.log.begin() + BLOCK);
}

checked!(
    /// A session that is refused after it has stored BUSY delays no scan.
    loom_chunked_one_is_refused explore_chunked_one_is_refused miri_chunked_one_is_refused,
    Some(2),
    || one_is_refused(Built::default())
);

checked!(
    /// A session ends with its chunk open. Another thread gets the session's slot, and also the
    /// rest of the chunk unless a scan has sealed it.
    loom_chunked_a_slot_is_handed_on explore_chunked_a_slot_is_handed_on miri_chunked_a_slot_is_handed_on,
    Some(2),
    || {
        let model = Model::with_ring(8, 2, (0, 1), Built::default());
        let free = Arc::new(Mutex::new(None));
        let (theirs, given) = (model.clone(), free.clone());
        let first = spawn(move || {
            theirs.append(0, 0);
            *given.lock().expect("not poisoned") = Some(0);
        });
        let theirs = model.clone();
        let second = spawn(move || {
            let slot = free.lock().expect("not poisoned").take().unwrap_or(1);
            theirs.append(slot, 0);
        });
        model.lead();
        first.join().expect("first");
        second.join().expect("second");
        model.all_filled();
    }
);

/// The checkers notice each mutant.
#[cfg(any(loom, katydid_explore))]
mod mutants {
    use super::*;
    use crate::checking::{Detectors, catches};
    use crate::noticed;

    noticed!(
        loom_catches_mutants_of_the_chunks explore_catches_mutants_of_the_chunks,
        [
            (Mutant::RelaxedBusy, Detectors::Both),
            (Mutant::RelaxedChunk, Detectors::Both),
            (Mutant::ReleaseOnlyChunk, Detectors::Explorer),
            (Mutant::RefusedBusy, Detectors::Both),
            (Mutant::RelaxedOpen, Detectors::Both),
            (Mutant::RelaxedSeal, Detectors::Both),
            (Mutant::ClaimedUnasked, Detectors::Both),
            (Mutant::SealedUnasked, Detectors::Both),
            (Mutant::ChunkCutoffLast, Detectors::Both),
        ],
        |mutant| {
            let built = move || Built::with(mutant);
            match mutant {
                Mutant::RelaxedBusy => catches(2, move || two_full_chunks(built())),
                Mutant::ReleaseOnlyChunk => catches(1, move || the_ring_goes_round(built())),
                Mutant::RefusedBusy => catches(2, move || one_is_refused(built())),
                _ => {
                    catches(2, move || a_chunk_is_sealed_under_its_owner(built()))
                        || catches(2, move || two_scanners(built()))
                        || catches(2, move || two_appenders_and_a_scan(0, built()))
                        || catches(2, move || two_appenders_and_a_scan(2, built()))
                }
            }
        }
    );
}
