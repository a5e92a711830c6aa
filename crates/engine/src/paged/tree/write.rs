//! Changing one key: logs the change of its leaf, then makes it.
//!
//! Optimistic: only the leaf is latched exclusively. If the leaf has no room, its latch is
//! released, `room` splits it, and the change begins anew.

use super::chain::Chain;
use super::handle::{Pages, Tree};
use super::writer::{ChangeWriter, LOGGED_BELOW, Logged};
use crate::paged::change::{Diff, LeafChange, LeafOp, UndoPart, apply_leaf};
use crate::paged::page::{PageId, Value, fits_inline, key_bytes_max};
use crate::paged::pool::PageWrite;
use crate::pause::{self, PausePoint};
use crate::{Error, Lsn, Result, VALUE_BYTES_MAX};

/// State of a key before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Previous {
    /// True if the key was there.
    pub(crate) existed: bool,
    /// The key's long value, if it had one. The caller frees it with [`super::free_after_commit`],
    /// once the change is committed.
    pub(crate) chain: Option<Chain>,
}

impl Previous {
    fn of(value: Value<'_>) -> Self {
        let chain = match value {
            Value::Inline(_) => None,
            Value::Overflow { head, length } => Some(Chain { head, length }),
        };
        Previous { existed: true, chain }
    }
}

/// Condition on the key for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Write whether the key is there or not.
    Any,
    /// Fail with `KeyExists` if the key is there.
    Absent,
}

impl Tree {
    fn check_key(&self, pages: Pages<'_>, key: &[u8]) -> Result<()> {
        let max = key_bytes_max(pages.pool.page_bytes());
        if key.len() > max {
            return Err(Error::key_too_long(key, max));
        }
        Ok(())
    }

