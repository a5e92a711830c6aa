//! Description of a simulated machine: its shape and costs, read from a small TOML file.
//!
//! Pure. Every figure in `machines/*.toml` says where it comes from.

use serde::Deserialize;

/// Most cores of a machine.
const CORES_MAX: usize = 256;

/// Placement of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// One socket is filled after the other.
    Compact,
    /// Sockets by turns.
    Spread,
}

/// Times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nanos {
    /// A load of a line that is in the core's cache.
    pub load: f64,
    /// A store, as far as the thread waits for it.
    pub store: f64,
    /// A read-modify-write, or a store with a fence, of a line that the core owns.
    pub modify: f64,
    /// Getting a line to read it, from within the socket.
    pub share: f64,
    /// Getting a line to read it, from another socket.
    pub share_far: f64,
    /// Getting a line to write it, from within the socket, copies elsewhere being dropped.
    pub own: f64,
    /// Getting a line to write it that another socket has.
    pub own_far: f64,
    /// Time that a line is busy when a core gets it to read it.
    pub serve: f64,
    /// One pause of a spinning thread.
    pub pause: f64,
    /// A yield, with no thread to yield to.
    #[serde(rename = "yield")]
    pub yield_now: f64,
    /// A system call that goes to sleep, as far as the thread pays for it.
    pub sleep: f64,
    /// Waking a sleeping thread: what the waker pays.
    pub wake: f64,
    /// Time from the wake-up until the sleeper runs.
    pub woken: f64,
    /// The sleep of a thread that has yielded in vain, timer included.
    pub nap: f64,
    /// Changing the thread on a core.
    pub switch: f64,
    /// Time that a thread runs while others want its core.
    pub quantum: f64,
    /// All of an insert that is neither an atomic access nor a copy nor a checksum.
    pub insert: f64,
    /// One copy, whatever its size.
    pub copy: f64,
    /// One checksum, whatever its size.
    pub sum: f64,
}

/// Bytes per nanosecond (GB/s).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Checksum of one core.
    pub sum: f64,
    /// Copy of one core.
    pub copy: f64,
    /// All copies of a socket together.
    pub shared: f64,
}

/// Results of the same code on the real machine that this describes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// The design's name.
    pub inserter: String,
    /// Real threads.
    pub threads: usize,
    /// Bytes of a record, header included.
    pub record: usize,
    /// Inserts a second.
    pub per_second: f64,
}

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// In a few words.
    pub summary: String,
    /// Each with caches and memory of its own.
    pub sockets: usize,
    /// In all sockets; each runs one thread at a time.
    pub cores: usize,
    /// Placement of threads.
    pub placement: Placement,
    /// Number of times that a thread looks at a held mutex before it sleeps.
    pub mutex_spins: u32,
    /// Times.
    pub nanos: Nanos,
    /// Rates.
    pub bandwidth: Bandwidth,
    /// Measurements to be compared with.
    #[serde(default)]
    pub real: Vec<Real>,
}

/// A description that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Not what a description looks like.
    #[error("not a machine description: {0}")]
    Syntax(String),
    /// A figure out of range.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// Which.
        field: &'static str,
        /// Given value.
        value: f64,
        /// Range of legal values.
        range: &'static str,
    },
}

const BUILT_IN: &[(&str, &str)] = &[
    ("aether", include_str!("../machines/aether.toml")),
    ("eleda", include_str!("../machines/eleda.toml")),
    ("modern", include_str!("../machines/modern.toml")),
    ("host", include_str!("../machines/host.toml")),
];

impl Machine {
    /// The names of the descriptions that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The text of one of those.
    pub fn built_in(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Reads a description.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Machine, MachineError> {
        let machine: Machine =
            toml::from_str(text).map_err(|error| MachineError::Syntax(error.to_string()))?;
        machine.validate()?;
        Ok(machine)
    }

    fn validate(&self) -> Result<(), MachineError> {
        let check = |good: bool, field, value: f64, range| {
            if good { Ok(()) } else { Err(MachineError::Range { field, value, range }) }
        };
        let (cores, sockets) = (self.cores, self.sockets);
        check((1..=CORES_MAX).contains(&cores), "cores", cores as f64, "from 1 to 256")?;
        let fits = sockets > 0 && cores.is_multiple_of(sockets);
        check(fits, "sockets", sockets as f64, "a divisor of cores")?;
        let n = &self.nanos;
        for (field, value) in [
            ("nanos.load", n.load),
            ("nanos.store", n.store),
            ("nanos.modify", n.modify),
            ("nanos.share", n.share),
            ("nanos.share_far", n.share_far),
            ("nanos.own", n.own),
            ("nanos.own_far", n.own_far),
            ("nanos.serve", n.serve),
            ("nanos.pause", n.pause),
            ("nanos.yield", n.yield_now),
            ("nanos.sleep", n.sleep),
            ("nanos.wake", n.wake),
            ("nanos.woken", n.woken),
            ("nanos.nap", n.nap),
            ("nanos.switch", n.switch),
            ("nanos.insert", n.insert),
            ("nanos.copy", n.copy),
            ("nanos.sum", n.sum),
        ] {
            check((0.0..=1e9).contains(&value), field, value, "from 0 to 1e9")?;
        }
        // Time must pass: in a quantum, and in everything that a waiting thread repeats.
        for (field, value) in [
            ("nanos.load", n.load),
            ("nanos.pause", n.pause),
            ("nanos.yield", n.yield_now),
            ("nanos.nap", n.nap),
            ("nanos.quantum", n.quantum),
        ] {
            check((0.01..=1e9).contains(&value), field, value, "from 0.01 to 1e9")?;
        }
        let b = &self.bandwidth;
        for (field, value) in
            [("bandwidth.sum", b.sum), ("bandwidth.copy", b.copy), ("bandwidth.shared", b.shared)]
        {
            check((0.001..=1e6).contains(&value), field, value, "from 0.001 to 1e6")?;
        }
        Ok(())
    }

    /// The core of the thread of this number; beyond the cores it starts again.
    pub(crate) fn core_of(&self, thread: usize) -> usize {
        let place = thread % self.cores;
        match self.placement {
            Placement::Compact => place,
            Placement::Spread => (place % self.sockets) * (self.cores / self.sockets) + place / self.sockets,
        }
    }
}
