//! Head and tail of `nv_logging`, in NVRAM, behind the heap.
//!
//! ```text
//! | head 0, 32 bytes | zeros | head 1 at 64, 32 bytes | zeros | tail u64 at 128 | zeros up to 4 KiB |
//! head: seq u64 | start u64 | incarnation of the record at the start u32, 0 u32 | check u64: sum of the bytes before
//! ```
//!
//! Little-endian words. The report's index is not stored: it follows from the position (`entries`).
//! Rules:
//!
//! 1. Heads are written into two slots in turn, and persisted before the start moves. The sound
//!    head with the larger `seq` is valid, so a crash leaves the old start or the new one.
//! 2. The tail is one word. Only the one thread that is committing moves the tail, after all
//!    entries below the new tail were persisted. Everything below the tail that an opening finds
//!    was therefore durable.
//! 3. A new log's heads and tail are zeroed before its header is made. A head with sequence number
//!    0 is no head.

use crate::control::ControlState;
use katydid_device::nvram::NvRegion;
use katydid_kernels::checksum::Sum;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync_shim::Ordering;
use std::sync::Arc;

/// Bytes of head and tail.
pub(super) const POINTERS_BYTES: u64 = 4096;
const HEAD_WORDS: u64 = 4;
const HEADS: u64 = 2;
const HEAD_APART: u64 = 64;
const TAIL_AT: u64 = 128;

/// The head: where the log starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    seq: u64,
    pub(super) start: Lsn,
    pub(super) start_incarnation: u32,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pointers {
    region: Arc<NvRegion>,
    at: u64,
}

impl Pointers {
    pub(super) fn new(region: Arc<NvRegion>, at: u64) -> Self {
        debug_assert!(at + POINTERS_BYTES <= region.len(), "the region was made so");
        Pointers { region, at }
    }

    /// Zeroes head and tail for a new log (rule 3). The caller has the region alone.
    pub(super) fn clear(&self) {
        for at in (0..TAIL_AT + 8).step_by(8) {
            self.store(at, 0);
        }
        self.region.persist(self.at, TAIL_AT + 8);
    }

    /// Returns the valid head; `None` if the head was never moved.
    pub(super) fn head(&self) -> Option<Head> {
        (0..HEADS).filter_map(|which| self.head_in(which)).max_by_key(|head| head.seq)
    }

    fn head_in(&self, which: u64) -> Option<Head> {
        let at = which * HEAD_APART;
        let [seq, start, incarnation, check] = [0, 8, 16, 24].map(|word| self.load(at + word));
        let incarnation32 = u32::try_from(incarnation).ok()?;
        let sound =
            (1..u64::MAX).contains(&seq) && check == check_of(seq, start, incarnation) && is_position(start);
        sound.then(|| Head { seq, start: Lsn::new(start), start_incarnation: incarnation32 })
    }

    /// Moves the head, persistently (rule 1). Called by one thread at a time.
    pub(super) fn move_head(&self, start: Lsn, start_incarnation: u32) {
        let seq = self.head().map_or(1, |head| head.seq + 1);
        let at = seq % HEADS * HEAD_APART;
        let incarnation = u64::from(start_incarnation);
        let words = [seq, start.get(), incarnation, check_of(seq, start.get(), incarnation)];
        (0..HEAD_WORDS).zip(words).for_each(|(word, value)| self.store(at + word * 8, value));
        self.region.persist(self.at + at, HEAD_WORDS * 8);
    }

    /// Moves the tail, persistently (rule 2).
    pub(super) fn move_tail(&self, to: Lsn) {
        self.store(TAIL_AT, to.get());
        self.region.persist(self.at + TAIL_AT, 8);
    }

    /// Returns the state in the control file, corrected by head and tail. If the tail is not a
    /// valid position, it is ignored, and the walk over the entries alone decides where the log
    /// ends.
    pub(super) fn correct(&self, state: &ControlState) -> ControlState {
        let mut state = *state;
        if let Some(head) = self.head().filter(|head| head.start > state.start) {
            (state.start, state.start_incarnation) = (head.start, head.start_incarnation);
        }
        let tail = self.load(TAIL_AT);
        if is_position(tail) {
            state.durable = state.durable.max(Lsn::new(tail));
        }
        state
    }

    fn load(&self, at: u64) -> u64 {
        u64::from_le(self.region.word(self.at + at).load(Ordering::Acquire))
    }

    fn store(&self, at: u64, value: u64) {
        self.region.word(self.at + at).store(value.to_le(), Ordering::Release);
    }
}

fn is_position(position: u64) -> bool {
    position <= Lsn::LIMIT.get() && position.is_multiple_of(8)
}

fn check_of(seq: u64, start: u64, incarnation: u64) -> u64 {
    let mut sum = Sum::new();
    for word in [seq, start, incarnation] {
        sum.update(&word.to_le_bytes());
    }
    // The check is never 0, so that zeros are no head.
    u64::from(sum.finish()) | 1 << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers() -> Pointers {
        Pointers::new(Arc::new(NvRegion::memory(POINTERS_BYTES)), 0)
    }

    #[test]
    fn the_last_head_counts_and_a_torn_one_does_not() {
        let pointers = pointers();
        assert_eq!(pointers.head(), None);
        for start in [8, 16, 24] {
            pointers.move_head(Lsn::new(start), start as u32);
            let head = pointers.head().expect("moved");
            assert_eq!((head.start.get(), head.start_incarnation), (start, start as u32));
        }
        // The third head is in slot 1, and any of its words may be missing after a crash.
        for word in 0..HEAD_WORDS {
            let at = HEAD_APART + word * 8;
            let whole = pointers.load(at);
            pointers.store(at, whole ^ 1 << 7);
            assert_eq!(pointers.head().map(|head| head.start), Some(Lsn::new(16)), "word {word}");
            pointers.store(at, whole);
        }
        pointers.clear();
        assert_eq!(pointers.head(), None);
    }
}
