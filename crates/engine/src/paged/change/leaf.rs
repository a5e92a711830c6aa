//! Records that change one key of one leaf: encoding and decoding.
//!
//! ```text
//! | table u32 | slot u16 | key length u16 | root u64 | page u64 | key | what |
//! ```
//!
//! The field *what* depends on the change. An insert has the new cell there, a delete the old cell
//! or nothing, and an update one of:
//!
//! ```text
//! | 0 or 1 | offset u16 | old total u16 | new total u16 | old length u16 | old bytes (form 0 only) | new bytes |
//! | 2 | old cell length u16 (0: none) | old cell | new cell |
//! ```
//!
//! A cell is `0, value` or `1, head page u64, length u32`. Only undo needs old values. A
//! compensation record is never undone, so it has no old value.

use super::decode::Rest;
use super::diff::Diff;
use super::kind::ChangeKind;
use super::malformed::Malformed;
use crate::TableId;
use crate::paged::page::{PageId, Value};

const HEAD_BYTES: usize = 24;
const CELL_INLINE: u8 = 0;
const CELL_OVERFLOW: u8 = 1;
const FORM_DIFF: u8 = 0;
const FORM_DIFF_REDO_ONLY: u8 = 1;
const FORM_CELLS: u8 = 2;

/// Says whether a record has the part that its undo needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndoPart {
    /// The record has the undo part, because its transaction may roll back.
    Keep,
    /// The record has no undo part, because the record is itself an undo.
    Omit,
}

/// Change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafOp<'a> {
    /// The key is inserted.
    Insert { new: Value<'a> },
    /// The key is deleted.
    Delete { old: Option<Value<'a>> },
    /// The key's inline value becomes another inline value.
    Diff(Diff<'a>),
    /// The key's cell becomes another cell.
    Replace { old: Option<Value<'a>>, new: Value<'a> },
}

/// A change of one key of one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafChange<'a> {
    /// The table.
    pub(crate) table: TableId,
    /// The root of the table's tree, where undo begins to look for the key.
    pub(crate) root: PageId,
    /// The leaf.
    pub(crate) page: PageId,
    /// The key's number in the leaf.
    pub(crate) slot: u16,
    /// The key.
    pub(crate) key: &'a [u8],
    /// Change of the key.
    pub(crate) op: LeafOp<'a>,
}

/// The fixed-size beginning of a cell, and its variable rest.
#[derive(Clone, Copy)]
struct CellPieces<'a> {
    head: [u8; 13],
    head_bytes: usize,
    rest: &'a [u8],
}

impl<'a> CellPieces<'a> {
    const NONE: CellPieces<'static> = CellPieces { head: [0; 13], head_bytes: 0, rest: &[] };

    fn of(value: &Value<'a>) -> Self {
        let mut head = [0; 13];
        match value {
            Value::Inline(bytes) => {
                head[0] = CELL_INLINE;
                CellPieces { head, head_bytes: 1, rest: bytes }
            }
            Value::Overflow { head: page, length } => {
                head[0] = CELL_OVERFLOW;
                head[1..9].copy_from_slice(&page.get().to_le_bytes());
                head[9..].copy_from_slice(&length.to_le_bytes());
                CellPieces { head, head_bytes: 13, rest: &[] }
            }
        }
    }

    fn of_option(value: &Option<Value<'a>>) -> Self {
        value.as_ref().map_or(CellPieces::NONE, CellPieces::of)
    }

    fn head(&self) -> &[u8] {
        &self.head[..self.head_bytes]
    }

    fn bytes(&self) -> usize {
        self.head_bytes + self.rest.len()
    }
}

fn decode_cell(bytes: &[u8]) -> Result<Value<'_>, Malformed> {
    let mut rest = Rest::new(bytes);
    match rest.u8()? {
        CELL_INLINE => Ok(Value::Inline(rest.all())),
        CELL_OVERFLOW => {
            let value = Value::Overflow { head: PageId::new(rest.u64()?), length: rest.u32()? };
            rest.finish()?;
            Ok(value)
        }
        _ => Err(Malformed("a record has a cell of unknown form")),
    }
}

impl<'a> LeafChange<'a> {
    /// The record's kind.
    pub(crate) fn kind(&self) -> ChangeKind {
        match self.op {
            LeafOp::Insert { .. } => ChangeKind::LeafInsert,
            LeafOp::Delete { .. } => ChangeKind::LeafDelete,
            LeafOp::Diff(_) | LeafOp::Replace { .. } => ChangeKind::LeafUpdate,
        }
    }

