//! An inserter and a ring without a log, for measuring the speed of inserters.
//!
//! Like the inserters, this file is compiled twice: for real threads (the bench command
//! `log-insert`), and for virtual threads (`crates/manycore`).
//!
//! There is no device, so writes take no time. A thread is refused if the ring is full or the
//! run-ahead limit is reached. Such a thread makes room: it calls the inserter's `scan`, and
//! declares the filled bytes written and durable, as the log's leaders do. No separate thread makes
//! room, except for designs with a tracker: for these one more thread may run [`Rig::track`], as in
//! a log.

use crate::frontier::Frontiers;
use crate::insert::{
    self, Admission, AppendClass, BufferSizes, Inserter, InserterDesign, LogBuffer, PhysicalRecord, Stalled,
};
use crate::lsn::Lsn;
use crate::record::{
    Chain, HEADER_BYTES, HeaderFields, Kind, Layout, Part, PreparedRecord, prepare_header, split,
};
use crate::ring::{RecordMemory, Ring};
use crate::sync_shim::{AtomicBool, Ordering, pause};
use crossbeam_utils::CachePadded;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the head of this file.
#[derive(Debug)]
pub struct Rig {
    buffer: LogBuffer,
    inserter: Box<dyn Inserter>,
    physical_bytes_max: usize,
    /// True while a thread makes room.
    draining: CachePadded<AtomicBool>,
    /// Sessions in use. This leaf latch is taken only before and after measuring.
    used: Mutex<Box<[bool]>>,
}

/// A session of a [`Rig`]. One thread at a time may use a session, because two would overwrite each
/// other's records.
#[derive(Debug)]
pub struct RigSession<'a> {
    rig: &'a Rig,
    number: usize,
}

impl Rig {
    /// Makes a rig for sessions `0..sessions`, with a log buffer of these sizes.
    pub fn new(design: &InserterDesign, sizes: &BufferSizes, sessions: usize) -> Rig {
        let rig = Rig {
            buffer: LogBuffer {
                frontiers: Frontiers::at(Lsn::ZERO),
                memory: RecordMemory::Ring(Ring::new(sizes.ring_bytes)),
                admission: Admission::new(sizes),
            },
            inserter: design.inserter(sizes, 1, Lsn::ZERO),
            physical_bytes_max: sizes.physical_bytes_max(),
            draining: CachePadded::new(AtomicBool::new(false)),
            used: Mutex::new(vec![false; sessions].into()),
        };
        (0..sessions).for_each(|session| rig.inserter.open(session));
        rig.buffer.admission.refresh(&rig.buffer.frontiers, Lsn::LIMIT);
        rig
    }

