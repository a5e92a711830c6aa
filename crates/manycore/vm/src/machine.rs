//! The description of a simulated machine: its cores, sockets and costs, read from a small TOML
//! file.
//!
//! Pure functions. Comments in `machines/*.toml` give the source of every figure.

use serde::Deserialize;

/// Maximum number of cores of a machine.
const CORES_MAX: usize = 256;

/// Placement of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Threads fill one socket after the other.
    Compact,
    /// Threads go to the sockets in turn.
    Spread,
}

/// Costs of operations in time. All values are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nanos {
    /// A load of a line that is in the core's cache.
    pub load: f64,
    /// The part of a store for which the thread waits.
    pub store: f64,
    /// A read-modify-write, or a store with a fence, of a line that the core owns; also a fence
    /// alone.
    pub modify: f64,
    /// Fetching a line to read it, from a core of the same socket, or from memory if no core has a
    /// copy.
    pub share: f64,
    /// Fetching a line from another socket, to read it.
    pub share_far: f64,
    /// Fetching a line to write it, if all its copies are in the same socket. The copies are
    /// dropped.
    pub own: f64,
    /// Fetching a line to write it, if another socket has a copy. All copies are dropped.
    pub own_far: f64,
    /// Time for which a line is busy when a core fetches the line to read it.
    pub serve: f64,
    /// One pause of a spinning thread.
    pub pause: f64,
    /// A yield. If another thread wants the core, `switch` is added.
    #[serde(rename = "yield")]
    pub yield_now: f64,
    /// A system call that sleeps: the time of the sleeping thread.
    pub sleep: f64,
    /// Waking a sleeping thread: the time of the waking thread.
    pub wake: f64,
    /// Time from a wake-up until the woken thread runs.
    pub woken: f64,
    /// A sleep of a thread that has yielded long enough, the delay of the timer included.
    pub nap: f64,
    /// A switch of the thread on a core.
    pub switch: f64,
    /// Maximum time for which a thread runs while others want its core.
    pub quantum: f64,
    /// The part of an insert that is not an atomic access, a copy or a checksum.
    pub insert: f64,
    /// The part of a copy that does not depend on its size.
    pub copy: f64,
    /// The part of a checksum that does not depend on its size.
    pub sum: f64,
}

/// Bandwidths, in bytes per nanosecond (GB/s).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Checksums of one core.
    pub sum: f64,
    /// Copies of one core.
    pub copy: f64,
    /// All copies of a socket together.
    pub shared: f64,
}

/// A measurement of the real machine, with the code that also runs in simulations.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// The design's name.
    pub inserter: String,
    /// Number of real threads.
    pub threads: usize,
    /// Bytes of a record, header included.
    pub record: usize,
    /// Inserts per second.
    pub per_second: f64,
}

/// The description of a simulated machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A summary of the machine in a few words.
    pub summary: String,
    /// Number of sockets. Each has caches and memory of its own.
    pub sockets: usize,
    /// Number of cores in all sockets. Each core runs one thread at a time.
    pub cores: usize,
    /// Placement of threads.
    pub placement: Placement,
    /// Number of times that a thread looks at a held mutex before it sleeps.
    pub mutex_spins: u32,
    /// Costs in time.
    pub nanos: Nanos,
    /// Costs in bandwidth.
    pub bandwidth: Bandwidth,
    /// Measurements of the real machine, for comparison with simulated runs.
    #[serde(default)]
    pub real: Vec<Real>,
}

/// Error: a description cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The text is not a valid description.
    #[error("not a machine description: {0}")]
    Syntax(String),
    /// A value is out of range.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// The name of the value.
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
    /// The names of the built-in descriptions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The text of the built-in description of this name.
    pub fn built_in(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Reads a description.
    ///
    /// # Errors
    /// A [`MachineError`] that says what is wrong with the text.
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
        // A quantum, and everything that a waiting thread repeats, must take time.
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

    /// Returns the core of the thread with this number. Threads beyond the number of cores share
    /// cores.
    pub(crate) fn core_of(&self, thread: usize) -> usize {
        let place = thread % self.cores;
        match self.placement {
            Placement::Compact => place,
            Placement::Spread => (place % self.sockets) * (self.cores / self.sockets) + place / self.sockets,
        }
    }
}
