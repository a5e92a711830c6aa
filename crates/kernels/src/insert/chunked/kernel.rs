//! Chunks: each session reserves some space at a time and fills it record by record, so that most
//! records touch no shared word.
//!
//! Run by every appender and every scanner; checked under loom and the explorer. A session has one
//! word, a state and a position:
//!
//! | state | position | meaning | next state, and the thread that changes it |
//! |---|---|---|---|
//! | CLEAN | | no chunk, or it is full | BUSY: the owner, before it reserves |
//! | BUSY | p | the owner is filling, from p on | OPEN or CLEAN: the owner; BUSY elsewhere: the owner |
//! | OPEN | c | filled up to c; the rest of the chunk is free | BUSY: the owner; SEALING: a scanner. Both by compare-and-swap |
//! | SEALING | c | a scanner pads the rest, from c on | CLEAN: that scanner |
//!
//! Invariants:
//!
//! 1. A hole always lies at or above the position of a BUSY, OPEN or SEALING word, whose change to
//!    BUSY is visible (Release) before the reservation is. So a scan that reads `reserved` first
//!    (the cutoff) and then the words misses none.
//! 2. Only the owner leaves CLEAN and BUSY. The owner or a scanner leaves OPEN; the one that wins
//!    owns the chunk's rest, and is the only one to touch it. So a record and a padding never
//!    overlap.
//! 3. `end` is written by the owner while BUSY or CLEAN, read by it and by the scanner that won.
//!    Positions of a word only grow, so a compare-and-swap never takes one chunk for another.
//! 4. What a scan vouches for needs no append to get filled: each chunk below the cutoff is full,
//!    padded by the scan, or named as a hole. A chunk that is open where the scan before saw it is
//!    padded. So an idle session delays no thread: the second scan passes its chunk, and a thread
//!    that has to pass it scans until it has.
//! 5. If a record names another in `after`, it lies above the other: its position in an open chunk
//!    is compared, and a new chunk starts at what `reserved` is then, which is above every record
//!    there is.
//! 6. A rest is nothing or at least `least` bytes, so that a padding record fits. A chunk never
//!    grows, even where no thread has reserved behind it: each value of `reserved` is the end of a
//!    record, and so is the result of a scan.
//!
//! The owner waits for a scanner that is padding its chunk; it owns no hole then. The scanner waits
//! for no thread.
//!
//! How large: 1/[`SHARE`] of what the session has appended between two losses of a rest (the lesser
//! of the last two times), because about half a chunk is lost to each. A session that waits for
//! each of its records loses a rest each time, and gets chunks of one record: nothing is lost. One
//! that streams is never found idle, and gets the largest. A new one gets [`FIRST`] bytes. Where a
//! record does not fit any more about half of one is lost, unless records are alike (a chunk is a
//! multiple of the first); so a chunk is for at least [`MIXED`] if they are not. All open chunks
//! together are kept below a quarter of what may be reserved ahead of the filled frontier, for that
//! stands still at the lowest of them.
//!
//! Small chunks are reserved by addition, for which the word holds a lower bound of the position
//! (invariant 1 asks for no more); large ones by compare-and-swap, with longer and longer pauses:
//! among many threads nearly every attempt fails otherwise.

use super::super::mutants::{Built, Mutant};
use super::super::{Admitted, Scan, Stalled};
use crate::sync_shim::{AtomicU64, AtomicUsize, CHECKED, Ordering, pause, spin_loop};
use crossbeam_utils::CachePadded;

const STATE: u64 = 3 << 62;
const CLEAN: u64 = 0;
const BUSY: u64 = 1 << 62;
const OPEN: u64 = 2 << 62;
const SEALING: u64 = 3 << 62;

/// Fewest records of a chunk if they are not alike.
const MIXED: u64 = 48;

/// See the head of this file.
const SHARE: u64 = 64;

/// Bytes of a session's first chunk, about.
const FIRST: u64 = 1024;

/// Pauses double so often.
const ATTEMPTS: u32 = 7;

/// The log as the algorithm uses it; small models in tests.
pub(super) trait Ground: Admitted {
    /// Fills `[from, to)` with a padding record.
    fn pad(&self, from: u64, to: u64);
}

#[derive(Debug)]
struct Session {
    // See the table. Stores that end a copy are Release; scanners' loads and all compare-and-swaps
    // acquire.
    word: CachePadded<AtomicU64>,
    // Invariant 3.
    end: AtomicU64,
    // The rest is the owner's alone. Where it left its chunk open; 0 if it did not.
    left: AtomicU64,
    // Where what was not yet counted in `since` begins. Bytes appended since it last lost a rest,
    // and between that loss and the one before; the lesser of the last two such numbers; the size
    // of the last chunk's first record.
    begin: AtomicU64,
    since: AtomicU64,
    last: AtomicU64,
    target: AtomicU64,
    size: AtomicU64,
    // The scanners': the word as the last of them saw it. A guess.
    seen: CachePadded<AtomicU64>,
}

