//! The marks: a way to find the filled frontier without a shared word for each record.
//!
//! The idea is that of Border-Collie (Kim, Jang, Kim, Jung, Kang: SIGMOD 2019), with rules of our
//! own. Each session owns one mark. A mark is *busy* with a lower bound of the range that the
//! session is about to reserve or is filling, or *clean*: the session has no hole. Scans do not
//! read the position in a clean mark; it is the end of the session's last record, or a withdrawn
//! bound. Every appender and every scanner runs this code. Loom, Miri and the explorer check it.
//!
//! | step of a session | value of its mark | ordering |
//! |---|---|---|
//! | 1. announce | busy(a position at or below the coming start) | Release |
//! | 2. reserve: read-modify-write of `reserved` | | SeqCst, at least AcqRel |
//! | 3. narrow | busy(start) | Release |
//! | 4. copy | | |
//! | 5. finish | clean(end) | Release |
//!
//! Failures if a step is left out or its ordering is weaker:
//!
//! - Step 1 left out: a scan that sees the reservation finds the mark clean and passes the hole.
//! - Step 1 relaxed: a scan reports the session's previous record as filled without seeing its
//!   bytes.
//! - Step 2 without Release: a scan sees the reservation without its announcement, as if step 1
//!   were left out.
//! - Step 2 without Acquire: a session that was admitted against an older limit may get a position
//!   that only a newer limit allows, because others have reserved since. In that case nothing
//!   orders the session's copy after the write that freed those bytes, and the copy overwrites
//!   bytes that the device still reads. With Acquire, the session comes after an earlier
//!   reservation that was admitted against the newer limit, and so after the write.
//! - Step 3 left out: no safety is lost, but until step 5 the frontier cannot pass the announced
//!   position, even if other sessions have filled everything from there to the start.
//! - Step 5 relaxed: a scan reports bytes as filled although it does not see them.
//!
//! A scan reads `reserved` first (the cutoff), then the number of marks, then each mark (all
//! Acquire or stronger). Every reservation below the cutoff is visible with its announcement. So a
//! session whose mark looks clean has no hole below the cutoff, and its mark counts as the cutoff.
//! The log is filled up to the minimum over all marks. A scan that reads the cutoff last, or has
//! none, misses holes.

use super::super::mutants::{Built, Mutant};
use super::super::{Admitted, Stalled};
use crate::sync_shim::{AtomicU64, AtomicUsize, Ordering, spin_loop};
use crossbeam_utils::CachePadded;

const BUSY: u64 = 1 << 63;

/// The marks, one for each session.
#[derive(Debug)]
pub struct Marks {
    marks: Box<[CachePadded<AtomicU64>]>,
    /// Marks `[0, used)` have been in use. Written (Release) before a new mark's first
    /// announcement. Scans read it (Acquire) after the cutoff, so they look at the mark of every
    /// reservation below the cutoff.
    used: CachePadded<AtomicUsize>,
    built: Built,
}

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// The value of `reserved` when the scan began; or `filled`, if other scans have advanced the
    /// frontier beyond that value.
    pub cutoff: u64,
    /// Everything below this position is filled. At most `cutoff`.
    pub filled: u64,
}

impl Marks {
    /// Makes marks for `most` sessions.
    pub fn new(most: usize) -> Self {
        Self::built(most, Built::default())
    }

    fn built(most: usize, built: Built) -> Self {
        Marks {
            built,
            marks: (0..most).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            used: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Announces that the mark `index` will be used from now on. Callers make these calls one at a
    /// time.
    pub fn open(&self, index: usize) {
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    /// Asks for admission, and does steps 1 to 3. Returns the start of the reservation. The caller
    /// must call [`Marks::finish`] as soon as the reserved bytes are filled.
    ///
    /// If the session may reserve by addition, the thread reserves by `fetch_add`, and the start
    /// may lie above the admitted position by at most the slack that admission keeps. In all other
    /// cases the thread reserves by compare-and-swap.
    #[inline]
    pub fn reserve(&self, log: &impl Admitted, index: usize, bytes: u64) -> Result<u64, Stalled> {
        let reserved = log.reserved();
        let order = self.built.reserves(Mutant::RelaxedReserve, Mutant::ReleaseOnlyReserve);
        if log.may_add(bytes) {
            let bound = reserved.load(Ordering::Acquire);
            log.admit(bound, bytes)?;
            self.announce(index, bound);
            let start = reserved.fetch_add(bytes, order);
            if start != bound {
                self.mark(index, BUSY | start, Ordering::Release);
            }
            return Ok(start);
        }
        loop {
            let start = reserved.load(Ordering::Acquire);
            if let Err(stalled) = log.admit(start, bytes) {
                self.withdraw(index);
                return Err(stalled);
            }
            // The announcement is `start` itself, so step 3 is not needed.
            self.announce(index, start);
            if reserved.compare_exchange(start, start + bytes, order, Ordering::Relaxed).is_ok() {
                return Ok(start);
            }
            spin_loop();
        }
    }

    /// Step 1. `bound` is at or below the start of the session's next reservation.
    #[inline]
    fn announce(&self, index: usize, bound: u64) {
        if !self.built.is(Mutant::NoAnnounce) {
            self.mark(index, BUSY | bound, self.built.order(Mutant::RelaxedAnnounce, Ordering::Release));
        }
    }

    #[inline]
    fn mark(&self, index: usize, value: u64, order: Ordering) {
        self.marks[index].store(value, order);
    }

    /// Step 5: says that the session has no hole. Its last record ends at `end`.
    #[inline]
    pub fn finish(&self, index: usize, end: u64) {
        self.mark(index, end, self.built.order(Mutant::RelaxedFinish, Ordering::Release));
    }

    /// Withdraws an announcement that no reservation followed, if there is one.
    fn withdraw(&self, index: usize) {
        let bound = self.marks[index].load(Ordering::Relaxed) & !BUSY;
        if !self.built.is(Mutant::NeverWithdrawn) {
            self.mark(index, bound, Ordering::Release);
        }
    }

    /// Finds out how far the log is filled below `reserved`.
    pub fn scan(&self, reserved: &AtomicU64) -> Scan {
        let mut cutoff = reserved.load(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire);
        let mut lowest = u64::MAX;
        for mark in &self.marks[..used] {
            let mark = mark.load(Ordering::Acquire);
            if mark & BUSY != 0 {
                lowest = lowest.min(mark & !BUSY);
            }
        }
        if self.built.is(Mutant::MarksCutoffLast) {
            cutoff = reserved.load(Ordering::SeqCst);
        }
        Scan { cutoff, filled: lowest.min(cutoff) }
    }
}

#[cfg(test)]
mod checks;
