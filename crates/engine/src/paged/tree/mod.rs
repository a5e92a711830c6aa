//! The B+tree of one table: keys to values, on pages of the pool, every change logged before it is made.
//!
//! Threads: any; a tree has no state of its own but the id of its root, which never moves. Parts:
//! `descend` (from the root to a leaf), `hint` (past the root), `read`, `cursor` and `batch`
//! (scanning), `write` (one key), `room` (splitting), `shrink` (merging), `structure` (one record
//! for several pages), `chain` (long values), `lifecycle` (creating and dropping trees), `load`
//! (building one from sorted keys), `undo`, `verify`.
//!
//! Invariants:
//!
//! 1. Latches are taken from the root down, among siblings from left to right, and the maps last,
//!    in ascending order. No thread holds a page's latch and waits for one above it or to its left,
//!    so there is no deadlock of latches.
//! 2. A thread that goes from a page to its child holds the page's latch until it has the child's:
//!    a child cannot be split away, merged or freed in between. There are no other links between
//!    pages of a tree, hence nothing to move right along.
//! 3. The fences of a child are the separators around it in its parent. A page holds only keys between its fences; so the
//!    continuation of a scan is found again from a fence, whatever happened to the pages meanwhile.
//! 4. All changes follow one order: exclusive latches, `begin_change`, append, edit, `finish_change`. All that can fail
//!    comes before the append; a failed append leaves every page as it was. A failure after it shuts the database off.
//!    A record lies above the LSNs of all pages it changes, so a page's changes are in the log in the order in which they were made.
//! 5. A change of structure is one record ([`structure::Structure`]) and leaves a tree that satisfies 3. Between two changes
//!    of structure, and at every crash, the tree is whole; at worst a page is emptier than it could be.
//! 6. The log is appended to with latches held: its drain never needs a page latch.
//!
//! What a crash leaves: the state after some prefix of the log's records, by redo; keys of unfinished transactions are taken
//! back by `undo`. A page reserved but not logged is free again.

mod batch;
mod chain;
mod cursor;
mod descend;
mod handle;
mod hint;
mod lifecycle;
mod load;
mod read;
mod room;
mod shrink;
mod structure;
#[cfg(test)]
mod tests;
mod undo;
mod verify;
mod write;
mod writer;

pub(crate) use batch::{Batch, BatchValue};
pub(crate) use chain::{Chain, read_chain};
pub(crate) use cursor::{LeafEntries, Lens, ScanRequest};
pub(crate) use handle::{Pages, Tree};
pub(crate) use hint::LeafHints;
pub(crate) use lifecycle::free_after_commit;
pub(crate) use load::TreeLoad;
pub(crate) use undo::apply_undo;
pub(crate) use verify::{Reached, verify_maps};
pub(crate) use write::Previous;
pub(crate) use writer::{ChangeWriter, Logged};
