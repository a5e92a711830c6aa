//! The log buffer and the physical records that inserters put into it.
//!
//! Every appending thread runs this code. The rules of `ring` say which thread owns which bytes of
//! the buffer, and when.

use super::admission::{Admission, AppendClass};
use crate::frontier::Frontiers;
use crate::lsn::Lsn;
use crate::record::{PHYSICAL_BYTES_MAX, PreparedRecord};
use crate::ring::{NvramRing, RecordMemory};
use crate::sync_shim::{AtomicU64, Ordering, spin_loop};

/// Error: a record was not admitted. The ring or the prepared space has no room, the run-ahead
/// limit is reached, or the log has failed or is closed. Nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled;

/// The log buffer: the end of the log in memory, where inserters put records that wait to be
/// written.
#[derive(Debug)]
pub struct LogBuffer {
    /// Frontiers up to which the log is reserved, filled, written and durable.
    pub frontiers: Frontiers,
    /// The memory of the log's records.
    pub memory: RecordMemory,
    /// The limits of reservations.
    pub admission: Admission,
}

/// A physical record to be inserted: a header without its position, and the payload that follows
/// it.
#[derive(Debug)]
pub struct PhysicalRecord<'a> {
    /// The header, complete except for the position.
    pub prepared: &'a PreparedRecord,
    /// The parts of the payload, in order.
    pub payload: &'a [&'a [u8]],
    /// Position of the record above which this record must lie; zero for none. Designs that reserve
    /// each record in the order of the calls need not read this field.
    pub after: Lsn,
}

impl PhysicalRecord<'_> {
    /// Bytes of the record in the log's memory, padding included. This is also the number of bytes
    /// to reserve, except in a log of entries ([`RecordMemory::Apart`]).
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.prepared.padded() as u64
    }

    /// Calls `put` with each part of the record's bytes, with `lsn` as its position. The parts have
    /// [`PhysicalRecord::bytes`] bytes together.
    #[inline(always)]
    pub fn each_part(&self, lsn: Lsn, mut put: impl FnMut(&[u8])) {
        put(&self.prepared.header(lsn));
        put(self.prepared.link());
        self.payload.iter().for_each(|part| put(part));
        put(&[0; 8][..self.prepared.padded() - self.prepared.len()]);
    }

    /// Copies the record, with `start` as its position, into the ring. In `nv_direct` the record is
    /// persisted when this returns.
    ///
    /// # Safety
    /// The caller keeps the rules of [`Ring::fill`](crate::ring::Ring::fill) for
    /// [`PhysicalRecord::bytes`] at `start`.
    #[inline]
    pub unsafe fn copy_to(&self, memory: &RecordMemory, start: Lsn) {
        let ring = match memory {
            RecordMemory::Ring(ring) => ring,
            // SAFETY: the caller keeps the callee's rules.
            RecordMemory::Nvram(nvram) => return unsafe { self.copy_to_nvram(&**nvram, start) },
            RecordMemory::Apart => unreachable!("the inserter of this memory puts its records itself"),
        };
        let (header, link) = (self.prepared.header(start), self.prepared.link());
        let padding = self.prepared.padded() - self.prepared.len();
        let body = start.plus((header.len() + link.len()) as u64);
        // SAFETY: the caller keeps the callee's rules. Header, link, payload and padding have
        // `bytes()` bytes together.
        unsafe {
            ring.fill(start, &[&header], 0);
            if !link.is_empty() {
                ring.fill(start.plus(header.len() as u64), &[link], 0);
            }
            ring.fill(body, self.payload, padding);
        }
    }

    /// Copies the record, with `start` as its position, into a ring in NVRAM.
    ///
    /// # Safety
    /// The caller keeps the rules of [`PhysicalRecord::copy_to`].
    #[inline(never)]
    pub unsafe fn copy_to_nvram(&self, ring: &dyn NvramRing, start: Lsn) {
        let mut at = start;
        self.each_part(start, |part| {
            // SAFETY: the caller keeps the callee's rules. The parts have `bytes()` bytes together.
            unsafe { ring.write(at, part) };
            at = at.plus(part.len() as u64);
        });
        ring.copied(start, at);
    }
}

