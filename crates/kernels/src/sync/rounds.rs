//! The two interfaces between a log and its sync protocol: [`Rounds`], which the protocol calls,
//! and [`SyncProtocol`], which the log calls.

use super::tally::SyncTally;
use crate::durability::Durability;
use crate::lsn::Lsn;
use crate::sync_shim::{CHECKED, Instant};
use std::fmt::Debug;
use std::time::Duration;

/// Purpose of the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The highest level that waiters and requests ask for.
    pub level: Durability,
    /// The position that the calling thread itself waits for. `plan` waits a short time for holes
    /// below this position to be filled.
    pub own: Lsn,
    /// True if the write must not go beyond `own`.
    pub only_own: bool,
    /// Maximum number of writes under way, this one included; at least 1.
    pub depth: u32,
}

/// A planned write. The write counts as under way from the plan on, and the caller must perform it.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Start of the write: a multiple of the block size.
    pub from: Lsn,
    /// End of the write. The end lies within a block if the write contains the tail of the log.
    pub to: Lsn,
    /// The filled frontier at the time of the plan: the end of a record.
    pub filled: Lsn,
    /// True if this write and the earlier ones contain everything that was reserved before the
    /// plan.
    pub all: bool,
    /// True if the write is durable without a sync, once the earlier writes are durable.
    pub durable: bool,
    /// True if other writes may be planned while this one is under way.
    pub parallel: bool,
}

/// Decision about the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The caller must perform this write.
    Write(Planned),
    /// There are filled bytes, but a write in flight must end before they can be written.
    Blocked,
    /// There is nothing to write now.
    Nothing {
        /// True if everything that was reserved before the plan is in a write. In this case there
        /// is no hole.
        all: bool,
        /// True if a write is under way.
        under_way: bool,
        /// True if the written bytes need a sync to reach the level that was asked for.
        needs_sync: bool,
    },
}

/// The log as a protocol sees it. The log implements this trait, and so do small models in tests.
pub trait Rounds {
    /// Decides on the next write.
    fn plan(&self, ask: Ask) -> Plan;
    /// Performs a write. The frontiers advance over all writes below the first write that has not
    /// ended. There is no error to return: a failure settles all waiters.
    fn perform(&self, write: &Planned);
    /// Makes the written bytes durable. If `again` is true, the device gets a sync even if all of
    /// them are durable already.
    fn sync(&self, again: bool);
    /// Returns true if the log up to `end` has reached `level`, or never will because the log has
    /// failed.
    fn settled(&self, end: Lsn, level: Durability) -> bool;
    /// Returns true if all writes up to `to` have ended and are durable without a sync, or never
    /// will be because the log has failed. `to` is the end of a write, perhaps within a record.
    fn ended(&self, to: Lsn) -> bool;
    /// The reserved frontier: the start of the next record.
    fn reserved(&self) -> Lsn;
    /// Returns whether the frontiers have stopped for good.
    fn is_over(&self) -> bool;
    /// The written frontier.
    fn written(&self) -> Lsn;
    /// Starts a thread that calls [`SyncProtocol::serve`] with `number`. Returns false if no thread
    /// can be started.
    fn start_syncer(&self, number: usize) -> bool;
    /// Counters of the rounds.
    fn tally(&self) -> &SyncTally;
}

/// A sync protocol, which makes filled bytes written and durable.
pub trait SyncProtocol: Send + Sync + Debug {
    /// Blocks until `end`, which is reserved, is settled at `level`.
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// Makes sure that `end`, which is reserved, reaches `level` later, and returns without
    /// waiting. In most designs everything reserved by now reaches `level` too.
    fn request(&self, rounds: &dyn Rounds, end: Lsn, level: Durability);
    /// Called by a thread that has requested commits and may block. The design may use the thread
    /// to write what is due. By default the call does nothing, because other threads serve
    /// requests.
    fn offer(&self, _rounds: &dyn Rounds) {}
    /// The body of the syncer thread with this number.
    fn serve(&self, rounds: &dyn Rounds, number: usize);
    /// Ends [`SyncProtocol::serve`] once all given requests are served. From then on each
    /// requesting thread serves its own request.
    fn stop(&self);
    /// Number of wake-ups of syncer threads.
    fn syncer_wakeups(&self) -> u64;
    /// Returns true if a position that the frontiers have reached needs no call of
    /// [`SyncProtocol::wait`]. Returns false if the design compares a commit's LSN with its own
    /// sync LSN instead.
    fn looks_at_frontiers(&self) -> bool {
        true
    }
    /// Returns whether each request gets a write and sync of its own. If not, one request for
    /// everything reserved replaces several requests.
    fn syncs_each(&self) -> bool {
        false
    }
    /// Maximum number of writes in flight.
    fn depth(&self) -> u32 {
        1
    }
}

/// Measures a duration. Under the checkers the duration is always zero.
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
