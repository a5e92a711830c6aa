//! The bitmap: one bit for each byte of the ring says whether the byte is filled (ELEDA, section
//! 6.5.4).
//!
//! Owners set the bits of the bytes that they have copied. One scanner at a time, under the lock of
//! `scanner`, goes from the frontier over set bits, clears them, and stops at the first bit that is
//! not set. Loom and the explorer check this file.
//!
//! Failures if a step is left out or its ordering is weaker:
//!
//! - An owner sets bits with Release, and sets the word with the record's first byte last. Without
//!   Release the scanner reports bytes as filled although it does not see them. In another order
//!   the frontier may stop inside a record.
//! - The scanner loads a word with Acquire. Without Acquire the scanner reports bytes as filled
//!   although it does not see them.
//! - The scanner clears the bits before it publishes the frontier. In the other order the next
//!   owner of these bytes of the ring could set the bits before the scanner clears them.
//!
//! Invariants:
//!
//! 1. Only the owner of a byte at or above the frontier sets the byte's bit. The owner sets the bit
//!    only once the byte's place in the ring is free, which is after the scanner has passed that
//!    place in the previous lap.
//! 2. The frontier is the end of a record, because a record's first bit is set last, and the
//!    scanner comes from below.
//!
//! The paper says only "one bit for each byte". The paper does not say which thread clears bits,
//! nor how the scanner is kept from passing a part of a record that spans words (invariant 2 here).

use super::super::mutants::{Built, Mutant};
use crate::sync_shim::{AtomicU64, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Words that share a cache line, wherever the allocator places them.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

const LINE_WORDS: usize = 8;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Bitmap {
    lines: Box<[Line]>,
    /// Number of words in use; the last line may have more.
    words: u64,
    /// Bits of a word: 64, and fewer in models.
    word_bits: u64,
    /// This leaf latch guards the frontier.
    scanner: CachePadded<Mutex<u64>>,
    built: Built,
}

impl Bitmap {
    /// Makes the bitmap for a ring of `ring` bytes and a log that is filled up to `frontier`.
    pub(super) fn new(ring: u64, word_bits: u64, frontier: u64, built: Built) -> Self {
        let words = ring / word_bits;
        let line = |_| Line(std::array::from_fn(|_| AtomicU64::new(0)));
        let lines = (0..words.div_ceil(LINE_WORDS as u64)).map(line).collect();
        Bitmap { lines, words, word_bits, scanner: CachePadded::new(Mutex::new(frontier)), built }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        let place = (at / self.word_bits % self.words) as usize;
        &self.lines[place / LINE_WORDS].0[place % LINE_WORDS]
    }

    /// Returns the bits of the bytes `[from, to)`, which lie in one word.
    fn bits(&self, from: u64, to: u64) -> u64 {
        let length = to - from;
        let ones = if length == 64 { u64::MAX } else { (1 << length) - 1 };
        ones << (from % self.word_bits)
    }

    /// Sets the bits of `[start, end)`, which the owner has filled.
    #[inline]
    pub(super) fn set(&self, start: u64, end: u64) {
        let order = self.built.order(Mutant::RelaxedBits, Ordering::Release);
        let mut to = end;
        while to > start {
            let from = ((to - 1) / self.word_bits * self.word_bits).max(start);
            if self.built.is(Mutant::FirstBitFirst) {
                let (from, to) = (start + end - to, (start + end - from).min(end));
                for at in from..to {
                    self.word(at).fetch_or(self.bits(at, at + 1), order);
                }
            } else if to - from == self.word_bits {
                // This owner owns all bytes of the word.
                self.word(from).store(self.bits(from, to), order);
            } else {
                self.word(from).fetch_or(self.bits(from, to), order);
            }
            to = from;
        }
    }

    /// Advances the frontier over set bits. Calls `passed` with the new frontier while no other
    /// thread scans.
    pub(super) fn scan(&self, passed: impl Fn(u64)) -> u64 {
        let mut frontier = self.scanner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *frontier;
        let mut at = before;
        loop {
            let word_end = (at / self.word_bits + 1) * self.word_bits;
            let set = self.word(at).load(Ordering::Acquire) >> (at % self.word_bits);
            let run = u64::from(set.trailing_ones()).min(word_end - at);
            if run > 0 && !self.built.is(Mutant::ClearedLate) {
                self.word(at).fetch_and(!self.bits(at, at + run), Ordering::AcqRel);
            }
            at += run;
            // Scan at most one lap of the ring: the bits of a second lap are those that this scan
            // has just cleared.
            if at < word_end || at - before >= self.word_bits * self.words {
                break;
            }
        }
        passed(at);
        if self.built.is(Mutant::ClearedLate) {
            (before..at).for_each(|at| {
                self.word(at).fetch_and(!self.bits(at, at + 1), Ordering::AcqRel);
            });
        }
        *frontier = at;
        at
    }
}

#[cfg(test)]
mod checks;
