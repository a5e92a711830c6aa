//! The sync protocols by name, and the settings of each.
//!
//! Plain values and pure functions.

use super::adaptive::Adaptive;
use super::aggregated::Aggregated;
use super::grouped::Grouped;
use super::grouping::Group;
use super::heuristics::{Heuristic, Heuristics};
use super::inline::Inline;
use super::per_commit::PerCommit;
use super::pipelined::Pipelined;
use super::requests::Requested;
use super::rounds::SyncProtocol;
use super::slotted::Slotted;
use crate::insert::OutOfRange;

/// The paper's pool of slots (Efficient flushing, section 4).
const FLUSH_SLOTS: u32 = 16;

/// The protocol by which commits are written and synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SyncKind {
    /// The first waiter writes and syncs for all waiters, and hands over to a waiter that its write
    /// has not covered.
    #[default]
    Adaptive,
    /// A thread of the log writes and syncs (Aether's flush pipelining, ELEDA's flusher). See
    /// [`Group`].
    Pipelined,
    /// Committers queue requests, and the thread that gets the sync lock syncs for all of them
    /// (Efficient flushing, section 3.1).
    Aggregated,
    /// Each thread takes the sync lock. The thread syncs unless the log is already durable up to
    /// its record.
    Grouped,
    /// Threads that meet before the write form a slot, and its last thread writes and syncs for all
    /// of them. A thread skips its own sync only if another thread has synced for a newer record. A
    /// sync for an older record does not count, even if it has covered the thread's record (the
    /// existing scheme of Efficient flushing, section 2.2).
    Slotted,
    /// Threads take turns, and each writes and syncs for itself: the baseline of the papers.
    PerCommit,
    /// The committing thread itself writes and syncs when its group is complete (group commit of
    /// Cicada with P-WAL, section III-B.2). See [`Group`]. A thread with commits in flight writes
    /// and syncs in `wait_below` and `drain`. A thread of the log writes the remaining commits
    /// after the group's time.
    Inline,
}

crate::words!(
    SyncKind,
    "adaptive, pipelined, aggregated, grouped, slotted, per-commit, inline",
    Adaptive = "adaptive",
    Pipelined = "pipelined",
    Aggregated = "aggregated",
    Grouped = "grouped",
    Slotted = "slotted",
    PerCommit = "per-commit",
    Inline = "inline"
);

impl SyncKind {
    /// Every design.
    pub const ALL: [SyncKind; 7] = [
        SyncKind::Adaptive,
        SyncKind::Pipelined,
        SyncKind::Aggregated,
        SyncKind::Grouped,
        SyncKind::Slotted,
        SyncKind::PerCommit,
        SyncKind::Inline,
    ];

    /// The heuristics that the design uses.
    #[doc(hidden)]
    pub const fn heuristics(self) -> &'static [Heuristic] {
        use Heuristic::{Backoff, Delay, ManyCommitters, Yield};
        match self {
            SyncKind::Adaptive => &Heuristic::ALL,
            SyncKind::Pipelined => &[Delay, Backoff, Yield, ManyCommitters],
            SyncKind::Aggregated
            | SyncKind::Grouped
            | SyncKind::Slotted
            | SyncKind::PerCommit
            | SyncKind::Inline => &[],
        }
    }

    /// Returns whether a commit that another commit's sync has covered is acknowledged without a
    /// sync of its own.
    pub const fn shares_syncs(self) -> bool {
        !matches!(self, SyncKind::Slotted | SyncKind::PerCommit)
    }
}

/// A sync protocol and its settings.
///
/// For example, `SyncKind::Pipelined.into()` is `Pipelined` with default settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncDesign {
    /// See [`SyncKind::Adaptive`].
    Adaptive {
        /// Maximum writes in flight, from 1 to 64. Default: 1. Each write in flight may take a
        /// thread. Values above 1 help only if the device performs several durable writes at once,
        /// and need a larger ring.
        depth: u32,
        /// Heuristics in use. Default: all. Measurements switch one off, to see its effect.
        #[doc(hidden)]
        heuristics: Heuristics,
    },
    /// See [`SyncKind::Pipelined`].
    Pipelined {
        /// Condition that begins a round. Default: a round begins at once.
        group: Group,
        /// Heuristics in use. Default: all. Measurements switch one off, to see its effect.
        #[doc(hidden)]
        heuristics: Heuristics,
    },
    /// See [`SyncKind::Aggregated`].
    Aggregated {
        /// Number of slots in which committers meet before the write: 0, or from 2 to 64. Default:
        /// 0, with which each committer writes for itself. The paper has 16.
        flush_slots: u32,
    },
    /// See [`SyncKind::Grouped`].
    Grouped,
    /// See [`SyncKind::Slotted`].
    Slotted {
        /// Number of slots in which committers meet before the write, from 2 to 64. Default: 16, as
        /// in the paper. A slot is in use until it is synced, so fewer slots mean more threads in
        /// each.
        flush_slots: u32,
    },
    /// See [`SyncKind::PerCommit`].
    PerCommit,
    /// See [`SyncKind::Inline`].
    Inline {
        /// Condition that completes a group. The group's time counts from the last write on.
        /// Default: a group is complete with its first commit.
        group: Group,
    },
}

