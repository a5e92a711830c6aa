//! Giving pages back: merges a page that has become nearly empty with its neighbour under one
//! parent, and lets the tree lose height at its root.
//!
//! Runs on the thread that has removed a key. This thread holds no latch when it begins. Each merge
//! is one change of structure. A page that does not fit together with a neighbour stays as it is,
//! even if it is empty: an empty page takes space, but does no harm.

use super::descend::Target;
use super::handle::{Pages, Tree};
use super::room::does_not_fit;
use super::structure::{RecordFor, Structure};
use super::writer::ChangeWriter;
use crate::Result;
use crate::paged::page::{InnerMut, InnerRef, LeafMut, header, image};
use crate::paged::pool::PageWrite;

/// Bytes of a page for fences, slots and cells.
fn room(page_bytes: usize) -> usize {
    page_bytes - header::BYTES
}

/// Used bytes below which a page is merged, if it fits together with its neighbour.
fn underfull_below(page_bytes: usize) -> usize {
    room(page_bytes) / 4
}

/// State of a parent after one of its children was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// Nothing was merged, the parent is full enough, or the parent is the root.
    Stays,
    /// The parent is not the root, and should itself be merged.
    Underfull,
}

impl Tree {
    /// Returns whether the removal of a key emptied its leaf, or took the leaf's used bytes below a
    /// quarter, or below an eighth, of the leaf's room. Each of these three removals may merge the
    /// leaf. If every removal below a quarter counted, each one would try in vain to merge a leaf
    /// that does not fit together with its neighbours.
    pub(super) fn is_worth_shrinking(&self, pages: Pages<'_>, before: usize, after: usize) -> bool {
        let quarter = underfull_below(pages.pool.page_bytes());
        let crossed = |border: usize| before >= border && after < border;
        after == 0 || crossed(quarter) || crossed(quarter / 2)
    }

