//! The policy that chooses the thread that goes on.
//!
//! A seed picks one of three strategies.
//!
//! 1. Random walk: at each place the running thread hands the turn on with a fixed probability, to
//!    any thread.
//! 2. Priorities (probabilistic concurrency testing, Burckhardt et al., ASPLOS 2010): the thread of
//!    the highest priority runs. At a few random places of the run the running thread's priority
//!    becomes the lowest. This thread then goes on only when no thread of a higher priority can.
//! 3. Lines: priorities as in strategy 2, but the seed picks a few lines of the code. Each time the
//!    running thread passes a picked line, its priority becomes the lowest with probability 1/2. A
//!    line that threads rarely pass is picked as often as any other. So this strategy delays
//!    threads between two rare places far more often than strategy 2. Lines of [`Kind::Between`]
//!    are picked more often than others.

use fastrand::Rng;
use std::panic::Location;

/// Kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An ordinary place, such as a latch or a call.
    Common,
    /// A place between two steps whose order matters.
    Between,
}

impl Kind {
    /// Returns `n` such that on average one line in `n` is picked.
    fn lines(self) -> u64 {
        match self {
            Kind::Common => 16,
            Kind::Between => 3,
        }
    }
}

#[derive(Debug)]
enum Strategy {
    /// At each place the running thread hands the turn on with probability 1/`of`.
    Walk { of: u32 },
    /// The numbers of the events at which the running thread gets the lowest priority.
    Events { falls: Vec<u64> },
    /// A line is picked if its hash with `key` is a multiple of [`Kind::lines`].
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
                // The run's length in events is a random guess, because lengths of tests differ by
                // powers of ten.
                let length = 50 << random.u32(0..8);
                Strategy::Events { falls: (0..random.usize(1..5)).map(|_| random.u64(0..length)).collect() }
            }
            _ => Strategy::Lines { key: random.u64(..) },
        };
        let mut priorities: Vec<i64> = (1..=threads as i64).collect();
        random.shuffle(&mut priorities);
        Policy { random, way, priorities, lowest: 0 }
    }

    /// Returns whether the running thread keeps the turn at `line`, at event number `event`.
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

    /// Gives the thread the lowest priority.
    pub(crate) fn fall(&mut self, own: usize) {
        self.lowest -= 1;
        self.priorities[own] = self.lowest;
    }

    pub(crate) fn random(&mut self) -> u8 {
        self.random.u8(..)
    }

    /// Chooses one of the threads that can go on.
    pub(crate) fn choose(&mut self, ready: &[usize]) -> usize {
        match &self.way {
            Strategy::Walk { .. } => ready[self.random.usize(..ready.len())],
            Strategy::Events { .. } | Strategy::Lines { .. } => {
                *ready.iter().max_by_key(|thread| self.priorities[**thread]).expect("a thread that can go on")
            }
        }
    }
}

/// Returns the FNV-1a hash of a key and a line. The bits of the hash are mixed.
fn hash(key: u64, line: &Location<'_>) -> u64 {
    let numbers = [line.line(), line.column()].map(u32::to_le_bytes);
    let bytes = line.file().bytes().chain(numbers.into_iter().flatten());
    let sum = bytes.fold(key, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    sum ^ sum >> 29
}
