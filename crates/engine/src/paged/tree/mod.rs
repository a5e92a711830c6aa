//! The B+tree of one table: keys to values, on pages of the pool. Every change is logged before it
//! is made.
//!
//! Runs on any thread; a tree has no state of its own but the id of its root, which never moves.
//! Modules: `descend` (from the root to a leaf), `shortcuts` (to a leaf without a descent), `hint`
//! and `routes` (kinds of shortcuts), `read`, `cursor` and `batch` (scanning), `write` (one key),
//! `room` (splitting), `shrink` (merging), `structure` (one record for several pages), `chain`
//! (long values), `lifecycle` (creating and dropping trees), `load` (building a tree from sorted
//! keys), `undo`, `verify`.
//!
//! Invariants:
//!
//! 1. Latches are taken from the root down, among siblings from left to right, and the maps last,
//!    in ascending order. No thread holds a page's latch and waits for a latch above it or to its
//!    left, so latches cannot deadlock.
//! 2. A thread that goes from a page to its child holds the page's latch until it has the child's
//!    latch. So the child cannot be split, merged or freed in between. There are no other links
//!    between pages of a tree, so no thread has to move right along a link.
//! 3. The fences of a child are the separators around it in its parent. A page holds only keys
//!    between its fences. So a scan finds its continuation from a fence, whatever happened to the
//!    pages meanwhile.
//! 4. All changes follow one order: exclusive latches, `begin_change`, append, edit,
//!    `finish_change`. Everything that can fail comes before the append, and a failed append leaves
//!    every page as it was. A failure after the append shuts the database off. A record lies above
//!    the LSNs of all pages that it changes. So the log has a page's changes in the order in which
//!    they were made.
//! 5. A change of structure is one record ([`structure::Structure`]) and leaves a tree that
//!    satisfies invariant 3. Between two changes of structure, and at every crash, the tree is
//!    whole; at worst a page is emptier than it could be.
//! 6. Records may be appended while latches are held, because writing the log never needs a page
//!    latch.
//!
//! What a crash leaves: redo restores the state after some prefix of the log's records, and `undo`
//! takes back the keys of unfinished transactions. A page that was reserved and not logged is free
//! again.

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
mod routes;
mod shortcuts;
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
pub(crate) use descend::InMemory;
pub(crate) use handle::{Pages, Tree};
pub(crate) use lifecycle::free_after_commit;
pub(crate) use load::TreeLoad;
pub(crate) use shortcuts::Shortcuts;
pub(crate) use undo::apply_undo;
pub(crate) use verify::{Reached, verify_maps};
pub(crate) use write::Previous;
pub(crate) use writer::{ChangeWriter, Logged};