/// The log as designs see it when they reserve for records of one slot and class. [`OnBuffer`]
/// implements this trait for the log, and small models implement it in tests.
pub trait Admitted {
    /// The end of the last reservation.
    fn reserved(&self) -> &AtomicU64;
    /// Returns whether `bytes` may be reserved by adding, without a compare-and-swap.
    fn may_add(&self, bytes: u64) -> bool;
    /// Admits `bytes` at `start`, or refuses.
    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled>;
}

/// The log buffer itself, for records of one slot and class.
#[derive(Debug)]
pub struct OnBuffer<'a> {
    /// The log buffer.
    pub buffer: &'a LogBuffer,
    /// The slot of the session that appends.
    pub slot: usize,
    /// Class by which the record is admitted.
    pub class: AppendClass,
}

impl Admitted for OnBuffer<'_> {
    #[inline(always)]
    fn reserved(&self) -> &AtomicU64 {
        &self.buffer.frontiers.reserved
    }

    #[inline(always)]
    fn may_add(&self, bytes: u64) -> bool {
        self.buffer.admission.may_add(self.slot, bytes)
    }

    #[inline(always)]
    fn admit(&self, start: u64, bytes: u64) -> Result<(), Stalled> {
        self.buffer.admission.admit(start, bytes, self.class)
    }
}

/// The sizes of a log buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// Bytes of the ring: a power of two, at least 16 KiB. In a log of entries: 8 for each entry.
    pub ring_bytes: usize,
    /// Maximum number of positions from the filled frontier to the start of a reservation; at most
    /// half of `ring_bytes`. Except in a log of entries, a position is a byte, and the number is at
    /// least 4,096. Reservations by addition may exceed the limit by [`Admission::slack`].
    pub run_ahead_bytes: usize,
    /// Bytes that only [`AppendClass::Critical`] reservations may use, before the reserve is
    /// raised. A young log in files keeps fewer ([`Admission::growing`]).
    pub reserve_bytes: u64,
    /// Maximum number of open sessions.
    pub sessions: usize,
}

impl BufferSizes {
    /// Returns the default ring size in bytes for a log to which this number of processors append:
    /// 256 KiB for each, at least 2 MiB and at most 64 MiB, rounded up to a power of two. Appenders
    /// fill one half while the other half is written.
    pub fn ring_bytes_for(processors: usize) -> usize {
        processors.saturating_mul(256 << 10).clamp(2 << 20, 64 << 20).next_power_of_two()
    }

    /// The maximum bytes, header included, of one physical record; longer records are split into
    /// fragments. The maximum is an eighth of the ring, so that a large record cannot fill the
    /// ring, and at most [`PHYSICAL_BYTES_MAX`].
    pub fn physical_bytes_max(&self) -> usize {
        (self.ring_bytes / 8).min(PHYSICAL_BYTES_MAX)
    }

    /// Number of slots of an inserter: one for each session, and one for the log's own records.
    pub fn slots(&self) -> usize {
        self.sessions.saturating_add(1)
    }
}

/// Asks for admission and reserves one record without a lock. Inserter `marks` has its own version,
/// because it marks the coming range between the two steps. Small records of the first slots are
/// reserved by addition, all other records by compare-and-swap.
///
/// Both read-modify-writes must at least acquire and release (rule 3 of the ring). Between the
/// admission of a record and its `fetch_add`, other threads may reserve up to a newer limit, so the
/// record may get a position that only the newer limit allows. In that case at least one of the
/// reservations in between was admitted against the newer limit, because reservations that were
/// admitted against the older limit exceed it by the slack at most. The acquire orders the record's
/// reservation after that earlier one, and so after the write that freed the bytes.
#[inline]
pub(super) fn reserve(
    buffer: &LogBuffer,
    slot: usize,
    bytes: u64,
    class: AppendClass,
) -> Result<u64, Stalled> {
    let reserved = &buffer.frontiers.reserved;
    if buffer.admission.may_add(slot, bytes) {
        buffer.admission.admit(reserved.load(Ordering::Acquire), bytes, class)?;
        return Ok(reserved.fetch_add(bytes, Ordering::SeqCst));
    }
    loop {
        let start = reserved.load(Ordering::Acquire);
        buffer.admission.admit(start, bytes, class)?;
        if reserved.compare_exchange(start, start + bytes, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return Ok(start);
        }
        spin_loop();
    }
}
