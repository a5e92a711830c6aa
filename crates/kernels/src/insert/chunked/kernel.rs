//! Chunks: each session reserves space for several records at a time and fills it record by record,
//! so that most appends touch no shared word.
//!
//! Every appender and every scanner runs this code. Loom and the explorer check it. The word of a
//! session is a state and a position:
//!
//! | state | position | meaning | next state, and the thread that changes it |
//! |---|---|---|---|
//! | CLEAN | | no chunk, or a full one | BUSY: the owner, before it reserves |
//! | BUSY | p | the owner fills bytes at or above p | OPEN, CLEAN or another BUSY: the owner |
//! | OPEN | c | filled up to c, the rest is free | BUSY: the owner; SEALING: a scanner |
//! | SEALING | c | a scanner pads the rest, from c on | CLEAN: that scanner |
//!
//! Invariants:
//!
//! 1. While a session has a hole, its word is BUSY, OPEN or SEALING, and the hole lies at or above
//!    the word's position. The owner stores BUSY (Release) before it reserves by a
//!    read-modify-write of `reserved` (at least AcqRel). A scan loads `reserved` (the cutoff) with
//!    at least Acquire, and then the words. So a scan that sees a reservation also sees its BUSY,
//!    and misses no hole.
//! 2. Only the owner changes CLEAN and BUSY. The owner or a scanner changes OPEN; the thread that
//!    wins owns the chunk's rest, and no other thread touches it. So a record and a padding record
//!    never overlap.
//! 3. The owner writes `end` while the word is BUSY or CLEAN. The owner, and the scanner that won,
//!    read it. Positions of a word only grow, so a compare-and-swap never confuses two chunks.
//! 4. Each chunk below the cutoff is full, or the scan pads it, or the scan counts it as a hole.
//!    The scan pads a chunk that is open at the position at which the previous scan saw it open. So
//!    an idle session delays no thread: the second scan passes its chunk. A thread that needs the
//!    filled frontier above the chunk scans until the frontier is there.
//! 5. A record that names another record in `after` lies above it. The owner compares `after` with
//!    the record's position in the open chunk. A new chunk starts at the present value of
//!    `reserved`, which is above every record so far.
//! 6. The rest of a chunk has 0 bytes or at least `least` bytes, so that a padding record fits. A
//!    chunk never grows, even if no thread has reserved after it. A scan may return any value that
//!    `reserved` has had, and must return the end of a record; but the former end of a chunk that
//!    grew could lie inside a record.
//!
//! The owner waits for a scanner that is padding its chunk; the owner has no hole at that time. A
//! scanner waits for no thread.
//!
//! A session loses the rest of its chunk when a scan seals the chunk, or when a record does not fit
//! or must lie higher. Each loss costs about half a chunk. To keep this cost small, the size of a
//! chunk is 1/[`SHARE`] of the bytes that the session appended between two losses: the lesser of
//! the last two such numbers, or the bytes since the last loss if these are more. A session that
//! waits for each of its records loses a rest each time, until its chunks have one record and no
//! rest. A session that never waits is never found idle, and gets the largest chunks. A new session
//! begins with chunks of at most [`FIRST`] bytes. If a session's records have different sizes,
//! about half a record is lost at the end of each chunk. So a chunk of such a session has room for
//! one record, or for at least [`MIXED`]. If all records have one size, the size of a chunk is a
//! multiple of it. A chunk of several records has at most the session's equal share of a quarter of
//! the run-ahead limit, because the filled frontier stops at the lowest open chunk.
//!
//! Small chunks are reserved by addition; the word then holds a lower bound of the position, which
//! is enough for invariant 1. Large chunks are reserved by compare-and-swap with growing pauses,
//! because without pauses nearly every attempt would fail if many threads try.

use super::super::mutants::{Built, Mutant};
use super::super::{Admitted, Scan, Stalled};
use crate::sync_shim::{AtomicU64, AtomicUsize, CHECKED, Ordering, pause, spin_loop};
use crossbeam_utils::CachePadded;

const STATE: u64 = 3 << 62;
const CLEAN: u64 = 0;
const BUSY: u64 = 1 << 62;
const OPEN: u64 = 2 << 62;
const SEALING: u64 = 3 << 62;

/// Minimum number of records of a chunk, if records have different sizes.
const MIXED: u64 = 48;

/// Divisor for the size of a session's chunk: 1/`SHARE` of the bytes that the session appended
/// between two losses (see the head of this file).
const SHARE: u64 = 64;

/// Maximum bytes of a new session's chunks, unless its record is larger.
const FIRST: u64 = 1024;

/// Number of times that the pause after a failed compare-and-swap doubles.
const ATTEMPTS: u32 = 7;

/// The log as the algorithm sees it. The log implements this trait, and so do small models in
/// tests.
pub(super) trait Ground: Admitted {
    /// Fills `[from, to)` with a padding record.
    fn pad(&self, from: u64, to: u64);
}

