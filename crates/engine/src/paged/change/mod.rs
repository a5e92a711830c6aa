//! The log records that change pages: their bytes, how they are applied again, and what undoes
//! them.
//!
//! Runs on transaction threads (encoding), on recovery's threads (redo) and wherever a transaction
//! is rolled back.
//!
//! Two families:
//!
//! - *Leaf changes* ([`LeafChange`]): one key of one leaf. Physiological: they name the page and
//!   the slot, and the change within it. They belong to a transaction and carry what undoes them,
//!   logically: the key may have moved to another page by then.
//! - *Parts* ([`Part`]): several pages changed together. A structure change is one such record, so
//!   the log's checksum makes it atomic: after a crash it happened or it did not, and nothing has
//!   to undo it. Long values are written and freed by the same parts under other kinds.
//!
//! Invariants:
//!
//! 1. A part is applied to a page only if the page's LSN is below the record's; then the page's LSN
//!    is the record's.
//! 2. Doing and redoing a part is the same function, [`apply_part`] (leaf changes: [`apply_leaf`]),
//!    so a page after redo holds what it held when the record was written.
//! 3. Decoders are total: a garbage payload gives [`Malformed`], never a panic, and allocates
//!    nothing beyond its size.
//!
//! What a crash leaves: nothing here writes; see `docs/recovery.md`.

mod apply;
mod decode;
mod diff;
mod kind;
mod leaf;
mod malformed;
mod parts;
mod redo;
#[cfg(test)]
mod tests;
mod undo;

pub(crate) use apply::{apply_leaf, apply_part};
pub(crate) use diff::Diff;
pub(crate) use kind::ChangeKind;
pub(crate) use leaf::{LeafChange, LeafOp, UndoPart};
pub(crate) use malformed::Malformed;
pub(crate) use parts::{Part, PartsWriter, decode_chain_free, decode_parts, encode_chain_free};
pub(crate) use redo::{RecordSpan, pages_of, redo_at};
pub(crate) use undo::{UndoOp, undo_of, without_contents};