    /// Returns the session with this number. The session is in use until the value is dropped.
    ///
    /// # Panics
    /// Panics if there is no session with this number, or it is in use.
    pub fn session(&self, number: usize) -> RigSession<'_> {
        let used = self.used().get_mut(number).map(|used| std::mem::replace(used, true));
        assert_eq!(used, Some(false), "session {number} is there and not in use");
        RigSession { rig: self, number }
    }

    fn used(&self) -> MutexGuard<'_, Box<[bool]>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes reserved so far, headers and paddings included.
    pub fn bytes(&self) -> u64 {
        self.buffer.frontiers.reserved().get()
    }

    /// Scans, and returns the filled frontier.
    pub fn filled(&self) -> u64 {
        self.inserter.scan(&self.buffer).filled
    }

    /// Bytes by which crawling and hopping have advanced the filled frontier. Both numbers are 0 in
    /// designs other than `grasshopper`.
    pub fn travelled(&self) -> (u64, u64) {
        let effort = self.inserter.effort();
        (effort.crawled, effort.hopped)
    }

    /// Returns whether this design has work for a thread that calls [`Rig::track`].
    pub fn tracks(&self) -> bool {
        self.inserter.tracker().is_some()
    }

    /// Runs the tracker until [`Rig::stop_tracking`]: scans whenever many bytes were inserted, and
    /// makes room.
    pub fn track(&self) {
        insert::track(&*self.inserter, &self.buffer, || {
            self.drain_alone();
        });
    }

    /// Ends [`Rig::track`], for good.
    pub fn stop_tracking(&self) {
        if let Some(tracker) = self.inserter.tracker() {
            tracker.stop();
        }
    }

    fn fields(&self) -> HeaderFields {
        let durable = self.buffer.frontiers.durable();
        HeaderFields {
            incarnation: 1,
            kind: Kind::USER,
            txn: 1,
            chain: Chain::NONE,
            durable,
            layout: Layout::InLine,
        }
    }

    /// Inserts one physical record. Private, because one thread at a time may call it for each
    /// session; [`RigSession`] guarantees that.
    fn insert_piece(&self, session: usize, prepared: &PreparedRecord, payload: &[&[u8]]) -> Lsn {
        let mut record = PhysicalRecord { prepared, payload, after: Lsn::ZERO };
        let mut step = 0;
        loop {
            // SAFETY: the session was opened, and its only `RigSession` is borrowed for the call.
            // The buffer belongs to this rig, and has the sizes with which the inserter was made.
            // Payloads that are too large for one physical record are split.
            let inserted =
                unsafe { self.inserter.insert(&self.buffer, session, &mut record, AppendClass::Normal) };
            match inserted {
                Ok(start) => return start,
                Err(Stalled) => self.make_room(&mut step),
            }
        }
    }

    #[cold]
    fn make_room(&self, step: &mut u32) {
        if self.drain_alone() {
            return;
        }
        // Another thread is making room, or has a hole to fill.
        pause(*step);
        *step += 1;
    }

    /// Makes room, unless another thread is doing so. Returns whether there is more room than
    /// before.
    fn drain_alone(&self) -> bool {
        if self.draining.load(Ordering::Relaxed) || self.draining.swap(true, Ordering::Acquire) {
            return false;
        }
        let moved = self.drain();
        self.draining.store(false, Ordering::Release);
        moved
    }

    fn drain(&self) -> bool {
        let frontiers = &self.buffer.frontiers;
        let filled = Lsn::new(self.inserter.scan(&self.buffer).filled);
        let moved = filled > frontiers.written();
        if moved {
            frontiers.advance_written(filled);
            frontiers.advance_durable(filled);
            self.buffer.admission.refresh(frontiers, Lsn::LIMIT);
        }
        moved
    }
}

impl RigSession<'_> {
    /// Inserts a record with this payload. A payload that does not fit into one physical record is
    /// split into fragments, as in the log.
    pub fn insert(&mut self, payload: &[u8]) {
        let (rig, number) = (self.rig, self.number);
        if HEADER_BYTES + payload.len() <= rig.physical_bytes_max {
            let prepared = prepare_header(&rig.fields(), Part::Whole, None, std::iter::once(payload));
            rig.insert_piece(number, &prepared, &[payload]);
            return;
        }
        let parts = [payload];
        let fragments = split(&parts, rig.physical_bytes_max).expect("a payload within the log's limit");
        let mut previous = Lsn::ZERO;
        for fragment in fragments {
            let slices: Vec<&[u8]> = fragment.slices().collect();
            previous = rig.insert_piece(number, &fragment.prepare(&rig.fields(), previous), &slices);
        }
    }
}

impl Drop for RigSession<'_> {
    fn drop(&mut self) {
        self.rig.used()[self.number] = false;
    }
}

#[cfg(all(test, not(any(loom, katydid_explore, miri, katydid_simulated))))]
mod tests {
    use super::*;

    /// With lists of a fixed length, owners would find their lists full, and crawl, long before a
    /// range of `HOP` bytes is filled.
    #[test]
    fn grasshopper_hops_over_small_records_where_the_run_ahead_limit_has_room_for_several_hops() {
        const HOP: u64 = 1 << 20;
        const SESSIONS: usize = 8;
        let sizes = BufferSizes {
            ring_bytes: 32 << 20,
            run_ahead_bytes: 8 << 20,
            reserve_bytes: 0,
            sessions: SESSIONS,
        };
        let rig = Rig::new(&InserterDesign::Grasshopper { hop_bytes: HOP }, &sizes, SESSIONS);
        let mut sessions: Vec<RigSession<'_>> = (0..SESSIONS).map(|number| rig.session(number)).collect();
        // No thread tracks during these inserts, as if the tracker were far behind.
        let payload = [7; 120 - HEADER_BYTES];
        while rig.bytes() < 4 * HOP + HOP / 2 {
            sessions.iter_mut().for_each(|session| session.insert(&payload));
        }
        assert_eq!(rig.travelled(), (0, 0), "no list was full");
        assert_eq!(rig.filled(), rig.bytes());
        let (crawled, hopped) = rig.travelled();
        assert_eq!(crawled + hopped, rig.bytes());
        assert!(hopped >= 4 * HOP && crawled < HOP, "crawled {crawled}, hopped {hopped}");
    }
}
