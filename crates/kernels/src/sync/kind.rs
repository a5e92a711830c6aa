//! The sync protocols by name, with the values that belong to each.
//!
//! Pure; any thread.

use super::adaptive::Adaptive;
use super::aggregated::Aggregated;
use super::grouped::Grouped;
use super::grouping::Group;
use super::heuristics::{Heuristic, Heuristics};
use super::per_commit::PerCommit;
use super::pipelined::Pipelined;
use super::rounds::SyncProtocol;
use std::ops::RangeInclusive;

/// Who writes and syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SyncKind {
    /// The first waiter writes and syncs for everybody and hands over to the next.
    #[default]
    Adaptive,
    /// A thread of its own does (Aether's flush pipelining, ELEDA's flusher). See [`Group`].
    Pipelined,
    /// Requests queue up; who wins the sync lock syncs for all of them (Efficient flushing, section 3.1).
    Aggregated,
    /// Each takes the sync lock and looks whether it still has to sync (Efficient flushing, section 2.2).
    Grouped,
    /// Each writes and syncs for itself, in turn: the papers' baseline.
    PerCommit,
}

crate::words!(
    SyncKind,
    "adaptive, pipelined, aggregated, grouped, per-commit",
    Adaptive = "adaptive",
    Pipelined = "pipelined",
    Aggregated = "aggregated",
    Grouped = "grouped",
    PerCommit = "per-commit"
);

impl SyncKind {
    /// Every design.
    pub const ALL: [SyncKind; 5] = [
        SyncKind::Adaptive,
        SyncKind::Pipelined,
        SyncKind::Aggregated,
        SyncKind::Grouped,
        SyncKind::PerCommit,
    ];

    /// The heuristics that the design uses.
    #[doc(hidden)]
    pub const fn heuristics(self) -> &'static [Heuristic] {
        use Heuristic::{Backoff, Delay, ManyCommitters, Yield};
        match self {
            SyncKind::Adaptive => &Heuristic::ALL,
            SyncKind::Pipelined => &[Delay, Backoff, Yield, ManyCommitters],
            SyncKind::Aggregated | SyncKind::Grouped | SyncKind::PerCommit => &[],
        }
    }
}

/// A protocol with the values of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncDesign {
    /// The protocol's name.
    pub kind: SyncKind,
    /// How many writes may be under way at once, fewest and most. For [`SyncKind::Adaptive`].
    pub depth: RangeInclusive<u32>,
    /// When a round begins. For [`SyncKind::Pipelined`].
    pub group: Group,
    /// The heuristics in use.
    pub heuristics: Heuristics,
}

impl SyncDesign {
    /// The protocol, for one log.
    pub fn protocol(&self) -> Box<dyn SyncProtocol> {
        match self.kind {
            SyncKind::Adaptive => Box::new(Adaptive::new(self.heuristics, self.depth.clone())),
            SyncKind::Pipelined => Box::new(Pipelined::new(self.heuristics, self.group)),
            SyncKind::Aggregated => Box::new(Aggregated::new()),
            SyncKind::Grouped => Box::new(Grouped::new()),
            SyncKind::PerCommit => Box::new(PerCommit::new()),
        }
    }
}
