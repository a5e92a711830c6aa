//! The two sides of stage three: what a sync protocol drives, and what drives a sync protocol.

use super::tally::SyncTally;
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{CHECKED, Instant};
use std::fmt::Debug;
use std::time::Duration;

/// Purpose of the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Level that is waited or asked for.
    pub level: Durability,
    /// The position that the asking thread itself waits for. It waits for a hole below that
    /// position, for a short time.
    pub own: Lsn,
    /// True if the write must not go beyond `own`.
    pub only_own: bool,
    /// Maximum number of writes under way, this one included; at least 1.
    pub depth: u32,
}

/// A write that was decided on, and counts as under way from then on. The caller must perform it.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Start: a multiple of the block.
    pub from: Lsn,
    /// End; within a block if it writes the tail of the log.
    pub to: Lsn,
    /// The position up to which the log was filled then: the end of a record.
    pub filled: Lsn,
    /// True if this write and those before it have everything that had been reserved before.
    pub all: bool,
    /// True if the write is durable by itself, once those before it are.
    pub durable: bool,
    /// True if other writes may be planned while it is under way.
    pub parallel: bool,
}

/// Decision about the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The caller must perform this write.
    Write(Planned),
    /// The filled bytes have to wait until a write in flight has ended.
    Blocked,
    /// There is nothing to write now.
    Nothing {
        /// Not even holes: everything reserved before is in a write.
        all: bool,
        /// Some of it in writes that are under way.
        under_way: bool,
        /// A sync is needed to get what is written to the level that was asked for.
        needs_sync: bool,
    },
}

/// The log as a protocol sees it. Implemented by the log, and by small models in tests.
pub trait Rounds {
    /// Decides on the next write.
    fn plan(&self, ask: Ask) -> Plan;
    /// Writes; the frontiers advance over all writes that have ended without a gap. Never returns
    /// an error: a failure settles all waiters.
    fn perform(&self, write: &Planned);
    /// Makes what is written durable. With `again`, the device is told to even if everything is.
    fn sync(&self, again: bool);
    /// Returns whether `end` has reached `level`, or never will.
    fn settled(&self, end: Lsn, level: Durability) -> bool;
    /// Returns whether the writes up to `to`, the end of one, perhaps within a record, have ended
    /// and are durable by themselves; or never will.
    fn ended(&self, to: Lsn) -> bool;
    /// Start of the next record.
    fn reserved(&self) -> Lsn;
    /// Returns whether the frontiers have stopped for good.
    fn is_over(&self) -> bool;
    /// Position up to which the log is written.
    fn written(&self) -> Lsn;
    /// Starts a thread that calls [`SyncProtocol::serve`] with this number; false if that is
    /// impossible.
    fn start_syncer(&self, number: usize) -> bool;
    /// Counters of the rounds.
    fn tally(&self) -> &SyncTally;
}

/// A design of stage three.
pub trait SyncProtocol: Send + Sync + Debug {
    /// Blocks until `end`, which is reserved, is settled at `level`.
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// Makes sure that `end`, which is reserved, gets to `level`; does not wait for it. Most
    /// designs take everything reserved by now with it.
    fn request(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// A thread whose commits are requested, and that may block, has time: it writes what is due,
    /// if that is its part. By default requests are met by other threads.
    fn offer(&self, _rounds: &dyn Rounds) {}
    /// The body of the syncer thread of this number.
    fn serve(&self, rounds: &dyn Rounds, number: usize);
    /// Ends [`SyncProtocol::serve`], after what it has in hand. Later requests are served by the
    /// threads that make them.
    fn stop(&self);
    /// Number of wake-ups of syncer threads.
    fn syncer_wakeups(&self) -> u64;
    /// Returns whether a position that the frontiers have reached needs no call of
    /// [`SyncProtocol::wait`]. False where a commit is synced by its own LSN, whatever has been
    /// synced before.
    fn looks_at_frontiers(&self) -> bool {
        true
    }
    /// Returns whether each request gets a write and sync of its own. If not, one request for
    /// everything reserved stands for several.
    fn syncs_each(&self) -> bool {
        false
    }
    /// Maximum number of writes in flight.
    fn depth(&self) -> u32 {
        1
    }
}

/// Counts how long something takes. Under the checkers there is no time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Option<Instant>);

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch((!CHECKED).then(Instant::now))
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn nanoseconds(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
