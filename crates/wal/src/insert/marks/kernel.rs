//! The marks: how the filled frontier is found without a shared word per record.
//!
//! After Border-Collie (Kim, Jang, Kim, Jung, Kang: SIGMOD 2019), with our own rules. Each session owns one mark. It is *busy*
//! with a lower bound of what the session is filling, or *clean* with the end of what it filled last. Run by every appender
//! and every scanner; checked under loom, Miri and the explorer.
//!
//! | step of a session | value of its mark | ordering | failure if it is weaker or left out |
//! |---|---|---|---|
//! | 1. announce | busy(a position at or below the coming start) | Release | left out: a scan that sees the reservation finds the mark clean and passes the hole; Relaxed: it vouches for the session's previous record without seeing its bytes |
//! | 2. reserve: read-modify-write of `reserved` | | SeqCst, at least Release | the reservation is seen without its announcement, as if that were left out |
//! | 3. narrow | busy(start) | Release | none for safety; without it the frontier stays behind what others filled between 1 and 2 |
//! | 4. copy | | | |
//! | 5. finish | clean(end) | Release | the scan vouches for bytes it does not see |
//!
//! A scan reads `reserved` first (the cutoff), then the number of marks, then each mark (all Acquire or stronger). Every
//! reservation below the cutoff is visible with its announcement, so a mark that looks clean has nothing unfinished below the
//! cutoff and counts as the cutoff. The minimum is filled. Reading the cutoff last, or having none, loses holes.

use crate::sync_shim::{AtomicU64, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

const BUSY: u64 = 1 << 63;

/// One mark per session.
#[derive(Debug)]
pub(crate) struct Marks {
    marks: Box<[CachePadded<AtomicU64>]>,
    /// Marks `[0, used)` have been in use. Written (Release) before a new mark's first announcement; read (Acquire)
    /// by scans after the cutoff, so that a reservation below the cutoff has its mark counted.
    used: CachePadded<AtomicUsize>,
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    /// `reserved` when the scan began.
    pub(crate) cutoff: u64,
    /// Everything below is filled; at most `cutoff`.
    pub(crate) filled: u64,
}

impl Marks {
    /// Room for `most` sessions.
    pub(crate) fn new(most: usize) -> Self {
        Marks {
            marks: (0..most).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            used: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// The mark `index` will be used from now on. Callers serialise this among themselves.
    pub(crate) fn open(&self, index: usize) {
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    /// Step 1: `bound` is at or below whatever the session reserves next.
    #[inline]
    pub(crate) fn announce(&self, index: usize, bound: u64) {
        self.marks[index].store(BUSY | bound, Ordering::Release);
    }

    /// Steps 2 and 3 for a reservation that cannot fail. Returns its start.
    #[inline]
    pub(crate) fn reserve(&self, index: usize, bound: u64, reserved: &AtomicU64, bytes: u64) -> u64 {
        let start = reserved.fetch_add(bytes, Ordering::SeqCst);
        self.narrow(index, bound, start);
        start
    }

    /// Steps 2 and 3 for a reservation that must start at `start`; false if somebody else has taken that place.
    #[inline]
    pub(crate) fn reserve_at(&self, reserved: &AtomicU64, start: u64, bytes: u64) -> bool {
        // Announced with `start` itself: nothing to narrow.
        reserved.compare_exchange(start, start + bytes, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn narrow(&self, index: usize, bound: u64, start: u64) {
        if start != bound {
            self.marks[index].store(BUSY | start, Ordering::Release);
        }
    }

    /// Step 5.
    #[inline]
    pub(crate) fn finish(&self, index: usize, end: u64) {
        self.marks[index].store(end, Ordering::Release);
    }

    /// Takes an announcement back that no reservation followed.
    pub(crate) fn withdraw(&self, index: usize) {
        let bound = self.marks[index].load(Ordering::Relaxed) & !BUSY;
        self.marks[index].store(bound, Ordering::Release);
    }

    /// Finds out how far `reserved` is filled.
    pub(crate) fn scan(&self, reserved: &AtomicU64) -> Scan {
        let cutoff = reserved.load(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire);
        let mut filled = cutoff;
        for mark in &self.marks[..used] {
            let mark = mark.load(Ordering::Acquire);
            if mark & BUSY != 0 {
                filled = filled.min(mark & !BUSY);
            }
        }
        Scan { cutoff, filled }
    }
}

#[cfg(test)]
mod checks;