    /// Merges the leaf of `key` with a neighbour if the leaf is underfull. Then merges the pages
    /// above it, level by level, while a merge leaves the page above underfull.
    pub(super) fn shrink(&self, pages: Pages<'_>, key: &[u8], writer: &mut dyn ChangeWriter) -> Result<()> {
        for level in 0..u8::MAX {
            let mut page = self.write_root(pages.pool)?;
            let mut at = header::level(&page);
            if at <= level {
                return Ok(());
            }
            while at > level + 1 {
                at -= 1;
                let child = page.inner()?.child_for(key);
                page = self.write_child(pages.pool, child, at)?;
            }
            if self.merge_below(pages, page, key, writer)? == Parent::Stays {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Merges the child of `parent` that holds `key` with a neighbour, if the child is underfull
    /// and the two pages fit into one.
    fn merge_below(
        &self,
        pages: Pages<'_>,
        parent: PageWrite,
        key: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Parent> {
        let inner = parent.inner()?;
        let (level, last) = (inner.level() - 1, inner.len());
        if last == 0 {
            return self.collapse(pages, parent, writer);
        }
        let index = Target::Key(key).child_index(inner);
        let with_right = (index < last).then_some(index);
        let with_left = index.checked_sub(1);
        for left_index in [with_right, with_left].into_iter().flatten() {
            let left = self.write_child(pages.pool, inner.child(left_index), level)?;
            let right = self.write_child(pages.pool, inner.child(left_index + 1), level)?;
            let candidate = if left_index == index { &left } else { &right };
            if used(candidate)? >= underfull_below(pages.pool.page_bytes()) {
                return Ok(Parent::Stays);
            }
            if fits_together(&left, &right, inner.separator(left_index))? {
                return self.merge(pages, parent, left_index, left, right, writer);
            }
        }
        Ok(Parent::Stays)
    }

    /// Moves the contents of `right` to `left`, which is child `left_index` of `parent`, and frees
    /// `right`.
    fn merge(
        &self,
        pages: Pages<'_>,
        parent: PageWrite,
        left_index: usize,
        left: PageWrite,
        right: PageWrite,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Parent> {
        let mut scratch = vec![0; pages.pool.page_bytes()];
        let inner = parent.inner()?;
        let separator = inner.separator(left_index);
        if inner.level() == 1 {
            let (left, right) = (left.leaf()?, right.leaf()?);
            let fences = (left.lower_fence(), right.upper_fence());
            let entries = left.entries().chain(right.entries());
            LeafMut::build(&mut scratch, left.page_id(), self.table, fences, entries)
                .map_err(does_not_fit)?;
        } else {
            let (left, right) = (left.inner()?, right.inner()?);
            let fences = (left.lower_fence(), right.upper_fence());
            let between = std::iter::once((separator, right.child(0)));
            let entries = left.entries().chain(between).chain(right.entries());
            let id = left.page_id();
            InnerMut::build(&mut scratch, id, self.table, left.level(), fences, left.child(0), entries)
                .map_err(does_not_fit)?;
        }
        let used_after = inner.used_bytes() - InnerRef::entry_bytes(separator);
        let single = inner.len() == 1;
        let mut change = Structure::new(pages);
        change.parts().image(left.id(), image::parts(&scratch));
        change.parts().free(right.id());
        change.parts().inner_remove(parent.id(), left_index);
        change.mark_free(right.id());
        let is_root = parent.id() == self.root;
        change.add(left);
        change.add(right);
        change.add(parent);
        change.commit(RecordFor::Structure, writer)?;
        let small = if is_root { single } else { used_after < underfull_below(pages.pool.page_bytes()) };
        if is_root && single {
            let root = self.write_root(pages.pool)?;
            return self.collapse(pages, root, writer);
        }
        Ok(if small { Parent::Underfull } else { Parent::Stays })
    }

    /// While the root has a single child, copies that child into the root and frees it.
    fn collapse(&self, pages: Pages<'_>, page: PageWrite, writer: &mut dyn ChangeWriter) -> Result<Parent> {
        if page.id() != self.root {
            return Ok(Parent::Stays);
        }
        let mut root = page;
        while header::level(&root) > 0 && root.inner()?.len() == 0 {
            let level = header::level(&root) - 1;
            let child = self.write_child(pages.pool, root.inner()?.child(0), level)?;
            let mut scratch = vec![0; pages.pool.page_bytes()];
            self.copy_as(&child, self.root, &mut scratch)?;
            let mut change = Structure::new(pages);
            change.parts().image(self.root, image::parts(&scratch));
            change.parts().free(child.id());
            change.mark_free(child.id());
            change.add(root);
            change.add(child);
            change.commit(RecordFor::Structure, writer)?;
            root = self.write_root(pages.pool)?;
        }
        Ok(Parent::Stays)
    }
}

fn used(page: &PageWrite) -> Result<usize> {
    Ok(if header::level(page) == 0 { page.leaf()?.used_bytes() } else { page.inner()?.used_bytes() })
}

/// Returns whether one page can hold the contents of both pages and still has room, so that it is
/// not split again at the next key. If one of the two pages is empty, no room need be left.
fn fits_together(left: &PageWrite, right: &PageWrite, separator: &[u8]) -> Result<bool> {
    let (fences, between, empty) = if header::level(left) == 0 {
        let (left, right) = (left.leaf()?, right.leaf()?);
        let fences = left.lower_fence().len() + right.upper_fence().map_or(0, <[u8]>::len);
        (fences, 0, left.is_empty() || right.is_empty())
    } else {
        let (left, right) = (left.inner()?, right.inner()?);
        let fences = left.lower_fence().len() + right.upper_fence().map_or(0, <[u8]>::len);
        (fences, InnerRef::entry_bytes(separator), false)
    };
    let together = used(left)? + used(right)? + between + fences;
    let room = room(left.len());
    Ok(together <= if empty { room } else { room / 4 * 3 })
}
