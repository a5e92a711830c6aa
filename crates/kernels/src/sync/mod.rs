//! Stage three: who writes and syncs, and who is told.
//!
//! One trait, [`SyncProtocol`]; one file per design; all of them pass `testing::conformance`.
//!
//! | design | source | its pieces |
//! |---|---|---|
//! | `per_commit` | the papers' baseline | `requests` |
//! | `grouped` | Efficient flushing, 2.2 | `requests` |
//! | `aggregated` | Efficient flushing, 3.1 | `requests` |
//! | `pipelined` | Aether 4, ELEDA 3.3 | `waiters`, `leading`, `syncer`, `grouping` |
//! | `adaptive` | ours | `waiters`, `leading`, `syncer`, `gather`, `inflight`, `depth` |
//! | `persisted` | of logs in NVRAM, whatever the options name | `requests` |
//!
//! Rules for every design:
//!
//! 1. One thread at a time calls [`Rounds::plan`]: the holder of the baton, or of the design's latch for writing. Whoever got a
//!    [`Planned`] write performs it. One thread at a time calls [`Rounds::sync`], and none while writes are under way that it
//!    planned.
//! 2. Whoever is queued is looked at after every write and sync, and woken once settled. After a failure everybody is settled.
//! 3. A wish (a non-blocking request) is forgotten only when a write was planned that takes everything reserved before it.
//! 4. With nobody queued and nothing wished, no thread runs: there is no timer.

mod adaptive;
mod aggregated;
#[cfg(test)]
mod checks;
mod depth;
mod gather;
mod grouped;
mod grouping;
mod inflight;
mod leading;
mod per_commit;
mod persisted;
mod pipelined;
mod requests;
mod syncer;
mod waiters;

pub(crate) use persisted::Persisted;

use crate::counters::SyncTally;
use crate::options::{Options, SyncKind};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What the next write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    /// What somebody waits or asks for.
    pub(crate) level: Durability,
    /// What the one who asks waits for itself; a hole below it is waited for, briefly.
    pub(crate) own: Lsn,
    /// Whether to write no further than `own`.
    pub(crate) only_own: bool,
    /// Most writes under way, this one included; at least 1.
    pub(crate) depth: u32,
}

/// A write that was decided on, and is under way from then on. It must be performed.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Where it starts: a multiple of the block.
    pub(crate) from: Lsn,
    /// Where it ends; within a block if it writes the tail of the log.
    pub(crate) to: Lsn,
    /// Up to where the log was filled then: the end of a record.
    pub(crate) filled: Lsn,
    /// Everything that had been reserved before is in it, or in those before it.
    pub(crate) all: bool,
    /// It is durable by itself, once those before it are.
    pub(crate) durable: bool,
    /// Others may be planned while it is under way.
    pub(crate) parallel: bool,
}

/// What there is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// This.
    Write(Planned),
    /// What there is has to wait until a write under way has ended.
    Blocked,
    /// Nothing now.
    Nothing {
        /// Not even holes: everything reserved before is in a write.
        all: bool,
        /// Some of it in writes that are under way.
        under_way: bool,
        /// A sync is needed to get what is written to the level that was asked for.
        needs_sync: bool,
    },
}

/// What a protocol drives. Implemented by the log, and by small models in tests.
pub(crate) trait Rounds {
    /// Decides on the next write.
    fn plan(&self, ask: Ask) -> Plan;
    /// Writes; the frontiers advance over all writes that have ended without a gap. Never returns an error: a failure settles
    /// everybody.
    fn perform(&self, write: &Planned);
    /// Makes what is written durable. With `again`, the device is told to even if everything is.
    fn sync(&self, again: bool);
    /// Whether `end` has got to `level`, or never will.
    fn settled(&self, end: Lsn, level: Durability) -> bool;
    /// Whether the writes up to where one ends, perhaps within a record, have ended too, and are durable by themselves; or
    /// never will.
    fn ended(&self, to: Lsn) -> bool;
    /// Where the next record will start.
    fn reserved(&self) -> Lsn;
    /// Whether no frontier moves any more.
    fn is_over(&self) -> bool;
    /// How far the log is written.
    fn written(&self) -> Lsn;
    /// Starts a thread that calls [`SyncProtocol::serve`] with this number; false if that is impossible.
    fn start_syncer(&self, number: usize) -> bool;
    /// Where what happens is counted.
    fn tally(&self) -> &SyncTally;
}

/// A design of stage three.
pub(crate) trait SyncProtocol: Send + Sync + Debug {
    /// Blocks until `end`, which is reserved, is settled at `level`.
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// Makes sure that everything reserved by now gets to `level`; does not wait for it.
    fn request(&self, rounds: &dyn Rounds, level: Durability);
    /// The body of the syncer thread of this number.
    fn serve(&self, rounds: &dyn Rounds, number: usize);
    /// Ends [`SyncProtocol::serve`], after what it has in hand. Later requests are served by whoever makes them.
    fn stop(&self);
    /// How often syncer threads have woken up.
    fn syncer_wakeups(&self) -> u64;
    /// How many writes are under way at most, as last found best.
    fn depth(&self) -> u32 {
        1
    }
}

/// The design that the options name.
pub(crate) fn choose(options: &Options) -> Box<dyn SyncProtocol> {
    match options.sync {
        SyncKind::Adaptive => Box::new(adaptive::Adaptive::new(options.depth_min..=options.depth_max)),
        SyncKind::Pipelined => Box::new(pipelined::Pipelined::new(options.group)),
        SyncKind::Aggregated => Box::new(aggregated::Aggregated::new()),
        SyncKind::Grouped => Box::new(grouped::Grouped::new()),
        SyncKind::PerCommit => Box::new(per_commit::PerCommit::new()),
    }
}

/// Counts how long something takes. Under the checkers there is no time.
#[derive(Debug, Clone, Copy)]
struct Stopwatch(Option<Instant>);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch((!katydid_kernels::sync_shim::CHECKED).then(Instant::now))
    }

    fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn nanoseconds(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
