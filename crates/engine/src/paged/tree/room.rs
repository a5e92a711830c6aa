//! Making room: splits a page that has no room for an entry or a separator, and lets the tree grow
//! at its root.
//!
//! Descends with exclusive latches, on at most a parent and its child at a time. An inner page that
//! may have no room for one more separator is split on the way. So the parent of a page to be split
//! always has room, and no split propagates upwards. Each call makes one change of structure and
//! lets the caller try again.
//!
//! The root never moves. If the root has to be split, its contents go into a new child first, which
//! is then its only child.

use super::descend::Target;
use super::handle::{Pages, Tree};
use super::structure::{RecordFor, Structure};
use super::writer::ChangeWriter;
use crate::paged::page::key::separator;
use crate::paged::page::{
    Full, InnerMut, InnerRef, LeafMut, LeafRef, PageId, Value, header, image, key_bytes_max,
};
use crate::paged::pool::PageWrite;
use crate::{Error, Result};

/// Bytes that an entry takes in a leaf besides its key and value: slot and cell header. A test
/// compares the number with the page format.
pub(super) const LEAF_ENTRY_OVERHEAD: usize = 12;

pub(super) fn does_not_fit(_: Full) -> Error {
    Error::Internal("half a page does not fit a page")
}

/// Point at which a leaf is split.
#[derive(Debug, PartialEq, Eq)]
struct LeafSplit {
    /// Number of keys that stay.
    keep: usize,
    /// The first key that may be in the right half.
    separator: Vec<u8>,
}

/// The entries of a leaf as they would be with one more entry, or with an entry of another size.
struct Entries<'a> {
    leaf: LeafRef<'a>,
    key: &'a [u8],
    size: usize,
    /// Index of the key (`Ok`), or the index at which it belongs (`Err`).
    place: std::result::Result<usize, usize>,
}

impl<'a> Entries<'a> {
    fn len(&self) -> usize {
        self.leaf.len() + usize::from(self.place.is_err())
    }

    /// Returns the slot of entry `index`, if the leaf has this entry as it is.
    fn slot(&self, index: usize) -> Option<usize> {
        match self.place {
            Ok(slot) | Err(slot) if slot == index => None,
            Err(slot) if index > slot => Some(index - 1),
            _ => Some(index),
        }
    }

    fn key(&self, index: usize) -> &'a [u8] {
        self.slot(index).map_or(self.key, |slot| self.leaf.key(slot))
    }

    fn bytes(&self, index: usize) -> usize {
        match self.slot(index) {
            None => self.size,
            Some(slot) => {
                LEAF_ENTRY_OVERHEAD + self.leaf.key(slot).len() + self.leaf.value(slot).cell_bytes()
            }
        }
    }

    /// Returns how many keys the leaf keeps, if entry `index` is the first of the right half.
    fn kept(&self, index: usize) -> usize {
        match self.place {
            Err(slot) if index > slot => index - 1,
            _ => index,
        }
    }
}

/// Decides where to split so that both halves have room, with the new entry included. The split is
/// as even as possible. But if the new entry is the last one, it goes to the new page alone. So
/// ascending keys fill their pages, and no entry moves. Four of the longest entries fit a page with
/// the longest fences, so there is always a place to split. `None` means that an entry is longer
/// than an entry may be.
fn choose_split(entries: &Entries<'_>, page_bytes: usize) -> Option<LeafSplit> {
    let count = entries.len();
    let total: usize = (0..count).map(|index| entries.bytes(index)).sum();
    let lower = entries.leaf.lower_fence().len();
    let upper = entries.leaf.upper_fence().map_or(0, <[u8]>::len);
    let border = |index: usize| separator(entries.key(index - 1), entries.key(index));
    let fits = |index: usize, left: usize| {
        let room = page_bytes - header::BYTES - border(index).len();
        left + lower <= room && total - left + upper <= room
    };
    let mut best = None;
    if entries.place == Err(count - 1) && fits(count - 1, total - entries.size) {
        best = Some(count - 1);
    } else {
        let (mut left, mut least) = (0, usize::MAX);
        for index in 1..count {
            left += entries.bytes(index - 1);
            let skew = left.abs_diff(total - left);
            if skew < least && fits(index, left) {
                (least, best) = (skew, Some(index));
            }
        }
    }
    best.map(|index| LeafSplit { keep: entries.kept(index), separator: border(index).to_vec() })
}

/// Returns whether an inner page has room for any separator that a split below it may add.
fn is_safe(inner: InnerRef<'_>, page_bytes: usize) -> bool {
    InnerRef::entry_bytes(&[]) + key_bytes_max(page_bytes) <= inner.free_space()
}

impl Tree {
    /// Makes one change of structure on the way to a leaf of `key` that has room for `value`. Does
    /// nothing if the leaf has room.
    pub(super) fn make_room(
        &self,
        pages: Pages<'_>,
        key: &[u8],
        value: &Value<'_>,
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let page_bytes = pages.pool.page_bytes();
        let mut page = self.write_root(pages.pool)?;
        let mut level = header::level(&page);
        if level == 0 {
            return if has_room(&page, key, value)? { Ok(()) } else { self.grow(pages, page, writer) };
        }
        if !is_safe(page.inner()?, page_bytes) {
            return self.grow(pages, page, writer);
        }
        loop {
            let index = Target::Key(key).child_index(page.inner()?);
            level -= 1;
            let child = self.write_child(pages.pool, page.inner()?.child(index), level)?;
            if level == 0 {
                return if has_room(&child, key, value)? {
                    Ok(())
                } else {
                    self.split_leaf(pages, page, index, child, (key, value), writer)
                };
            }
            if !is_safe(child.inner()?, page_bytes) {
                return self.split_inner(pages, page, index, child, key, writer);
            }
            page = child;
        }
    }

