//! Stage three of a commit: the sync protocols. A protocol decides which thread writes and syncs,
//! and wakes the committers that a write covers.
//!
//! All designs implement the trait [`SyncProtocol`] and pass `testing::conformance` of
//! `katydid-wal`. Each design has a file of its own.
//!
//! | design | source | modules |
//! |---|---|---|
//! | `per_commit` | the papers' baseline | `syncer` |
//! | `slotted` | Efficient flushing, 2.2: existing scheme | `consolidation`, `flag`, `requests` |
//! | `grouped` | Efficient flushing, 2.2; no slots, uses the durable frontier | `requests` |
//! | `aggregated` | Efficient flushing, 3.1 | `consolidation` (for slots), `flag`, `requests` |
//! | `pipelined` | Aether 4, ELEDA 3.3 | `waiters`, `leading`, `syncer`, `pace`, `policy`, `grouping` |
//! | `inline` | Cicada with P-WAL, III-B.2 | `grouping`'s condition, `syncer` |
//! | `adaptive` | ours | `waiters`, `leading`, `syncer`, `pace`, `policy`, `inflight` |
//! | `persisted` | ours: used by every log in NVRAM, whatever the options name | `requests` |
//!
//! Rules for every design:
//!
//! 1. One thread at a time calls [`Rounds::plan`]: the holder of the baton (the right to lead), or
//!    of the design's latch for writing. Only `persisted` has no such latch: its writes take turns
//!    in `nvram::commit`. The thread that gets a [`Planned`] write performs it. One thread at a
//!    time calls [`Rounds::sync`]. No thread calls [`Rounds::sync`] while a write that this thread
//!    planned is under way.
//! 2. After every write and sync the protocol looks at all queued waiters, and wakes the settled
//!    ones. After a failure all waiters are settled.
//! 3. A request (of a caller that does not block) counts as served only when planned writes take
//!    the requested record. In designs that merge requests, the writes must take everything that
//!    was reserved before the request.
//! 4. While no waiter is queued and nothing is requested, no thread runs, and none wakes up by a
//!    timer.

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
