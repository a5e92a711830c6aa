//! Creating trees, and freeing long values and whole trees: after the commit of the transaction
//! that no longer uses them, or in the undo of the records that made them.
//!
//! Freeing a tree takes many records. Each record leaves a smaller tree that can be freed again
//! from its root, so freeing can be repeated after a crash. The last record frees the page that
//! identifies the tree or chain: the root, or the chain's first page. The last record is a
//! `ChainFree` with the number of that page, so that recovery knows that nothing is left to do.

use super::chain::pages_of_chain;
use super::handle::{Pages, Tree, corrupt};
use super::room::does_not_fit;
use super::structure::{RecordFor, Structure};
use super::writer::ChangeWriter;
use crate::paged::page::{InnerMut, Kind, LeafMut, PageId, Value, header, image};
use crate::paged::pool::PageWrite;
use crate::{Result, TableId};

/// Maximum number of leaves freed by one record.
const LEAVES_PER_RECORD: usize = 256;

impl Tree {
    /// Creates an empty tree for `table`. The record belongs to the transaction; its undo frees the
    /// page.
    pub(crate) fn create(pages: Pages<'_>, table: TableId, writer: &mut dyn ChangeWriter) -> Result<Tree> {
        let mut change = Structure::new(pages);
        let root = change.add_new(pages.space.reserve(writer.alloc_class())?, &[])?;
        let mut scratch = vec![0; pages.pool.page_bytes()];
        LeafMut::format(&mut scratch, root, table, &[], None);
        change.parts().image(root, image::parts(&scratch));
        change.commit(RecordFor::Owner, writer)?;
        Ok(Tree { table, root })
    }

    /// Frees all pages but the root, and makes the root an empty leaf. No other transaction uses
    /// the tree any more, so the fences of the remaining pages are not updated.
    pub(super) fn clear(&self, pages: Pages<'_>, writer: &mut dyn ChangeWriter) -> Result<()> {
        while self.clear_some(pages, writer)? {}
        Ok(())
    }

    /// Makes one step of `clear`, at the right edge of the tree. Returns `false` if nothing is left
    /// to do.
    fn clear_some(&self, pages: Pages<'_>, writer: &mut dyn ChangeWriter) -> Result<bool> {
        let root = self.write_root(pages.pool)?;
        if header::level(&root) == 0 {
            let Some(root) = self.clear_leaf(pages, root, writer)? else { return Ok(true) };
            self.empty_root(pages, root, Vec::new(), writer)?;
            return Ok(false);
        }
        // Descends from the root to the parent of the last leaves.
        let mut path = Vec::new();
        let mut page = root;
        for level in (1..header::level(&page)).rev() {
            let inner = page.inner()?;
            let child = self.write_child(pages.pool, inner.child(inner.len()), level)?;
            path.push(page);
            page = child;
        }
        let inner = page.inner()?;
        let children = inner.len() + 1;
        let mut freed = Vec::new();
        for index in (0..children).rev().take(LEAVES_PER_RECORD) {
            let leaf = self.write_child(pages.pool, inner.child(index), 0)?;
            if leaf.leaf()?.entries().any(|(_, value)| matches!(value, Value::Overflow { .. })) {
                if freed.is_empty() {
                    return self.clear_leaf(pages, leaf, writer).map(|_| true);
                }
                break;
            }
            freed.push(leaf.id());
        }
        if freed.len() < children {
            let keep = children - freed.len();
            self.keep_children(pages, page, keep, freed, writer)?;
            return Ok(true);
        }
        // A page that loses its only child is freed, too.
        while let Some(above) = path.pop() {
            freed.push(page.id());
            page = above;
            let children = page.inner()?.len() + 1;
            if children > 1 {
                self.keep_children(pages, page, children - 1, freed, writer)?;
                return Ok(true);
            }
        }
        self.empty_root(pages, page, freed, writer)?;
        Ok(true)
    }

