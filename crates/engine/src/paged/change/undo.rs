//! The undo of a record: a logical operation on the tree, because the key may be in another page by
//! now.

use super::diff::Diff;
use super::kind::ChangeKind;
use super::leaf::{LeafChange, LeafOp};
use super::malformed::Malformed;
use super::parts::{PartsWriter, decode_parts};
use crate::TableId;
use crate::paged::page::{PageId, Value};

/// The operation that undoes one record. Borrows the record's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UndoOp<'a> {
    /// Delete the key again.
    Delete { table: TableId, root: PageId, key: &'a [u8] },
    /// Insert the key again, with its old cell.
    Insert { table: TableId, root: PageId, key: &'a [u8], old: Value<'a> },
    /// Change the key's inline value back. The diff leads from the new value to the old one.
    Diff { table: TableId, root: PageId, key: &'a [u8], back: Diff<'a> },
    /// Give the key its old cell again.
    Replace { table: TableId, root: PageId, key: &'a [u8], old: Value<'a> },
    /// Free these pages, which are pieces of a long value or the root of a tree.
    FreePages(Vec<PageId>),
    /// Do nothing, because the record is never undone.
    Nothing,
}

/// Returns a `ChainWrite` payload without the contents of its pages, because undo needs only the
/// ids of the pages. `payload` was encoded by this process.
pub(crate) fn without_contents(payload: &[u8]) -> PartsWriter {
    let mut parts = PartsWriter::new();
    for part in decode_parts(payload).map_while(Result::ok).filter(|part| part.part.overwrites()) {
        parts.free(part.page);
    }
    parts
}

/// Returns the operation that undoes the record of this kind and payload.
pub(crate) fn undo_of(kind: ChangeKind, payload: &[u8]) -> Result<UndoOp<'_>, Malformed> {
    const MISSING: Malformed = Malformed("a record to be undone does not say how");
    match kind {
        ChangeKind::Structure | ChangeKind::ChainFree => return Ok(UndoOp::Nothing),
        ChangeKind::ChainWrite => {
            let mut pages = Vec::new();
            for part in decode_parts(payload) {
                let part = part?;
                if part.part.overwrites() {
                    pages.push(part.page);
                }
            }
            return Ok(UndoOp::FreePages(pages));
        }
        ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {}
    }
    let LeafChange { table, root, key, op, .. } = LeafChange::decode(kind, payload)?;
    Ok(match op {
        LeafOp::Insert { .. } => UndoOp::Delete { table, root, key },
        LeafOp::Delete { old } => UndoOp::Insert { table, root, key, old: old.ok_or(MISSING)? },
        LeafOp::Replace { old, .. } => UndoOp::Replace { table, root, key, old: old.ok_or(MISSING)? },
        LeafOp::Diff(diff) => {
            let back = Diff {
                offset: diff.offset,
                old_total: diff.new_total,
                new_total: diff.old_total,
                old_bytes: diff.new.len() as u16,
                old: None,
                new: diff.old.ok_or(MISSING)?,
            };
            UndoOp::Diff { table, root, key, back }
        }
    })
}
