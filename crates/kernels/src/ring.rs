//! Memory of the log buffer's records, above all the ring: position `lsn` lies at byte `lsn %
//! size`.
//!
//! Inserters write the ring; threads that write to the device read it. The bytes are not
//! synchronised. Rules that make the accesses sound:
//!
//! 1. Only the thread that reserved the bytes `[start, end)` writes them. This thread writes them
//!    after its reservation and before it announces that they are filled (a clean mark, or the
//!    inserter's unlock, both Release).
//! 2. Bytes are read only below the filled frontier. The thread that computes this frontier loads
//!    the announcements with Acquire.
//! 3. Position `p + size` is reserved only once the written frontier has passed the 4 KiB block of
//!    `p`. Admission checks this before the reservation, after a load of `written` with Acquire. So
//!    a byte is never overwritten while it is being read, or before it has been read.
//! 4. The block that holds the filled frontier is never read in place as a whole, because inserters
//!    may be writing its upper part. The filled part of this block is copied out.
//! 5. No access leaves the buffer: a length greater than the ring's size panics, even in release
//!    builds.
//!
//! The ring of a log in NVRAM is itself in NVRAM ([`NvramRing`]). Rules 1 to 3 hold for that ring,
//! but the start of the log takes the place of the written frontier.
//!
//! A crash loses the ring in memory: records that were not written are gone, and none of them was
//! acknowledged as written or durable.

use crate::lsn::Lsn;
use crate::record::Layout;
use crate::sync_shim::copy_bytes;
use memory::RingMemory;
use std::fmt::Debug;
use std::sync::Arc;

mod memory;

/// Access to a ring whose bytes are in NVRAM, for inserters and for the opening of a log.
pub trait NvramRing: Debug + Send + Sync {
    /// Copies `bytes` to position `at`. The call need not persist them.
    ///
    /// # Safety
    /// The caller owns the reservation of these bytes (rule 1), and the reservation was admitted
    /// (rule 3).
    unsafe fn write(&self, at: Lsn, bytes: &[u8]);

    /// Called when the record in `[from, to)` has been copied and is about to count as filled.
    /// Persists the record if the log persists records as they are appended.
    fn copied(&self, from: Lsn, to: Lsn);
}

/// Memory of a log buffer's records.
#[derive(Debug)]
pub enum RecordMemory {
    /// Records are in a ring in memory until they are written to the device.
    Ring(Ring),
    /// Records are in a ring in NVRAM. This trait object only writes; the opening of a log reads
    /// the ring by other means.
    Nvram(Arc<dyn NvramRing>),
    /// Records lie apart from their positions (`nv_entries`, `nv_logging`). The inserter of such a
    /// log chooses the place of each record.
    Apart,
}

impl RecordMemory {
    /// Layout of the records in this memory.
    pub fn layout(&self) -> Layout {
        match self {
            RecordMemory::Ring(_) => Layout::InLine,
            RecordMemory::Nvram(_) => Layout::InMemory,
            RecordMemory::Apart => Layout::Apart,
        }
    }
}

/// The ring in memory. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct Ring {
    memory: Arc<RingMemory>,
    mask: u64,
}

impl Ring {
    /// Makes a ring of `size` bytes, which is a power of two and a multiple of 4,096.
    pub fn new(size: usize) -> Self {
        assert!(size.is_power_of_two() && size >= 4096, "options are validated before");
        Ring { memory: Arc::new(RingMemory::new(size)), mask: size as u64 - 1 }
    }

    /// The size of the ring in bytes.
    pub fn size(&self) -> u64 {
        self.mask + 1
    }

    /// Copies `parts`, one after the other, to position `at`, followed by `zeros` zero bytes.
    ///
    /// # Safety
    /// The caller owns the reservation of all these bytes (rule 1), and the reservation was
    /// admitted (rule 3).
    #[inline(always)]
    pub unsafe fn fill(&self, at: Lsn, parts: &[&[u8]], zeros: usize) {
        let mut at = at.get();
        for part in parts {
            // SAFETY: the caller keeps the callee's rules.
            unsafe { self.copy_in(at, part) };
            at += part.len() as u64;
        }
        if zeros > 0 {
            // SAFETY: the caller keeps the callee's rules.
            unsafe { self.copy_in(at, &[0; 8][..zeros]) };
        }
    }

