//! Inserter `chunked`, a design of our own: a session reserves a chunk at a time and fills it with
//! its records.
//!
//! The algorithm and its orderings are in [`kernel`]. This file has admission, the copy, and the
//! padding record. Padding fills the rest of a chunk when a record does not fit, when a record must
//! lie higher (`Append::after`), or when a scanner seals the chunk.
//!
//! Users see one difference: a record may lie below an earlier record of another session, unless
//! its append names the record that it comes after. The records of one session are in order.

mod kernel;

use super::mutants::Built;
use super::{
    Admitted, AppendClass, BufferSizes, Effort, Inserter, LogBuffer, OnBuffer, PhysicalRecord, Scan, Stalled,
};
use crate::counter::Counter;
use crate::lsn::Lsn;
use crate::record::{Chain, HEADER_BYTES, HeaderFields, Kind, PHYSICAL_BYTES_MAX, Part, prepare_header};
use crate::sync_shim::AtomicU64;
use kernel::{Chunks, Ground, Wanted};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct ChunkedInserter {
    chunks: Chunks,
    incarnation: u32,
    padding: Counter,
}

impl ChunkedInserter {
    pub(super) fn new(chunk_bytes: usize, always: bool, sizes: &BufferSizes, incarnation: u32) -> Self {
        // A chunk, and hence a padding record, is no larger than a physical record.
        let most = chunk_bytes.min(sizes.physical_bytes_max()) as u64;
        let together = sizes.run_ahead_bytes as u64 / 4;
        let chunks = Chunks::new(sizes.slots(), HEADER_BYTES as u64, most, together, Built::default());
        ChunkedInserter { chunks: chunks.always_large(always), incarnation, padding: Counter::default() }
    }
}

/// The log itself, with the paddings of this inserter.
struct Padded<'a> {
    log: OnBuffer<'a>,
    inserter: &'a ChunkedInserter,
}

static ZEROS: [u8; PHYSICAL_BYTES_MAX] = [0; PHYSICAL_BYTES_MAX];

impl Admitted for Padded<'_> {
    #[inline(always)]
    fn reserved(&self) -> &AtomicU64 {
        self.log.reserved()
    }

    #[inline(always)]
    fn may_add(&self, bytes: u64) -> bool {
        self.log.may_add(bytes)
    }

    #[inline(always)]
    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        self.log.admit(start, bytes)
    }
}

impl Ground for Padded<'_> {
    fn pad(&self, from: u64, to: u64) {
        let body = &ZEROS[..(to - from) as usize - HEADER_BYTES];
        let fields = HeaderFields {
            incarnation: self.inserter.incarnation,
            kind: Kind::PADDING,
            txn: 0,
            chain: Chain::NONE,
            durable: self.log.buffer.frontiers.durable(),
            layout: self.log.buffer.memory.layout(),
        };
        let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(body));
        let record = PhysicalRecord { prepared: &prepared, payload: &[body], after: Lsn::ZERO };
        // SAFETY: the caller owns the rest of a chunk (invariant 2 of the kernel). The rest was
        // admitted and reserved with the chunk.
        unsafe { record.copy_to(&self.log.buffer.memory, Lsn::new(from)) };
        self.inserter.padding.add(to - from);
    }
}

impl Inserter for ChunkedInserter {
    fn open(&self, slot: usize) {
        self.chunks.open(slot);
    }

    #[inline]
    unsafe fn insert(
        &self,
        buffer: &LogBuffer,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> Result<Lsn, Stalled> {
        // An append into an open chunk asks for no admission. This check refuses it when the log
        // has failed or is closed.
        if buffer.admission.is_shut() {
            return Err(Stalled);
        }
        let wanted = Wanted {
            bytes: record.bytes(),
            after: record.after.get(),
            // A critical append takes only its own bytes, because a chunk's unused space must not
            // use up the reserve.
            exactly: class != AppendClass::Normal,
        };
        let ground = Padded { log: OnBuffer { buffer, slot, class }, inserter: self };
        let start = self.chunks.insert(&ground, slot, wanted, |start| {
            // SAFETY: the session owns `[start, start + bytes)` of its chunk (invariant 2 of the
            // kernel). The chunk was admitted.
            unsafe { record.copy_to(&buffer.memory, Lsn::new(start)) };
        })?;
        Ok(Lsn::new(start))
    }

    fn scan(&self, buffer: &LogBuffer) -> Scan {
        // Scans reserve nothing.
        let log = OnBuffer { buffer, slot: usize::MAX, class: AppendClass::Normal };
        let ground = Padded { log, inserter: self };
        let scan = self.chunks.scan(&ground);
        let filled = buffer.frontiers.advance_filled(scan.filled).get();
        // Another scan may have advanced the frontier beyond this scan's cutoff.
        Scan { cutoff: scan.cutoff.max(filled), filled }
    }

    fn effort(&self) -> Effort {
        Effort { padding: self.padding.get(), ..Effort::default() }
    }
}