impl Default for SyncDesign {
    fn default() -> Self {
        SyncKind::default().into()
    }
}

impl From<SyncKind> for SyncDesign {
    fn from(kind: SyncKind) -> Self {
        match kind {
            SyncKind::Adaptive => SyncDesign::adaptive(1),
            SyncKind::Pipelined => SyncDesign::pipelined(Group::default()),
            SyncKind::Aggregated => SyncDesign::Aggregated { flush_slots: 0 },
            SyncKind::Grouped => SyncDesign::Grouped,
            SyncKind::Slotted => SyncDesign::Slotted { flush_slots: FLUSH_SLOTS },
            SyncKind::PerCommit => SyncDesign::PerCommit,
            SyncKind::Inline => SyncDesign::Inline { group: Group::default() },
        }
    }
}

impl SyncDesign {
    /// Makes `Adaptive` with at most `depth` writes in flight.
    pub const fn adaptive(depth: u32) -> Self {
        SyncDesign::Adaptive { depth, heuristics: Heuristics::ALL }
    }

    /// Makes `Pipelined` with `group` as the condition that begins a round.
    pub const fn pipelined(group: Group) -> Self {
        SyncDesign::Pipelined { group, heuristics: Heuristics::ALL }
    }

    /// Returns this design with `heuristics`. A design that uses no heuristics is returned
    /// unchanged.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_heuristics(self, heuristics: Heuristics) -> Self {
        match self {
            SyncDesign::Adaptive { depth, .. } => SyncDesign::Adaptive { depth, heuristics },
            SyncDesign::Pipelined { group, .. } => SyncDesign::Pipelined { group, heuristics },
            other => other,
        }
    }

    /// The kind of this design.
    pub const fn kind(self) -> SyncKind {
        match self {
            SyncDesign::Adaptive { .. } => SyncKind::Adaptive,
            SyncDesign::Pipelined { .. } => SyncKind::Pipelined,
            SyncDesign::Aggregated { .. } => SyncKind::Aggregated,
            SyncDesign::Grouped => SyncKind::Grouped,
            SyncDesign::Slotted { .. } => SyncKind::Slotted,
            SyncDesign::PerCommit => SyncKind::PerCommit,
            SyncDesign::Inline { .. } => SyncKind::Inline,
        }
    }

    /// Refuses settings outside their documented ranges.
    ///
    /// # Errors
    /// [`OutOfRange`] names the setting, its value and its range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let check = |good: bool, option, value, range| {
            if good { Ok(()) } else { Err(OutOfRange { option, value, range }) }
        };
        match *self {
            SyncDesign::Adaptive { depth, .. } => {
                check((1..=64).contains(&depth), "depth", depth.into(), "from 1 to 64")
            }
            SyncDesign::Pipelined { group: Group { microseconds, .. }, .. }
            | SyncDesign::Inline { group: Group { microseconds, .. } } => {
                check(microseconds <= 10_000_000, "group.microseconds", microseconds, "at most 10000000")
            }
            SyncDesign::Aggregated { flush_slots: 0 } | SyncDesign::Grouped | SyncDesign::PerCommit => Ok(()),
            SyncDesign::Aggregated { flush_slots } | SyncDesign::Slotted { flush_slots } => {
                check((2..=64).contains(&flush_slots), "flush_slots", flush_slots.into(), "from 2 to 64")
            }
        }
    }

    /// Makes the protocol for one log.
    #[doc(hidden)]
    pub fn protocol(&self) -> Box<dyn SyncProtocol> {
        match *self {
            SyncDesign::Adaptive { depth, heuristics } => Box::new(Adaptive::new(heuristics, depth)),
            SyncDesign::Pipelined { group, heuristics } => Box::new(Pipelined::new(heuristics, group)),
            SyncDesign::Aggregated { flush_slots } => Box::new(Requested::new(Aggregated::new(flush_slots))),
            SyncDesign::Grouped => Box::new(Requested::new(Grouped::new())),
            SyncDesign::Slotted { flush_slots } => Box::new(Requested::new(Slotted::new(flush_slots))),
            SyncDesign::PerCommit => Box::new(PerCommit::new()),
            SyncDesign::Inline { group } => Box::new(Inline::new(group)),
        }
    }
}