    /// Moves the contents of the root into a new page, which becomes the root's only child.
    fn grow(&self, pages: Pages<'_>, root: PageWrite, writer: &mut dyn ChangeWriter) -> Result<()> {
        let level = header::level(&root);
        if level == u8::MAX {
            return Err(super::handle::corrupt(self.root, "the tree is 255 levels high"));
        }
        let mut change = Structure::new(pages);
        let child = change.add_new(pages.space.reserve(writer.alloc_class())?, &[&root])?;
        let mut scratch = vec![0; pages.pool.page_bytes()];
        self.copy_as(&root, child, &mut scratch)?;
        change.parts().image(child, image::parts(&scratch));
        InnerMut::format(&mut scratch, self.root, self.table, level + 1, (&[], None), child);
        change.parts().image(self.root, image::parts(&scratch));
        change.add(root);
        change.commit(RecordFor::Structure, writer)?;
        Ok(())
    }

    /// Fills `scratch` with a page that has the contents of `page` and another id.
    pub(super) fn copy_as(&self, page: &PageWrite, id: PageId, scratch: &mut [u8]) -> Result<()> {
        if header::level(page) == 0 {
            let leaf = page.leaf()?;
            let fences = (leaf.lower_fence(), leaf.upper_fence());
            LeafMut::build(scratch, id, self.table, fences, leaf.entries()).map_err(does_not_fit)?;
        } else {
            let inner = page.inner()?;
            let fences = (inner.lower_fence(), inner.upper_fence());
            InnerMut::build(scratch, id, self.table, inner.level(), fences, inner.child(0), inner.entries())
                .map_err(does_not_fit)?;
        }
        Ok(())
    }

    /// Splits the leaf `left`, child `index` of `parent`. The parent has room for a separator.
    fn split_leaf(
        &self,
        pages: Pages<'_>,
        parent: PageWrite,
        index: usize,
        left: PageWrite,
        (key, value): (&[u8], &Value<'_>),
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let mut change = Structure::new(pages);
        let right = change.add_new(pages.space.reserve(writer.alloc_class())?, &[&parent, &left])?;
        let leaf = left.leaf()?;
        let size = LEAF_ENTRY_OVERHEAD + key.len() + value.cell_bytes();
        let entries = Entries { leaf, key, size, place: leaf.search(key) };
        let Some(LeafSplit { keep, separator }) = choose_split(&entries, pages.pool.page_bytes()) else {
            return Err(Error::Internal("a value for overflow pages was to be put into a leaf"));
        };
        let mut scratch = vec![0; pages.pool.page_bytes()];
        let fences = (separator.as_slice(), leaf.upper_fence());
        LeafMut::build(&mut scratch, right, self.table, fences, leaf.entries().skip(keep))
            .map_err(does_not_fit)?;
        change.parts().image(right, image::parts(&scratch));
        change.parts().truncate(left.id(), keep, &separator);
        change.parts().inner_insert(parent.id(), index, &separator, right);
        change.add(left);
        change.add(parent);
        change.commit(RecordFor::Structure, writer)?;
        Ok(())
    }

    /// Splits the inner page `left`, child `index` of `parent`. The parent has room for a
    /// separator. `left` has at least three separators, because with fewer it would have room for
    /// another (`page::key_bytes_max`).
    fn split_inner(
        &self,
        pages: Pages<'_>,
        parent: PageWrite,
        index: usize,
        left: PageWrite,
        key: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<()> {
        let inner = left.inner()?;
        if inner.len() < 3 {
            return Err(super::handle::corrupt(
                left.id(),
                "an inner page without room has fewer than three separators",
            ));
        }
        let mut change = Structure::new(pages);
        let right = change.add_new(pages.space.reserve(writer.alloc_class())?, &[&parent, &left])?;
        // With ascending keys the left page will not change again, so it is left full.
        let ascending = inner.child_index(key) == inner.len() && inner.upper_fence().is_none();
        let up = if ascending { inner.len() - 1 } else { inner.split_point() };
        let separator = inner.separator(up);
        let mut scratch = vec![0; pages.pool.page_bytes()];
        InnerMut::build(
            &mut scratch,
            right,
            self.table,
            inner.level(),
            (separator, inner.upper_fence()),
            inner.child(up + 1),
            inner.entries().skip(up + 1),
        )
        .map_err(does_not_fit)?;
        change.parts().image(right, image::parts(&scratch));
        change.parts().truncate(left.id(), up, separator);
        change.parts().inner_insert(parent.id(), index, separator, right);
        change.add(left);
        change.add(parent);
        change.commit(RecordFor::Structure, writer)?;
        Ok(())
    }
}

fn has_room(page: &PageWrite, key: &[u8], value: &Value<'_>) -> Result<bool> {
    let leaf = page.leaf()?;
    Ok(match leaf.search(key) {
        Ok(slot) => leaf.fits_replace(slot, value),
        Err(_) => leaf.fits(key, value),
    })
}
