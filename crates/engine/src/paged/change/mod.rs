//! The log records that change pages: their encoding, their redo and their undo.
//!
//! Transaction threads encode these records, recovery's threads redo them, and threads that roll
//! transactions back undo them.
//!
//! There are two families:
//!
//! - *Leaf changes* ([`LeafChange`]) change one key of one leaf. A leaf change is physiological: it
//!   names the page and the slot, and the change within that slot. It belongs to a transaction and
//!   has the part that its undo needs. Undo is logical, because the key may move to another page
//!   before the undo.
//! - *Parts* ([`Part`]) change several pages together. A structure change is one such record, so
//!   the log's checksum makes it atomic: after a crash either all or none of it has happened, and
//!   undo has nothing to do. The records that write and free long values (`ChainWrite`,
//!   `ChainFree`) consist of parts, too.
//!
//! Invariants:
//!
//! 1. Redo applies a leaf change or a part to a page only if the page's LSN is below the record's.
//!    After each change, first or repeated, the page has the record's LSN.
//! 2. First execution and redo call one function: [`apply_part`] for parts, [`apply_leaf`] for leaf
//!    changes. So after redo a page holds what it held when the record was written.
//! 3. Decoders accept any payload: garbage results in [`Malformed`], never in a panic, nor in an
//!    allocation larger than the payload.
//!
//! This code writes to no device; `docs/recovery.md` says what a crash leaves of the records.

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
