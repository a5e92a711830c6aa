//! The log records that change pages: their bytes, how they are applied again, and what undoes them.
//!
//! Runs on transaction threads (encoding), on recovery's threads (redo) and wherever a transaction is rolled back.
//!
//! Two families:
//!
//! - *Leaf changes* ([`LeafChange`]): one key of one leaf. Physiological: they name the page and the slot, and the change
//!   within it. They belong to a transaction and carry what undoes them, logically: the key may have moved to another
//!   page by then.
//! - *Parts* ([`Part`]): several pages changed together. A structure change is one such record, so the log's checksum
//!   makes it atomic: after a crash it happened or it did not, and nothing has to undo it. Long values are written and
//!   freed by the same parts under other kinds.
//!
//! Invariants:
//!
//! 1. A part is applied to a page only if the page's LSN is below the record's; then the page's LSN is the record's.
//! 2. Doing and redoing a part is the same function, [`apply_part`] (leaf changes: [`apply_leaf`]), so a page after redo
//!    holds what it held when the record was written.
//! 3. Decoders are total: a garbage payload gives [`Malformed`], never a panic, and allocates nothing beyond its size.
//!
//! What a crash leaves: nothing here writes; see `docs/recovery.md`.

mod apply;
mod decode;
mod diff;
mod leaf;
mod parts;
mod redo;
#[cfg(test)]
mod tests;
mod undo;

pub(crate) use apply::{apply_leaf, apply_part};
pub(crate) use diff::Diff;
pub(crate) use leaf::{LeafChange, LeafOp, UndoPart};
pub(crate) use parts::{Part, PartsWriter, decode_chain_free, decode_parts, encode_chain_free};
pub(crate) use redo::{Place, pages_of, redo_at};
pub(crate) use undo::{UndoOp, undo_of, without_contents};

use crate::{Error, Lsn};

/// What a record that changes pages is. The number is the record's kind in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum ChangeKind {
    /// A key was put into a leaf.
    LeafInsert = 16,
    /// A key was taken out of a leaf.
    LeafDelete = 17,
    /// A key's value changed.
    LeafUpdate = 18,
    /// Pages of a long value, or the root of a new tree, were allocated and filled; undone by freeing them.
    ChainWrite = 19,
    /// Pages of the tree changed in a way that no reader of keys and values can tell; never undone.
    Structure = 20,
    /// A long value or a tree was freed, after the transaction that let go of it committed; never undone.
    ChainFree = 21,
}

impl ChangeKind {
    /// The kind with this number; `None` if it is no page change.
    pub(crate) fn decode(kind: u8) -> Option<ChangeKind> {
        Some(match kind {
            16 => ChangeKind::LeafInsert,
            17 => ChangeKind::LeafDelete,
            18 => ChangeKind::LeafUpdate,
            19 => ChangeKind::ChainWrite,
            20 => ChangeKind::Structure,
            21 => ChangeKind::ChainFree,
            _ => return None,
        })
    }

    /// The number.
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    /// Its name in a dump.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ChangeKind::LeafInsert => "leaf-insert",
            ChangeKind::LeafDelete => "leaf-delete",
            ChangeKind::LeafUpdate => "leaf-update",
            ChangeKind::ChainWrite => "chain-write",
            ChangeKind::Structure => "structure",
            ChangeKind::ChainFree => "chain-free",
        }
    }
}

/// What a payload broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl Malformed {
    /// The failure of the record at `lsn`.
    pub(crate) fn at(self, lsn: Lsn) -> Error {
        Error::Corrupt { place: format!("log record at {lsn}"), page: None, finding: self.0.to_owned() }
    }
}
