//! The bitmap: one bit for each byte of the ring says that it is filled (ELEDA, section 6.5.4).
//!
//! Owners set the bits of what they have copied; one scanner at a time, under `scanner`'s lock,
//! goes from the frontier over set bits, clears them, and stops at the first that is not set.
//! Checked under loom and the explorer.
//!
//! | step | ordering | failure if it is weaker or left out |
//! |---|---|---|
//! | an owner sets bits, the word with its first byte last | Release | the scanner vouches for bytes it does not see; or the frontier stops inside a record |
//! | the scanner loads a word | Acquire | the scanner vouches for bytes it does not see |
//! | it clears the bits before it publishes the frontier | | the next owner of these places sets its bits, and loses them |
//!
//! Invariants:
//!
//! 1. A bit is set only by the owner of the byte at or above the frontier it stands for, and only
//!    once the byte's place in the ring is free, which is after the scanner has passed it on the
//!    round before.
//! 2. The frontier is the end of a record: a record's first bit is set after its others, and the
//!    scanner comes from below.
//!
//! The paper says no more than "one bit for each byte". It leaves open how a record that spans
//! words is kept from being passed by halves (invariant 2 here), and which thread clears.

use super::super::mutants::{Built, Mutant};
use crate::sync_shim::{AtomicU64, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Words that share a cache line, wherever memory lies.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

const LINE_WORDS: usize = 8;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Bitmap {
    lines: Box<[Line]>,
    /// Words in use; the last line may have more.
    words: u64,
    /// 64; fewer in models.
    word_bits: u64,
    /// Guards the frontier. A leaf latch.
    scanner: CachePadded<Mutex<u64>>,
    built: Built,
}

impl Bitmap {
    /// For a ring of `ring` bytes and a log that is filled up to `frontier`.
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

    /// Bits for the bytes `[from, to)` of one word.
    fn bits(&self, from: u64, to: u64) -> u64 {
        let length = to - from;
        let ones = if length == 64 { u64::MAX } else { (1 << length) - 1 };
        ones << (from % self.word_bits)
    }

    /// The owner has filled `[start, end)`.
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
                // All of the word is this owner's.
                self.word(from).store(self.bits(from, to), order);
            } else {
                self.word(from).fetch_or(self.bits(from, to), order);
            }
            to = from;
        }
    }

    /// Goes over set bits, and calls `passed` with the new frontier while no other thread scans.
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
            // A whole round at most: beyond lie the places that were cleared.
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
