//! Undoing one record: finds its key again, from the root, and changes it back.
//!
//! Runs on the thread that rolls a transaction back, and on the recovery thread. Exactly one record
//! goes through `ChangeWriter::append`: the compensation. Changes of structure before and after it
//! are never undone. If undo is interrupted before the compensation is in the log, it is repeated.

use super::handle::{Pages, Tree};
use super::lifecycle::free;
use super::structure::{RecordFor, Structure};
use super::write::Presence;
use super::writer::ChangeWriter;
use crate::paged::change::{UndoOp, UndoPart};
use crate::paged::page::{Kind, PageId, Value};
use crate::{Error, Result};

/// Undoes a record. `writer` appends compensation records.
pub(crate) fn apply_undo(pages: Pages<'_>, op: &UndoOp<'_>, writer: &mut dyn ChangeWriter) -> Result<()> {
    match op {
        UndoOp::Nothing => Ok(()),
        UndoOp::Delete { table, root, key } => {
            let gone = Tree::new(*table, *root).delete_value(pages, key, UndoPart::Omit, writer)?;
            if gone.existed {
                Ok(())
            } else {
                Err(Error::Internal("undo has to delete a key that does not exist"))
            }
        }
        UndoOp::Insert { table, root, key, old } => {
            put_back(Tree::new(*table, *root), pages, key, old, Presence::Absent, writer)
        }
        UndoOp::Replace { table, root, key, old } => {
            put_back(Tree::new(*table, *root), pages, key, old, Presence::Any, writer)
        }
        UndoOp::Diff { table, root, key, back } => Tree::new(*table, *root).patch(pages, key, back, writer),
        UndoOp::FreePages(ids) => free_pages(pages, ids, writer),
    }
}

fn put_back(
    tree: Tree,
    pages: Pages<'_>,
    key: &[u8],
    old: &Value<'_>,
    presence: Presence,
    writer: &mut dyn ChangeWriter,
) -> Result<()> {
    match tree.put_value(pages, key, old, presence, UndoPart::Omit, writer) {
        Ok(_) => Ok(()),
        Err(Error::KeyExists { .. }) => Err(Error::Internal("undo has to insert a key that exists")),
        Err(error) => Err(error),
    }
}

/// Frees a group of pages of a long value, or a tree that the transaction created.
fn free_pages(pages: Pages<'_>, ids: &[PageId], writer: &mut dyn ChangeWriter) -> Result<()> {
    let Some(head) = ids.first().copied() else { return Ok(()) };
    let kind = RecordFor::Compensation(head);
    let is_tree = matches!(pages.pool.read(head)?.kind(), Some(Kind::Leaf | Kind::Inner));
    if is_tree && ids.len() == 1 {
        return free(pages, head, kind, writer);
    }
    let mut change = Structure::new(pages);
    for id in ids {
        change.mark_free(*id);
    }
    change.commit(kind, writer)?;
    Ok(())
}
