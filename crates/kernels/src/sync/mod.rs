//! Stage three: the sync protocols. A protocol decides which thread writes and syncs, and wakes the
//! committers that a write covers.
//!
//! One trait, [`SyncProtocol`]; one file per design; all of them pass `testing::conformance`.
//!
//! | design | source | its pieces |
//! |---|---|---|
//! | `per_commit` | the papers' baseline | `syncer` |
//! | `slotted` | Efficient flushing, 2.2: its existing scheme | `consolidation`, `flag`, `requests` |
//! | `grouped` | the same, by the durable frontier and without slots | `requests` |
//! | `aggregated` | Efficient flushing, 3.1 | `consolidation` if slots are asked for, `flag`, `requests` |
//! | `pipelined` | Aether 4, ELEDA 3.3 | `waiters`, `leading`, `syncer`, `pace`, `policy`, `grouping` |
//! | `inline` | Cicada with P-WAL, III-B.2 | `grouping`'s condition, `syncer` |
//! | `adaptive` | ours | `waiters`, `leading`, `syncer`, `pace`, `policy`, `inflight` |
//! | `persisted` | of logs in NVRAM, whatever the options name | `requests` |
//!
//! Rules for every design:
//!
//! 1. One thread at a time calls [`Rounds::plan`]: the holder of the baton, or of the design's
//!    latch for writing. The thread that got a [`Planned`] write performs it. One thread at a time
//!    calls [`Rounds::sync`], and none while writes are under way that it planned.
//! 2. After every write and sync the protocol looks at all queued waiters, and wakes those that are
//!    settled. After a failure all are settled.
//! 3. A request (of a caller that does not block) is forgotten only when a write was planned that
//!    takes everything reserved before it.
//! 4. With no waiter queued and nothing requested, no thread runs: there is no timer.

mod adaptive;
mod aggregated;
#[cfg(test)]
mod checks;
mod consolidation;
mod flag;
mod grouped;
mod grouping;
mod heuristics;
mod inflight;
mod inline;
mod kind;
mod leading;
mod pace;
mod per_commit;
mod persisted;
mod pipelined;
mod policy;
mod requests;
mod rounds;
mod slotted;
mod syncer;
mod tally;
mod waiters;

pub use grouping::Group;
pub use heuristics::{Heuristic, Heuristics};
pub use kind::{SyncDesign, SyncKind};
pub use persisted::persisted;
pub use rounds::{Ask, Plan, Planned, Rounds, SyncProtocol};
pub use tally::SyncTally;
