//! Stages one and two: a place in the log is reserved, and filled.
//!
//! One trait, [`Inserter`]; one file per design; all of them pass `testing::conformance`. Run by every appending thread.
//!
//! Rules for every design:
//!
//! 1. Admission is asked with the value of `reserved` that the reservation starts from (or, for small records of a few
//!    slots, an older one: see [`admission`]), and before the reservation. Nobody waits while owning a hole.
//! 2. Between reservation and "filled" there is a copy and nothing else: no allocation, no lock, no call to the outside.
//! 3. `scan` never claims bytes that are not filled, and sees every reservation that happened before it.
//!
//! A crash loses what is only here. Nobody has been told otherwise.

mod admission;
mod aether;
mod bitmap;
mod chunked;
mod consolidated;
mod decoupled;
mod delegated;
mod grasshopper;
mod hybrid;
mod marks;
mod mutants;
mod mutex;
#[cfg(test)]
mod small_log;
mod tracker;

pub use admission::Admission;
pub(crate) use admission::Limiter;
pub(crate) use marks::kernel::{Marks, Scan};
pub(crate) use tracker::{Tracker, track};

use crate::frontier::Frontiers;
use crate::lsn::Lsn;
use crate::nvram::ring::NvRing;
use crate::options::{InserterKind, Options};
use crate::record::PreparedRecord;
use crate::ring::Ring;
use crate::sync_shim::{AtomicU64, Ordering, spin_loop};
use std::fmt::Debug;

/// The record was not admitted: the ring, the prepared space or the run-ahead is used up. Nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stalled;

/// The log in memory: what inserters work on.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) frontiers: Frontiers,
    pub(crate) ring: Ring,
    pub(crate) limiter: Limiter,
}

/// A physical record on its way in: a head without its position, and the payload behind it.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) prepared: &'a PreparedRecord,
    pub(crate) payload: &'a [&'a [u8]],
    /// It lies above this record; zero for none. Designs that reserve per record, in the order of the calls, need not look.
    pub(crate) after: Lsn,
}

impl Piece<'_> {
    /// Bytes of the record in the log's memory; so many are reserved, where records do not lie apart.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.prepared.padded() as u64
    }

    /// The record's bytes as if it were at `lsn`, one part after the other; together [`Piece::bytes`].
    #[inline(always)]
    pub(crate) fn each_part(&self, lsn: Lsn, mut put: impl FnMut(&[u8])) {
        put(&self.prepared.header(lsn));
        put(self.prepared.link());
        self.payload.iter().for_each(|part| put(part));
        put(&[0; 8][..self.prepared.padded() - self.prepared.len()]);
    }

    /// Copies the record, stamped with its position, into the ring; of `nv_direct` it is persisted when this returns.
    ///
    /// # Safety
    /// As for [`Ring::fill`], for [`Piece::bytes`] at `start`.
    #[inline]
    pub(crate) unsafe fn copy_to(&self, ring: &Ring, start: Lsn) {
        if let Some(nvram) = ring.nvram() {
            // SAFETY: passed on.
            return unsafe { self.copy_to_nvram(nvram, start) };
        }
        let (header, link) = (self.prepared.header(start), self.prepared.link());
        let padding = self.prepared.padded() - self.prepared.len();
        let body = start.plus((header.len() + link.len()) as u64);
        // SAFETY: passed on; header, link, payload and padding are together `bytes()` long.
        unsafe {
            ring.fill(start, &[&header], 0);
            if !link.is_empty() {
                ring.fill(start.plus(header.len() as u64), &[link], 0);
            }
            ring.fill(body, self.payload, padding);
        }
    }

    /// See [`Piece::copy_to`].
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn copy_to_nvram(&self, ring: &NvRing, start: Lsn) {
        let mut at = start;
        self.each_part(start, |part| {
            // SAFETY: passed on; the parts are together `bytes()` long.
            unsafe { ring.write(at, part) };
            at = at.plus(part.len() as u64);
        });
        ring.copied(start, at);
    }
}