#[derive(Debug)]
struct Session {
    // See the table. Stores that end a copy are Release; scanners' loads and all compare-and-swaps
    // acquire.
    word: CachePadded<AtomicU64>,
    // End of the chunk (invariant 3).
    end: AtomicU64,
    // Position at which the owner left its chunk open; 0 if it has none. Only the owner accesses
    // this field and the next five.
    left: AtomicU64,
    // Position from which on bytes are not counted in `since` yet.
    begin: AtomicU64,
    // Bytes appended since the session last lost a rest.
    since: AtomicU64,
    // Bytes appended between the last two losses.
    last: AtomicU64,
    // The lesser of the last two values of `last`.
    target: AtomicU64,
    // Bytes of the first record of the last chunk.
    size: AtomicU64,
    // The word as a scan last saw it OPEN. Only scanners access this field; its value may be out of
    // date.
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

    /// Returns whether the last scan saw `word` too. Called by a scanner.
    fn is_idle(&self, word: u64) -> bool {
        let idle = self.seen.load(Ordering::Relaxed) == word;
        if !idle {
            self.seen.store(word, Ordering::Relaxed);
        }
        idle
    }

    /// Counts the bytes of the chunk up to `cursor`, to which the owner has filled it. Returns the
    /// bytes since the last loss.
    fn count(&self, cursor: u64) -> u64 {
        let since = self.since.load(Ordering::Relaxed) + (cursor - self.begin.load(Ordering::Relaxed));
        self.since.store(since, Ordering::Relaxed);
        self.begin.store(cursor, Ordering::Relaxed);
        since
    }

    /// Notes that the owner has lost the rest of a chunk, from `cursor` on.
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
    /// Sessions `[0, used)` have been in use. Stored (Release) before a new session's first BUSY.
    /// Scans load it (Acquire) after the cutoff, so they look at the word of every reservation
    /// below the cutoff.
    used: CachePadded<AtomicUsize>,
    least: u64,
    most: u64,
    /// Bytes of which each session in use has an equal share. A chunk of several records is not
    /// larger than this share.
    together: u64,
    /// True if each chunk has `most` bytes, whatever the session has appended.
    always: bool,
    built: Built,
}

/// A record to insert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    /// The position above which the record must lie; 0 for none.
    pub(super) after: u64,
    /// True if only the record's own bytes may be reserved.
    pub(super) exactly: bool,
}

impl Chunks {
    /// Makes the chunks of at most `sessions` sessions. A padding record has at least `least`
    /// bytes, and a chunk at most `most`. The sessions share `together` bytes for their open
    /// chunks.
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

    /// If `always` is true, each chunk is as large as possible.
    pub(super) fn always_large(self, always: bool) -> Self {
        Chunks { always, most: self.most & !7, ..self }
    }

    /// Announces that the session `index` will be used from now on. Callers make these calls one at
    /// a time.
    pub(super) fn open(&self, index: usize) {
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    /// Takes bytes of the session's chunk or reserves a new chunk, and calls `fill` once. Returns
    /// the position at which the record starts.
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
        // The check comes after the fill, because a panic before it would leave a hole for ever.
        debug_assert!(start > wanted.after || wanted.after == 0, "log order respects `after`");
        Ok(start)
    }

    /// Returns whether a record of `bytes` at `cursor` fits into a chunk that ends at `end`
    /// (invariant 6).
    fn fits(&self, cursor: u64, bytes: u64, end: u64) -> bool {
        cursor + bytes == end || cursor + bytes + self.least <= end
    }

    /// Claims the chunk that the owner left open at `left`. Returns false if a scanner has sealed
    /// it.
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
        // A scanner owns the word until it is CLEAN.
        let mut step = 0;
        while session.word.load(Ordering::Acquire) != CLEAN {
            pause(step);
            step += 1;
        }
        session.lose(left);
        false
    }

    /// Returns the bytes to reserve: a multiple of the record's bytes, so that records of equal
    /// size leave no rest.
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

    /// Reserves a new chunk, which begins with the record. The session's word is CLEAN before, and
    /// also afterwards if the record is refused.
    fn reserve(&self, ground: &impl Ground, session: &Session, wanted: Wanted) -> Result<u64, Stalled> {
        session.left.store(0, Ordering::Relaxed);
        let size = self.size(session, wanted);
        let reserved = ground.reserved();
        let announced = self.built.order(Mutant::RelaxedBusy, Ordering::Release);
        // The reservation is at least AcqRel, as in `marks`. The release publishes the
        // announcement. The acquire is needed for rule 3 of the ring, because a chunk that is
        // reserved by addition may have been admitted against an older limit.
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

    /// Finds out how far the log is filled. Seals chunks that have been open at one position since
    /// the last scan.
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
                // The owner has appended since the last scan, has claimed the chunk or is busy, or
                // another scanner is sealing the chunk.
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