    #[inline(always)]
    unsafe fn copy_in(&self, at: u64, from: &[u8]) {
        let size = self.mask as usize + 1;
        let offset = (at & self.mask) as usize;
        assert!(from.len() <= size, "a reservation is never larger than the ring");
        let base = self.memory.base();
        // SAFETY: both copies stay inside the buffer, which is `size` bytes long (rule 5). No slice
        // borrows the bytes that the caller owns (rules 1 to 3). `from` is not part of the buffer.
        unsafe {
            if from.len() <= size - offset {
                // This common case has a copy of its own, which compiles to a few instructions if
                // the length is a constant.
                copy_bytes(from.as_ptr(), base.add(offset), from.len());
            } else {
                let first = size - offset;
                copy_bytes(from.as_ptr(), base.add(offset), first);
                copy_bytes(from.as_ptr().add(first), base, from.len() - first);
            }
        }
    }

    /// Returns the bytes `[from, to)` as two slices. The second slice is empty unless the range
    /// wraps.
    ///
    /// # Safety
    /// The bytes are filled (rule 2). While the slices live, `written` stays at or below `from`
    /// rounded up to a block (rule 3).
    pub unsafe fn slices(&self, from: Lsn, to: Lsn) -> (&[u8], &[u8]) {
        let length = to.since(from) as usize;
        let size = self.mask as usize + 1;
        assert!(length <= size, "the ring holds no more than its size");
        let offset = (from.get() & self.mask) as usize;
        let first = length.min(size - offset);
        let base = self.memory.base().cast_const();
        // SAFETY: the slices are in bounds as in `copy_in`. The bytes are initialised since the
        // buffer was zeroed. No thread writes them (rules 2 and 3).
        unsafe {
            (
                std::slice::from_raw_parts(base.add(offset), first),
                std::slice::from_raw_parts(base, length - first),
            )
        }
    }

    /// Copies the bytes `[from, from + into.len())`, which lie in one block, out of the ring.
    ///
    /// # Safety
    /// The caller keeps the rules of [`Ring::slices`].
    pub unsafe fn copy_out(&self, from: Lsn, into: &mut [u8]) {
        // SAFETY: the caller keeps the callee's rules.
        let (first, second) = unsafe { self.slices(from, from.plus(into.len() as u64)) };
        into[..first.len()].copy_from_slice(first);
        into[first.len()..].copy_from_slice(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The checks hold in a release build too, where a copy without the checks would write beyond
    /// the buffer.
    #[test]
    fn what_is_longer_than_the_ring_is_refused() {
        let ring = Ring::new(4096);
        for at in [0, 8, 4088] {
            let too_long = vec![1; 4097];
            // SAFETY: there is one thread, and nothing is borrowed.
            let fills = || unsafe { ring.fill(Lsn::new(at), &[&too_long], 0) };
            catch_unwind(AssertUnwindSafe(fills)).expect_err("it is larger than the ring");
            // SAFETY: there is one thread, and nothing is borrowed.
            let reads = || unsafe { ring.slices(Lsn::new(at), Lsn::new(at + 4097)).0.len() };
            catch_unwind(AssertUnwindSafe(reads)).expect_err("it is larger than the ring");
        }
    }

    #[test]
    fn miri_a_record_wraps_and_comes_back() {
        let ring = Ring::new(4096);
        let at = Lsn::new(3 * 4096 - 10);
        // SAFETY: there is one thread, and nothing is borrowed.
        unsafe { ring.fill(at, &[b"0123456", b"789abcdef"], 5) };
        let mut out = [1; 21];
        // SAFETY: there is one thread, and nothing is borrowed.
        unsafe { ring.copy_out(at, &mut out) };
        assert_eq!(&out, b"0123456789abcdef\0\0\0\0\0");
        // SAFETY: one thread; nothing is written while the slices live.
        let (first, second) = unsafe { ring.slices(at, at.plus(21)) };
        assert_eq!((first, second), (&b"0123456789"[..], &b"abcdef\0\0\0\0\0"[..]));
    }
}