/// What designs reserve in: the log, for records of one slot that are admitted in one way; by small models in tests.
pub(crate) trait Admitted {
    fn reserved(&self) -> &AtomicU64;
    /// Whether so much may be reserved by adding, without a compare-and-swap.
    fn may_add(&self, bytes: u64) -> bool;
    /// Whether so much may be reserved there.
    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled>;
}

/// The log itself.
#[derive(Debug)]
pub(crate) struct OnImage<'a> {
    pub(crate) image: &'a Image,
    pub(crate) slot: usize,
    pub(crate) admission: Admission,
}

impl Admitted for OnImage<'_> {
    #[inline(always)]
    fn reserved(&self) -> &AtomicU64 {
        &self.image.frontiers.reserved
    }

    #[inline(always)]
    fn may_add(&self, bytes: u64) -> bool {
        self.image.limiter.may_add(self.slot, bytes)
    }

    #[inline(always)]
    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        self.image.limiter.admit(start, bytes, self.admission)
    }
}

/// A design of putting records into the ring.
pub(crate) trait Inserter: Send + Sync + Debug {
    /// Slot `slot` is going to be used. The caller serialises these calls.
    fn open(&self, slot: usize);

    /// Reserves and fills; returns where the record starts. At most one thread at a time uses one slot.
    fn insert(
        &self,
        image: &Image,
        slot: usize,
        piece: &mut Piece<'_>,
        admission: Admission,
    ) -> Result<Lsn, Stalled>;

    /// Finds out how far the log is filled, and advances that frontier.
    fn scan(&self, image: &Image) -> Scan;

    /// How a thread that only scans is woken, if this design has work for one.
    fn tracker(&self) -> Option<&Tracker> {
        None
    }

    /// What it has done so far.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

/// What some designs count, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    /// Reserved and filled with padding.
    pub(crate) padding: u64,
    /// By which the filled frontier was advanced in crawling.
    pub(crate) crawled: u64,
    /// By which it was advanced in hopping.
    pub(crate) hopped: u64,
}

/// The design that the options name, for a log that ends at `end`.
pub(crate) fn choose(options: &Options, incarnation: u32, end: Lsn) -> Box<dyn Inserter> {
    match options.inserter {
        InserterKind::Mutex => Box::new(mutex::MutexInserter::default()),
        InserterKind::Consolidated => Box::new(consolidated::inserter(options)),
        InserterKind::Decoupled => Box::new(decoupled::inserter()),
        InserterKind::Hybrid => Box::new(hybrid::inserter(options)),
        InserterKind::Delegated => Box::new(delegated::inserter(options)),
        // One more for the log's own records.
        InserterKind::Grasshopper => Box::new(grasshopper::GrasshopperInserter::new(options, end)),
        InserterKind::Bitmap => Box::new(bitmap::BitmapInserter::new(options, end)),
        InserterKind::Chunked => Box::new(chunked::ChunkedInserter::new(options, incarnation)),
        InserterKind::Marks => Box::new(marks::MarksInserter::new(options.sessions_max + 1)),
    }
}

/// Admission and reservation for designs that announce nothing before: small records of the first slots by addition, others by
/// compare-and-swap.
///
/// Both must at least acquire and release (rule 3 of the ring). A record that is added may have been admitted against an older limit than the
/// one that allows its place. It learns that the device has read the bytes there from the records reserved before it, one of
/// which was admitted against that newer limit.
#[inline]
fn reserve(image: &Image, slot: usize, bytes: u64, admission: Admission) -> Result<u64, Stalled> {
    let reserved = &image.frontiers.reserved;
    if image.limiter.may_add(slot, bytes) {
        image.limiter.admit(reserved.load(Ordering::Acquire), bytes, admission)?;
        return Ok(reserved.fetch_add(bytes, Ordering::SeqCst));
    }
    loop {
        let start = reserved.load(Ordering::Acquire);
        image.limiter.admit(start, bytes, admission)?;
        if reserved.compare_exchange(start, start + bytes, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return Ok(start);
        }
        spin_loop();
    }
}
