//! The ring of a log in NVRAM: position `lsn` lies at `lsn % size` behind the region's header.
//!
//! Inserters (through `PhysicalRecord`) and openings write the ring; openings and readers read it.
//! The rules are those of the ring in memory (`ring.rs` of `katydid-kernels`), with the log's start
//! in place of the written frontier:
//!
//! 1. Bytes `[start, end)` are written only by the thread that reserved them, between its
//!    reservation and the moment it says that they are filled. In `nv_direct` that thread persists
//!    them before that moment. In `nv_ring` the thread that makes a commit durable persists them
//!    afterwards, whichever thread copied them (`commit.rs`): writing a cache line back does not
//!    depend on which thread stored to it.
//! 2. In an open log, bytes are read only where they are persisted, and not below the start. A
//!    thread that opens or inspects the log has the region alone, and may read all bytes.
//! 3. Position `p + size` is reserved only when the durable start of the log is above `p`. The
//!    start never passes the persisted position.
//!
//! A crash leaves every persisted record whole. Any words of other records, filled or not, may have
//! arrived in the memory; the checksum shows whether a record is whole.

use katydid_device::nvram::NvRegion;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::ring::NvramRing;
use std::sync::Arc;

/// Bytes of the region before the ring.
pub(crate) const RING_AT: u64 = 4096;

/// The time at which a record is persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersistPoint {
    /// The appender persists the record before it counts as filled.
    Appended,
    /// The thread that makes the record durable persists it at the commit.
    Committed,
}

/// The ring. Clones share its memory.
#[derive(Debug, Clone)]
pub(crate) struct NvRing {
    region: Arc<NvRegion>,
    mask: u64,
    when: PersistPoint,
}

impl NvRing {
    /// Makes the ring of `bytes`, a power of two, in a region that has that number of bytes from
    /// [`RING_AT`] on.
    pub(crate) fn new(region: Arc<NvRegion>, bytes: u64, when: PersistPoint) -> Self {
        debug_assert!(bytes.is_power_of_two() && region.len() >= RING_AT + bytes, "it was made so");
        NvRing { region, mask: bytes - 1, when }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn region(&self) -> &NvRegion {
        &self.region
    }

    /// Returns the offset in the region at which the `len` bytes from position `at` on begin, and
    /// the number of these bytes that lie before the ring's end.
    #[inline(always)]
    fn place(&self, at: Lsn, len: u64) -> (u64, u64) {
        debug_assert!(len <= self.bytes(), "no more than the ring holds");
        let offset = at.get() & self.mask;
        (RING_AT + offset, len.min(self.bytes() - offset))
    }

    /// Persists `[from, to)`, whichever thread has stored these bytes. The stores must happen
    /// before this call.
    #[inline(always)]
    pub(crate) fn persist(&self, from: Lsn, to: Lsn) {
        let len = to.since(from);
        let (place, first) = self.place(from, len);
        self.region.write_back(place, first);
        if first < len {
            self.region.write_back(RING_AT, len - first);
        }
        self.region.fence();
    }

    /// Copies the bytes from `from` on into `into`.
    ///
    /// # Safety
    /// No thread writes the bytes meanwhile (rule 2).
    pub(crate) unsafe fn copy_out(&self, from: Lsn, into: &mut [u8]) {
        let (place, first) = self.place(from, into.len() as u64);
        let (here, wrapped) = into.split_at_mut(first as usize);
        // SAFETY: follows from this function's contract.
        unsafe {
            here.copy_from_slice(self.region.slice(place, here.len() as u64));
            wrapped.copy_from_slice(self.region.slice(RING_AT, wrapped.len() as u64));
        }
    }
}

impl NvramRing for NvRing {
    /// Copies `bytes` to position `at`. The bytes are not persisted.
    ///
    /// # Safety
    /// The caller owns these positions (rule 1), and admission has admitted the record (rule 3).
    #[inline(always)]
    unsafe fn write(&self, at: Lsn, bytes: &[u8]) {
        let (place, first) = self.place(at, bytes.len() as u64);
        let (here, wrapped) = bytes.split_at(first as usize);
        // SAFETY: follows from this function's contract.
        unsafe { self.region.write(place, here) };
        if !wrapped.is_empty() {
            // SAFETY: follows from this function's contract.
            unsafe { self.region.write(RING_AT, wrapped) };
        }
    }

    /// Called when `[from, to)` was copied, before it counts as filled.
    #[inline(always)]
    fn copied(&self, from: Lsn, to: Lsn) {
        if self.when == PersistPoint::Appended {
            self.persist(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::nvram::SimNvram;

    #[test]
    fn a_record_wraps_is_persisted_and_comes_back() {
        let memory = SimNvram::new(RING_AT + 4096);
        let ring = NvRing::new(Arc::new(memory.region()), 4096, PersistPoint::Committed);
        let at = Lsn::new(3 * 4096 - 10);
        // SAFETY: one thread.
        unsafe { ring.write(at, b"0123456789abcdef") };
        ring.copied(at, at.plus(16));
        assert_eq!(memory.steps(), 0, "the committing thread persists");
        ring.persist(at, at.plus(16));
        let kept = memory.durable_image();
        assert_eq!(&kept[RING_AT as usize + 4086..], b"0123456789");
        assert_eq!(&kept[RING_AT as usize..][..7], b"abcdef\0");
        let mut out = [1; 18];
        // SAFETY: no other thread has the ring.
        unsafe { ring.copy_out(at, &mut out) };
        assert_eq!(&out, b"0123456789abcdef\0\0");
    }
}