    /// Gives `key` this value, whether the key was there or not. The caller holds the key's
    /// exclusive lock. If this fails, pages of a long value may have been written; undoing the
    /// transaction's records frees them.
    pub(crate) fn put(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        value: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Previous> {
        self.check_key(pages, key)?;
        self.put_bytes(pages, key, value, Presence::Any, writer)
    }

    /// Adds `key` with this value. If the key is there, fails with `KeyExists` and changes nothing.
    /// In all else it works like [`Tree::put`].
    pub(crate) fn insert(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        value: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        self.check_key(pages, key)?;
        if !fits_inline(pages.pool.page_bytes(), key.len(), value.len()) && self.contains(pages.pool, key)? {
            return Err(Error::key_exists(key));
        }
        self.put_bytes(pages, key, value, Presence::Absent, writer).map(|_| ())
    }

    fn put_bytes(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        value: &[u8],
        presence: Presence,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Previous> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::value_too_long(key, value.len(), VALUE_BYTES_MAX));
        }
        if fits_inline(pages.pool.page_bytes(), key.len(), value.len()) {
            return self.put_value(pages, key, &Value::Inline(value), presence, UndoPart::Keep, writer);
        }
        let chain = self.write_chain(pages, value, writer)?;
        let value = Value::Overflow { head: chain.head, length: chain.length };
        self.put_value(pages, key, &value, presence, UndoPart::Keep, writer)
    }

    /// Gives `key` a value whose pages, if it is a long one, are written already.
    pub(super) fn put_value(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        value: &Value<'_>,
        presence: Presence,
        undo: UndoPart,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Previous> {
        loop {
            let mut page = self.leaf_by_shortcut(pages.pool, pages.shortcuts, key)?;
            let leaf = page.leaf()?;
            match leaf.search(key) {
                Ok(_) if presence == Presence::Absent => return Err(Error::key_exists(key)),
                Ok(slot) if leaf.fits_replace(slot, value) => {
                    let before = leaf.value(slot);
                    let previous = Previous::of(before);
                    writer.keep_before(key, Some(before));
                    self.replace_in(&mut page, slot, key, value, undo, writer)?;
                    return Ok(previous);
                }
                Err(slot) if leaf.fits(key, value) => {
                    let op = LeafOp::Insert { new: *value };
                    writer.keep_before(key, None);
                    page.begin_change();
                    let change = self.change(page.id(), slot, key, op);
                    let logged = append(&change, page.lsn(), writer)?;
                    finish(&mut page, &change, logged, writer)?;
                    return Ok(Previous::default());
                }
                _ => {}
            }
            drop(page);
            self.make_room(pages, key, value, writer)?;
        }
    }

    fn change<'c>(&self, page: PageId, slot: usize, key: &'c [u8], op: LeafOp<'c>) -> LeafChange<'c> {
        LeafChange { table: self.table, root: self.root, page, slot: slot as u16, key, op }
    }

    /// Gives the key in this slot another value, for which there is room.
    fn replace_in(
        &self,
        page: &mut PageWrite,
        slot: usize,
        key: &[u8],
        value: &Value<'_>,
        undo: UndoPart,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        // A change to the same value is not logged, except in an undo, which must append its
        // compensation record.
        if undo == UndoPart::Keep && page.leaf()?.value(slot) == *value {
            return Ok(());
        }
        page.begin_change();
        let old = page.leaf()?.value(slot);
        let (logged, op) = match (old, *value) {
            (Value::Inline(old), Value::Inline(new))
                if !(undo == UndoPart::Keep && writer.wants_values()) =>
            {
                let diff = Diff::between(old, new).ok_or(Error::Internal("an inline value is too long"))?;
                let redo_only = diff.with_new_of(new);
                let diff = if undo == UndoPart::Keep { diff } else { diff.redo_only() };
                (
                    append(&self.change(page.id(), slot, key, LeafOp::Diff(diff)), page.lsn(), writer)?,
                    LeafOp::Diff(redo_only),
                )
            }
            (old, new) => {
                let old = (undo == UndoPart::Keep).then_some(old);
                let change = self.change(page.id(), slot, key, LeafOp::Replace { old, new });
                (append(&change, page.lsn(), writer)?, LeafOp::Replace { old: None, new })
            }
        };
        let change = self.change(page.id(), slot, key, op);
        finish(page, &change, logged, writer)
    }

    /// Changes the inline value of `key` by a diff that is never undone.
    pub(super) fn patch(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        diff: &Diff<'_>,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        const MISFIT: Error = Error::Internal("undo has to change a value that is not the logged one");
        if diff.keeps_length() {
            let mut page = self.leaf_for_write(pages.pool, key)?;
            let leaf = page.leaf()?;
            let slot = leaf.search(key).map_err(|_| MISFIT)?;
            if !matches!(leaf.value(slot), Value::Inline(value) if value.len() == usize::from(diff.old_total))
            {
                return Err(MISFIT);
            }
            page.begin_change();
            let change = self.change(page.id(), slot, key, LeafOp::Diff(diff.redo_only()));
            let logged = append(&change, page.lsn(), writer)?;
            return finish(&mut page, &change, logged, writer);
        }
        let made = self.get(pages.pool, key, |value| match value {
            Value::Inline(value) => diff.apply(value),
            Value::Overflow { .. } => None,
        })?;
        let made = made.flatten().ok_or(MISFIT)?;
        self.put_value(pages, key, &Value::Inline(&made), Presence::Any, UndoPart::Omit, writer)?;
        Ok(())
    }

    /// Removes `key`. The caller holds the key's exclusive lock. If this fails, nothing is changed,
    /// except when the error reports a bug: then the key may already be removed.
    pub(crate) fn delete(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Previous> {
        self.delete_value(pages, key, UndoPart::Keep, writer)
    }

    pub(super) fn delete_value(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        undo: UndoPart,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Previous> {
        let mut page = self.leaf_by_shortcut(pages.pool, pages.shortcuts, key)?;
        let leaf = page.leaf()?;
        let Ok(slot) = leaf.search(key) else { return Ok(Previous::default()) };
        let previous = Previous::of(leaf.value(slot));
        let before = leaf.used_bytes();
        writer.keep_before(key, Some(leaf.value(slot)));
        page.begin_change();
        let old = (undo == UndoPart::Keep).then_some(page.leaf()?.value(slot));
        let logged = append(&self.change(page.id(), slot, key, LeafOp::Delete { old }), page.lsn(), writer)?;
        let change = self.change(page.id(), slot, key, LeafOp::Delete { old: None });
        finish(&mut page, &change, logged, writer)?;
        let after = page.leaf()?.used_bytes();
        drop(page);
        if self.is_worth_shrinking(pages, before, after) {
            // A failure to shrink is not returned, because the key is already removed, in the log
            // and in its page. In a rollback this call undoes an insert. If it returned the
            // failure, the rollback would not note that the insert is undone, and a repeated
            // rollback would undo it a second time. The next thread that needs those pages or the
            // log meets the cause of the failure. A bug is returned, because no later call would
            // meet it again.
            if let Err(bug @ Error::Internal(_)) = self.shrink(pages, key, writer) {
                return Err(bug);
            }
        }
        Ok(previous)
    }
}

/// Logs a change of a page. `after` is the page's present LSN; the record is put above it.
fn append(change: &LeafChange<'_>, after: Lsn, writer: &mut dyn ChangeWriter) -> Result<Logged> {
    change.encode(|payload| writer.append(change.kind(), after, payload))
}

/// Makes a change whose record is in the log.
fn finish(
    page: &mut PageWrite,
    change: &LeafChange<'_>,
    logged: Logged,
    writer: &mut dyn ChangeWriter,
) -> Result<()> {
    pause::at(PausePoint::Logged);
    if page.lsn() >= logged.lsn {
        return Err(writer.half_made(LOGGED_BELOW));
    }
    if apply_leaf(page.bytes_mut(), change).is_err() {
        return Err(writer.half_made("a logged change does not fit its page"));
    }
    page.finish_change(logged.lsn, logged.end);
    Ok(())
}