impl Session {
    fn new() -> Self {
        let number = || AtomicU64::new(0);
        Session {
            word: CachePadded::new(number()),
            end: number(),
            left: number(),
            begin: number(),
            since: number(),
            last: AtomicU64::new(FIRST * SHARE),
            target: AtomicU64::new(FIRST * SHARE),
            size: number(),
            seen: CachePadded::new(number()),
        }
    }

    /// Returns whether the last scan saw the same word. Called by a scanner.
    fn is_idle(&self, word: u64) -> bool {
        let idle = self.seen.load(Ordering::Relaxed) == word;
        if !idle {
            self.seen.store(word, Ordering::Relaxed);
        }
        idle
    }

    /// The owner has filled its chunk up to here.
    fn count(&self, cursor: u64) -> u64 {
        let since = self.since.load(Ordering::Relaxed) + (cursor - self.begin.load(Ordering::Relaxed));
        self.since.store(since, Ordering::Relaxed);
        self.begin.store(cursor, Ordering::Relaxed);
        since
    }

    /// The owner has lost the rest of a chunk, from here on.
    #[cold]
    fn lose(&self, cursor: u64) {
        let since = self.count(cursor);
        self.target.store(since.min(self.last.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.last.store(since, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.end.store(cursor, Ordering::Relaxed);
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Chunks {
    sessions: Box<[CachePadded<Session>]>,
    /// Sessions `[0, used)` have been in use: as in `marks`.
    used: CachePadded<AtomicUsize>,
    least: u64,
    most: u64,
    /// Bytes of all open chunks together.
    together: u64,
    /// Chunks of `most` bytes whatever a session has appended.
    always: bool,
    built: Built,
}

/// A record to insert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    /// It must lie above this record; 0 for none.
    pub(super) after: u64,
    /// No more than its own bytes may be reserved.
    pub(super) exactly: bool,
}

impl Chunks {
    /// Room for `sessions`; paddings of at least `least` and chunks of at most `most` bytes, all of
    /// them together `together`.
    pub(super) fn new(sessions: usize, least: u64, most: u64, together: u64, built: Built) -> Self {
        Chunks {
            sessions: (0..sessions).map(|_| CachePadded::new(Session::new())).collect(),
            used: CachePadded::new(AtomicUsize::new(0)),
            least,
            most,
            together,
            always: false,
            built,
        }
    }

    /// These chunks, each as large as may be.
    pub(super) fn always_large(self, always: bool) -> Self {
        Chunks { always, most: self.most & !7, ..self }
    }

    /// The session `index` will be used from now on. Callers serialise this among themselves.
    pub(super) fn open(&self, index: usize) {
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    /// Reserves, in the session's chunk or anew, and calls `fill` once. Returns where the record
    /// starts.
    #[inline]
    pub(super) fn insert(
        &self,
        ground: &impl Ground,
        index: usize,
        wanted: Wanted,
        fill: impl FnOnce(u64),
    ) -> Result<u64, Stalled> {
        let session = &*self.sessions[index];
        let left = session.left.load(Ordering::Relaxed);
        let start = if left != 0 && self.claim(session, left) {
            let end = session.end.load(Ordering::Relaxed);
            if left > wanted.after && self.fits(left, wanted.bytes, end) {
                left
            } else {
                ground.pad(left, end);
                session.word.store(CLEAN, Ordering::Release);
                session.lose(left);
                self.reserve(ground, session, wanted)?
            }
        } else {
            self.reserve(ground, session, wanted)?
        };
        fill(start);
        let (cursor, end) = (start + wanted.bytes, session.end.load(Ordering::Relaxed));
        let (word, left) = if cursor == end { (CLEAN, 0) } else { (OPEN | cursor, cursor) };
        session.left.store(left, Ordering::Relaxed);
        session.word.store(word, self.built.order(Mutant::RelaxedOpen, Ordering::Release));
        // Only now: a panic with a hole would leave it open for ever.
        debug_assert!(start > wanted.after || wanted.after == 0, "log order respects `after`");
        Ok(start)
    }

    /// Invariant 6.
    fn fits(&self, cursor: u64, bytes: u64, end: u64) -> bool {
        cursor + bytes == end || cursor + bytes + self.least <= end
    }

    /// Makes the chunk left open at `left` the owner's again, unless a scanner has sealed it.
    fn claim(&self, session: &Session, left: u64) -> bool {
        if self.built.is(Mutant::ClaimedUnasked) {
            let open = session.word.load(Ordering::Acquire) == OPEN | left;
            if open {
                session.word.store(BUSY | left, Ordering::Release);
            }
            return open;
        }
        let (old, new) = (OPEN | left, BUSY | left);
        if session.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        // Until then the word is the scanner's.
        let mut step = 0;
        while session.word.load(Ordering::Acquire) != CLEAN {
            pause(step);
            step += 1;
        }
        session.lose(left);
        false
    }

    /// Bytes to reserve for records of this size: a multiple, so that equal records leave no rest.
    fn size(&self, session: &Session, wanted: Wanted) -> u64 {
        let since = session.count(session.end.load(Ordering::Relaxed));
        if wanted.exactly {
            return wanted.bytes;
        }
        if self.always && wanted.bytes + self.least <= self.most {
            return self.most;
        }
        let most = self.most.min(self.together / self.used.load(Ordering::Relaxed).max(1) as u64);
        let target = (session.target.load(Ordering::Relaxed).max(since) / SHARE).min(most);
        let alike = session.size.load(Ordering::Relaxed) == wanted.bytes;
        session.size.store(wanted.bytes, Ordering::Relaxed);
        let records = target / wanted.bytes;
        if records >= if alike { 2 } else { MIXED } { wanted.bytes * records } else { wanted.bytes }
    }

    /// A new chunk, of which the record is the first. The session is clean, and is again if it is
    /// refused.
    fn reserve(&self, ground: &impl Ground, session: &Session, wanted: Wanted) -> Result<u64, Stalled> {
        session.left.store(0, Ordering::Relaxed);
        let size = self.size(session, wanted);
        let reserved = ground.reserved();
        let announced = self.built.order(Mutant::RelaxedBusy, Ordering::Release);
        // At least AcqRel, as in `marks`: the release shows the announcement, and the acquire is
        // what rule 3 of the ring needs where bytes are added against an older limit.
        let success = self.built.reserves(Mutant::RelaxedChunk, Mutant::ReleaseOnlyChunk);
        let mut attempts = 0;
        loop {
            let lowest = reserved.load(Ordering::Acquire);
            let bytes = if ground.admit(lowest, size).is_ok() {
                size
            } else if let Err(stalled) = ground.admit(lowest, wanted.bytes) {
                if !self.built.is(Mutant::RefusedBusy) {
                    session.word.store(CLEAN, Ordering::Release);
                }
                return Err(stalled);
            } else {
                wanted.bytes
            };
            session.word.store(BUSY | lowest, announced);
            let start = if ground.may_add(bytes) {
                reserved.fetch_add(bytes, success)
            } else if reserved.compare_exchange(lowest, lowest + bytes, success, Ordering::Relaxed).is_ok() {
                lowest
            } else {
                (0..1 << attempts).for_each(|_| spin_loop());
                attempts = if CHECKED { 0 } else { ATTEMPTS.min(attempts + 1) };
                continue;
            };
            session.begin.store(start, Ordering::Relaxed);
            session.end.store(start + bytes, Ordering::Relaxed);
            return Ok(start);
        }
    }

    /// Finds out how far `reserved` is filled; seals what has been open below it since the last
    /// scan.
    pub(super) fn scan(&self, ground: &impl Ground) -> Scan {
        let reserved = ground.reserved();
        let mut cutoff = reserved.load(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire);
        let mut lowest = u64::MAX;
        for session in &self.sessions[..used] {
            let word = session.word.load(Ordering::Acquire);
            let at = word & !STATE;
            match word & STATE {
                CLEAN => {}
                OPEN if at >= cutoff => {}
                OPEN if session.is_idle(word) && self.seal(ground, session, at) => {}
                // The owner goes on, was quicker, or is busy; or another scanner is sealing.
                _ => lowest = lowest.min(at),
            }
        }
        if self.built.is(Mutant::ChunkCutoffLast) {
            cutoff = reserved.load(Ordering::SeqCst);
        }
        Scan { cutoff, filled: lowest.min(cutoff) }
    }

    fn seal(&self, ground: &impl Ground, session: &Session, cursor: u64) -> bool {
        if self.built.is(Mutant::SealedUnasked) {
            session.word.store(SEALING | cursor, Ordering::Release);
        } else {
            let (old, new) = (OPEN | cursor, SEALING | cursor);
            if session.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                return false;
            }
        }
        ground.pad(cursor, session.end.load(Ordering::Relaxed));
        session.word.store(CLEAN, self.built.order(Mutant::RelaxedSeal, Ordering::Release));
        true
    }
}

#[cfg(test)]
mod checks;