    /// Calls `use_pieces` with the payload, in pieces. Copies neither the key nor a value.
    pub(crate) fn encode<R>(&self, use_pieces: impl FnOnce(&[&[u8]]) -> R) -> R {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&self.table.get().to_le_bytes());
        head[4..6].copy_from_slice(&self.slot.to_le_bytes());
        head[6..8].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        head[8..16].copy_from_slice(&self.root.get().to_le_bytes());
        head[16..].copy_from_slice(&self.page.get().to_le_bytes());
        match &self.op {
            LeafOp::Insert { new } => {
                let new = CellPieces::of(new);
                use_pieces(&[&head, self.key, new.head(), new.rest])
            }
            LeafOp::Delete { old } => {
                let old = CellPieces::of_option(old);
                use_pieces(&[&head, self.key, old.head(), old.rest])
            }
            LeafOp::Diff(diff) => {
                let mut numbers = [0; 9];
                numbers[0] = if diff.old.is_some() { FORM_DIFF } else { FORM_DIFF_REDO_ONLY };
                for (at, number) in
                    [diff.offset, diff.old_total, diff.new_total, diff.old_bytes].into_iter().enumerate()
                {
                    numbers[1 + 2 * at..3 + 2 * at].copy_from_slice(&number.to_le_bytes());
                }
                use_pieces(&[&head, self.key, &numbers, diff.old.unwrap_or(&[]), diff.new])
            }
            LeafOp::Replace { old, new } => {
                let (old, new) = (CellPieces::of_option(old), CellPieces::of(new));
                let length = (old.bytes() as u16).to_le_bytes();
                let form = [FORM_CELLS, length[0], length[1]];
                use_pieces(&[&head, self.key, &form, old.head(), old.rest, new.head(), new.rest])
            }
        }
    }

    /// Returns the leaf that the change in this payload is for.
    pub(crate) fn page_in(payload: &[u8]) -> Result<PageId, Malformed> {
        let mut rest = Rest::new(payload);
        rest.bytes(16)?;
        Ok(PageId::new(rest.u64()?))
    }

    /// Decodes a payload of this kind; `kind` is one of the three kinds of leaf changes.
    pub(crate) fn decode(kind: ChangeKind, payload: &'a [u8]) -> Result<LeafChange<'a>, Malformed> {
        let mut rest = Rest::new(payload);
        let table = TableId::new(rest.u32()?);
        let slot = rest.u16()?;
        let key_bytes = usize::from(rest.u16()?);
        let root = PageId::new(rest.u64()?);
        let page = PageId::new(rest.u64()?);
        let key = rest.bytes(key_bytes)?;
        let op = match kind {
            ChangeKind::LeafInsert => LeafOp::Insert { new: decode_cell(rest.all())? },
            ChangeKind::LeafDelete if rest.is_empty() => LeafOp::Delete { old: None },
            ChangeKind::LeafDelete => LeafOp::Delete { old: Some(decode_cell(rest.all())?) },
            ChangeKind::LeafUpdate => Self::decode_update(rest)?,
            _ => return Err(Malformed("a record is not a change of a leaf")),
        };
        Ok(LeafChange { table, root, page, slot, key, op })
    }

    fn decode_update(mut rest: Rest<'a>) -> Result<LeafOp<'a>, Malformed> {
        let form = rest.u8()?;
        match form {
            FORM_DIFF | FORM_DIFF_REDO_ONLY => {
                let (offset, old_total, new_total) = (rest.u16()?, rest.u16()?, rest.u16()?);
                let old_bytes = rest.u16()?;
                let old = match form {
                    FORM_DIFF => Some(rest.bytes(usize::from(old_bytes))?),
                    _ => None,
                };
                let diff = Diff { offset, old_total, new_total, old_bytes, old, new: rest.all() };
                if !diff.is_consistent() {
                    return Err(Malformed("a record's lengths do not add up"));
                }
                Ok(LeafOp::Diff(diff))
            }
            FORM_CELLS => {
                let old = match rest.u16()? {
                    0 => None,
                    length => Some(decode_cell(rest.bytes(usize::from(length))?)?),
                };
                Ok(LeafOp::Replace { old, new: decode_cell(rest.all())? })
            }
            _ => Err(Malformed("a record has an update of unknown form")),
        }
    }
}
