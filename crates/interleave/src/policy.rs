//! Choice of the thread that goes on.
//!
//! A seed picks one of three ways.
//!
//! 1. Random walk: each place hands the turn on with one probability, to any thread.
//! 2. Priorities (probabilistic concurrency testing, Burckhardt et al., ASPLOS 2010): the thread of
//!    the highest priority runs. At a few random places of the run, the running thread's priority
//!    becomes the lowest. So one thread is held up for long, and the others run through.
//! 3. Lines: priorities as in 2, but the running thread falls back at one place in two of a few
//!    lines of the code, which the seed picks. A line that is rarely passed is picked as often as
//!    any, so a step between two rare places is met far more often than by counting places. Lines
//!    of [`Kind::Between`] are picked more often than others.

use fastrand::Rng;
use std::panic::Location;

/// Kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A latch, a call.
    Common,
    /// Between two steps whose order matters.
    Between,
}

impl Kind {
    /// One line in this many is picked.
    fn lines(self) -> u64 {
        match self {
            Kind::Common => 16,
            Kind::Between => 3,
        }
    }
}

#[derive(Debug)]
enum Strategy {
    /// Hands the turn on at one place of `of`.
    Walk { of: u32 },
    /// Events, counted from the beginning, at which the running thread falls back.
    Events { falls: Vec<u64> },
    /// The hash of a picked line with this key is a multiple of [`Kind::lines`].
    Lines { key: u64 },
}

#[derive(Debug)]
pub(crate) struct Policy {
    random: Rng,
    way: Strategy,
    /// Priority of each thread; unused by the random walk.
    priorities: Vec<i64>,
    lowest: i64,
}

impl Policy {
    pub(crate) fn new(seed: u64, threads: usize) -> Self {
        let mut random = Rng::with_seed(seed);
        let way = match random.u8(..4) {
            0 => Strategy::Walk { of: [2, 4, 12, 40][random.usize(..4)] },
            1 => {
                // About the length of the run: tests differ in it by powers of ten.
                let length = 50 << random.u32(0..8);
                Strategy::Events { falls: (0..random.usize(1..5)).map(|_| random.u64(0..length)).collect() }
            }
            _ => Strategy::Lines { key: random.u64(..) },
        };
        let mut priorities: Vec<i64> = (1..=threads as i64).collect();
        random.shuffle(&mut priorities);
        Policy { random, way, priorities, lowest: 0 }
    }

    /// Returns whether the running thread keeps the turn at this line, which is event number
    /// `event`.
    pub(crate) fn stays(&mut self, own: usize, event: u64, line: &Location<'_>, kind: Kind) -> bool {
        let falls = match &self.way {
            Strategy::Walk { of } => return self.random.u32(0..*of) > 0,
            Strategy::Events { falls } => falls.contains(&event),
            Strategy::Lines { key } => hash(*key, line).is_multiple_of(kind.lines()) && self.random.bool(),
        };
        if falls {
            self.fall(own);
        }
        !falls
    }

    /// The thread cannot go on before another has: it comes last.
    pub(crate) fn fall(&mut self, own: usize) {
        self.lowest -= 1;
        self.priorities[own] = self.lowest;
    }

    pub(crate) fn random(&mut self) -> u8 {
        self.random.u8(..)
    }

    /// One of the threads that can go on.
    pub(crate) fn choose(&mut self, ready: &[usize]) -> usize {
        match &self.way {
            Strategy::Walk { .. } => ready[self.random.usize(..ready.len())],
            Strategy::Events { .. } | Strategy::Lines { .. } => {
                *ready.iter().max_by_key(|thread| self.priorities[**thread]).expect("a thread that can go on")
            }
        }
    }
}

/// FNV-1a of the line with a key, then mixed.
fn hash(key: u64, line: &Location<'_>) -> u64 {
    let numbers = [line.line(), line.column()].map(u32::to_le_bytes);
    let bytes = line.file().bytes().chain(numbers.into_iter().flatten());
    let sum = bytes.fold(key, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    sum ^ sum >> 29
}