    /// Frees the last long value of a leaf, and removes the key of this value and all greater keys.
    /// Returns the leaf if the leaf has no long value.
    fn clear_leaf(
        &self,
        pages: Pages<'_>,
        page: PageWrite,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Option<PageWrite>> {
        let leaf = page.leaf()?;
        let last = leaf.entries().enumerate().rev().find_map(|(slot, (_, value))| match value {
            Value::Overflow { head, .. } => Some((slot, head)),
            Value::Inline(_) => None,
        });
        let Some((slot, head)) = last else { return Ok(Some(page)) };
        let freed = pages_of_chain(pages.pool, self.table, head)?;
        let mut scratch = vec![0; pages.pool.page_bytes()];
        let fences = (leaf.lower_fence(), leaf.upper_fence());
        LeafMut::build(&mut scratch, page.id(), self.table, fences, leaf.entries().take(slot))
            .map_err(does_not_fit)?;
        self.replace_and_free(pages, page, &scratch, freed, writer)?;
        Ok(None)
    }

    /// Keeps the first children of an inner page. `freed` are the other children and the pages
    /// below them.
    fn keep_children(
        &self,
        pages: Pages<'_>,
        page: PageWrite,
        keep: usize,
        freed: Vec<PageId>,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let inner = page.inner()?;
        let mut scratch = vec![0; pages.pool.page_bytes()];
        let fences = (inner.lower_fence(), inner.upper_fence());
        let entries = inner.entries().take(keep - 1);
        InnerMut::build(&mut scratch, page.id(), self.table, inner.level(), fences, inner.child(0), entries)
            .map_err(does_not_fit)?;
        self.replace_and_free(pages, page, &scratch, freed, writer)
    }

    /// Makes the root an empty leaf. `freed` are the pages below it.
    fn empty_root(
        &self,
        pages: Pages<'_>,
        root: PageWrite,
        freed: Vec<PageId>,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let mut scratch = vec![0; pages.pool.page_bytes()];
        LeafMut::format(&mut scratch, self.root, self.table, &[], None);
        self.replace_and_free(pages, root, &scratch, freed, writer)
    }

    fn replace_and_free(
        &self,
        pages: Pages<'_>,
        page: PageWrite,
        by: &[u8],
        freed: Vec<PageId>,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let mut change = Structure::new(pages);
        change.parts().image(page.id(), image::parts(by));
        change.add(page);
        for page in freed {
            change.mark_free(page);
        }
        change.commit(RecordFor::Structure, writer)?;
        Ok(())
    }
}

/// Frees the chain of a long value that begins at `head`, or the tree whose root is `head`. Called
/// for a deferred free, after the transaction's commit record is in the log. After a crash it is
/// called again, unless the log has a `ChainFree` of `head` by that transaction.
pub(crate) fn free_after_commit(pages: Pages<'_>, head: PageId, writer: &mut dyn ChangeWriter) -> Result<()> {
    free(pages, head, RecordFor::ChainFree(head), writer)
}

/// Frees the chain or tree that begins at `head`. The record of the last step is of kind `kind`.
pub(super) fn free(
    pages: Pages<'_>,
    head: PageId,
    kind: RecordFor,
    writer: &mut dyn ChangeWriter,
) -> Result<()> {
    let (page_kind, table): (Option<Kind>, TableId) = {
        let page = pages.pool.read(head)?;
        (page.kind(), header::table(&page))
    };
    let mut change = Structure::new(pages);
    match page_kind {
        Some(Kind::Overflow) => {
            for id in pages_of_chain(pages.pool, table, head)? {
                change.mark_free(id);
            }
        }
        Some(Kind::Leaf | Kind::Inner) => {
            Tree { table, root: head }.clear(pages, writer)?;
            change.mark_free(head);
        }
        _ => return Err(corrupt(head, "nothing that could be freed begins there")),
    }
    change.commit(kind, writer)?;
    Ok(())
}
