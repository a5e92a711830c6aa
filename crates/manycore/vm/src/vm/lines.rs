//! The cache lines of the simulated machine: the cores that have a copy of a line, its owner, and
//! the time until which the line is busy.
//!
//! Invariants:
//!
//! 1. A line is in one of three states: one core owns the line and has the only copy; one or more
//!    cores have copies that they may only read; no core has a copy.
//! 2. Lines are numbered in the order of their first accesses. So addresses decide only which words
//!    share 64 bytes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A set of cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cores([u64; 4]);

impl Cores {
    pub(super) fn one(core: usize) -> Self {
        let mut cores = Cores::default();
        cores.add(core);
        cores
    }

    pub(super) fn add(&mut self, core: usize) {
        self.0[core / 64] |= 1 << (core % 64);
    }

    pub(super) fn has(&self, core: usize) -> bool {
        self.0[core / 64] >> (core % 64) & 1 != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..4).flat_map(move |word| {
            let mut bits = self.0[word];
            std::iter::from_fn(move || {
                let bit = bits.checked_ilog2()?;
                bits &= !(1 << bit);
                Some(word * 64 + bit as usize)
            })
        })
    }
}

/// A cache line.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) holders: Cores,
    pub(super) owner: Option<u16>,
    /// Time until which the line is busy, in picoseconds.
    pub(super) busy_until: u64,
    /// Number of changes of values in the line.
    pub(super) version: u64,
    /// Threads that wait for a change, each with the number of its wait.
    pub(super) watchers: Vec<(usize, u32)>,
}

/// A fast hash function by multiplication. The function need not resist chosen addresses.
#[derive(Debug, Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// All lines that were ever accessed.
#[derive(Debug, Default)]
pub(super) struct Lines {
    numbers: HashMap<usize, u32, BuildHasherDefault<Multiply>>,
    lines: Vec<Line>,
}

impl Lines {
    /// Returns the number of the line that contains this address.
    pub(super) fn number(&mut self, address: usize) -> u32 {
        let next = self.lines.len() as u32;
        let number = *self.numbers.entry(address / 64).or_insert(next);
        if number == next {
            self.lines.push(Line::default());
        }
        number
    }

    pub(super) fn at(&mut self, number: u32) -> &mut Line {
        &mut self.lines[number as usize]
    }
}
