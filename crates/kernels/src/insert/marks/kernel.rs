//! The marks: how the filled frontier is found without a shared word per record.
//!
//! After Border-Collie (Kim, Jang, Kim, Jung, Kang: SIGMOD 2019), with our own rules. Each session
//! owns one mark. It is *busy* with a lower bound of what the session is filling, or *clean* with
//! the end of what it filled last. Run by every appender and every scanner; checked under loom,
//! Miri and the explorer.
//!
//! | step of a session | value of its mark | ordering | failure if it is weaker or left out |
//! |---|---|---|---|
//! | 1. announce | busy(a position at or below the coming start) | Release | left out: a scan that sees the reservation finds the mark clean and passes the hole; Relaxed: it vouches for the session's previous record without seeing its bytes |
//! | 2. reserve: read-modify-write of `reserved` | | SeqCst, at least AcqRel | without Release: the reservation is seen without its announcement, as if that were left out. Without Acquire: a session that was admitted against an older limit, and lands where only a newer one allows, has no edge to the write that freed those bytes, and copies over what the device still reads; that edge comes from the session that was admitted against the newer limit and reserved before |
//! | 3. narrow | busy(start) | Release | none for safety; without it the frontier stays behind what others filled between 1 and 2 |
//! | 4. copy | | | |
//! | 5. finish | clean(end) | Release | the scan vouches for bytes it does not see |
//!
//! A scan reads `reserved` first (the cutoff), then the number of marks, then each mark (all
//! Acquire or stronger). Every reservation below the cutoff is visible with its announcement, so a
//! mark that looks clean has nothing unfinished below the cutoff and counts as the cutoff. The
//! minimum is filled. Reading the cutoff last, or having none, loses holes.

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
    /// announcement; read (Acquire) by scans after the cutoff, so that a reservation below the
    /// cutoff has its mark counted.
    used: CachePadded<AtomicUsize>,
    built: Built,
}

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// The value of `reserved` when the scan began.
    pub cutoff: u64,
    /// Everything below is filled; at most `cutoff`.
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

    /// Announces that the mark `index` will be used from now on. Callers must call it one at a
    /// time.
    pub fn open(&self, index: usize) {
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    /// Steps 1 to 3, after admission. Returns where the reservation starts; [`Marks::finish`] must
    /// follow as soon as it is filled.
    ///
    /// Where adding is allowed, the reservation may overshoot the admitted position by the slack
    /// that admission keeps. Otherwise the thread compares and swaps.
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
            // With `start` itself: nothing to narrow.
            self.announce(index, start);
            if reserved.compare_exchange(start, start + bytes, order, Ordering::Relaxed).is_ok() {
                return Ok(start);
            }
            spin_loop();
        }
    }

    /// Step 1: `bound` is at or below what the session reserves next.
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

    /// Step 5.
    #[inline]
    pub fn finish(&self, index: usize, end: u64) {
        self.mark(index, end, self.built.order(Mutant::RelaxedFinish, Ordering::Release));
    }

    /// Takes back an announcement that no reservation followed, if there was one.
    fn withdraw(&self, index: usize) {
        let bound = self.marks[index].load(Ordering::Relaxed) & !BUSY;
        if !self.built.is(Mutant::NeverWithdrawn) {
            self.mark(index, bound, Ordering::Release);
        }
    }

    /// Finds out how far `reserved` is filled.
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
