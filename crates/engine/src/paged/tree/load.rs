//! Building a tree from keys that come in order: bottom-up, with full pages.
//!
//! A [`TreeLoad`] has in memory the rightmost page of each level, and the full pages that are not
//! logged yet. Once there are enough full pages, one record is appended with the images of the full
//! pages and of the rightmost pages. No other thread uses the tree meanwhile. Invariants:
//!
//! 1. After each record the tree is whole: the rightmost page of each level has no upper fence, and
//!    every page but the root has a parent. So a crash at any time leaves a tree that can be freed
//!    from its root, and no unreachable page.
//! 2. The records are `Structure`: no part of a load is undone, and the log of a load can be
//!    trimmed while the load runs.
//! 3. A long value is logged from its end to its front. Until its first page is logged, the leaf
//!    names the part that is logged, which is a shorter value in a tree that no thread reads.
//! 4. After a failed call, the load cannot continue. The tree is as the last record left it.

use super::chain::{Chain, write_groups};
use super::handle::{Pages, Tree, corrupt};
use super::room::does_not_fit;
use super::structure::{RecordFor, Structure};
use super::writer::{ChangeWriter, Logged};
use crate::direction::Direction;
use crate::paged::page::key::separator;
use crate::paged::page::{
    InnerMut, InnerRef, LeafMut, PageId, Value, entry_bytes, fits_inline, header, image, key_bytes_max,
};
use crate::paged::pool::Pool;
use crate::paged::space::{AllocClass, Reserved};
use crate::paged::tree::{Batch, ScanRequest};
use crate::{Error, Result, VALUE_BYTES_MAX};
use std::mem;
use std::ops::{Bound, Range};

/// Approximate bytes of full pages in one record.
const GROUP_BYTES: usize = 256 << 10;

/// The full pages of one record take at most 1/`GROUP_PART` of the cache, because they are latched
/// together.
const GROUP_PART: usize = 4;

/// The number of a page, and whether the log has the page.
#[derive(Debug)]
enum Place {
    /// No record has the page yet.
    New(Reserved),
    Logged(PageId),
}

impl Place {
    fn page(&self) -> PageId {
        match self {
            Place::New(reserved) => reserved.page(),
            Place::Logged(page) => *page,
        }
    }

    /// Latches the page for `change`.
    fn add(&mut self, change: &mut Structure<'_>, pages: Pages<'_>) -> Result<PageId> {
        let page = self.page();
        match mem::replace(self, Place::Logged(page)) {
            Place::New(reserved) => change.add_new(reserved, &[]),
            Place::Logged(page) => {
                change.add(pages.pool.write(page)?);
                Ok(page)
            }
        }
    }
}

/// A page to which nothing more is added.
#[derive(Debug)]
struct FullPage {
    place: Place,
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum Stored {
    Inline(Range<usize>),
    Chain(Chain),
}

/// The rightmost leaf.
#[derive(Debug)]
struct OpenLeaf {
    place: Place,
    lower: Vec<u8>,
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Stored)>,
    /// Bytes that the entries take in a page.
    used: usize,
}

impl OpenLeaf {
    fn new(place: Place, lower: Vec<u8>) -> Self {
        OpenLeaf { place, lower, bytes: Vec::new(), entries: Vec::new(), used: 0 }
    }

    fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.entries[index].0.clone()]
    }

    fn value(&self, index: usize) -> Value<'_> {
        match &self.entries[index].1 {
            Stored::Inline(range) => Value::Inline(&self.bytes[range.clone()]),
            Stored::Chain(Chain { head, length }) => Value::Overflow { head: *head, length: *length },
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], Value<'_>)> {
        (0..self.entries.len()).map(|index| (self.key(index), self.value(index)))
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    fn push(&mut self, key: &[u8], value: &Value<'_>) {
        self.used += entry_bytes(key, value);
        let key = self.store(key);
        let value = match *value {
            Value::Inline(bytes) => Stored::Inline(self.store(bytes)),
            Value::Overflow { head, length } => Stored::Chain(Chain { head, length }),
        };
        self.entries.push((key, value));
    }

    /// Bytes that the entries and an upper fence may take.
    fn room(&self, page_bytes: usize) -> usize {
        page_bytes - header::BYTES - self.lower.len()
    }
}

/// The rightmost page of a level above the leaves.
#[derive(Debug)]
struct OpenInner {
    place: Place,
    lower: Vec<u8>,
    first: PageId,
    entries: Vec<(Vec<u8>, PageId)>,
    used: usize,
    /// True if the log does not have the page as it is.
    is_changed: bool,
}

impl OpenInner {
    fn new(place: Place, lower: Vec<u8>, first: PageId) -> Self {
        OpenInner { place, lower, first, entries: Vec::new(), used: 0, is_changed: true }
    }

    fn push(&mut self, separator: Vec<u8>, child: PageId) {
        self.used += InnerRef::entry_bytes(&separator);
        self.entries.push((separator, child));
        self.is_changed = true;
    }

    fn build(&self, page: &mut [u8], tree: Tree, level: usize, upper: Option<&[u8]>) -> Result<()> {
        let entries = self.entries.iter().map(|(separator, child)| (separator.as_slice(), *child));
        let (id, fences) = (self.place.page(), (self.lower.as_slice(), upper));
        InnerMut::build(page, id, tree.table, level as u8, fences, self.first, entries)
            .map_err(does_not_fit)?;
        Ok(())
    }
}

/// A tree that is being built. See the head of this file.
#[derive(Debug)]
pub(crate) struct TreeLoad {
    tree: Tree,
    page_bytes: usize,
    leaf: OpenLeaf,
    /// The rightmost inner pages, from the parents of leaves up. The last one is the root.
    inner: Vec<OpenInner>,
    full: Vec<FullPage>,
    /// Number of full pages in one record.
    group: usize,
    spare: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

impl Tree {
    /// Returns whether the tree has no key.
    pub(crate) fn is_empty(&self, pool: &Pool) -> Result<bool> {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let request = ScanRequest { low, high, direction: Direction::Up, entries: 1, bytes: usize::MAX };
        let mut batch = Batch::EMPTY;
        self.scan(pool, request, &mut batch)?;
        Ok(batch.is_empty())
    }

    /// Exchanges the contents of this tree with those of another tree of its table, whose root is
    /// `other`, by one record. Both trees keep their roots. No other thread changes either tree
    /// meanwhile.
    pub(crate) fn exchange(
        &self,
        pages: Pages<'_>,
        other: PageId,
        writer: &mut dyn ChangeWriter,
    ) -> Result<Logged> {
        let own = self.write_root(pages.pool)?;
        let others = Tree::new(self.table, other).write_root(pages.pool)?;
        let mut change = Structure::new(pages);
        let mut scratch = vec![0; pages.pool.page_bytes()];
        for (from, to) in [(&others, self.root), (&own, other)] {
            self.copy_as(from, to, &mut scratch)?;
            change.parts().image(to, image::parts(&scratch));
        }
        change.add(own);
        change.add(others);
        change.commit(RecordFor::Structure, writer)
    }
}

impl TreeLoad {
    /// Begins to fill `tree`, which is an empty leaf.
    pub(crate) fn new(pool: &Pool, tree: Tree) -> Self {
        let page_bytes = pool.page_bytes();
        TreeLoad {
            tree,
            page_bytes,
            leaf: OpenLeaf::new(Place::Logged(tree.root), Vec::new()),
            inner: Vec::new(),
            full: Vec::new(),
            group: (GROUP_BYTES / page_bytes).min(pool.stat().capacity / GROUP_PART).max(1),
            spare: Vec::new(),
            scratch: vec![0; page_bytes],
        }
    }

    /// Adds a key above all keys that were added, and its value. Returns the last record, if the
    /// call appended one.
    ///
    /// # Errors
    /// `Error::KeyTooLong` and `Error::ValueTooLong`. `Error::Corrupt` if a map page contradicts
    /// the tree, or the tree would have more than 255 levels. The errors of the log, of growing the
    /// file and of reading pages.
    pub(crate) fn push(
        &mut self,
        pages: Pages<'_>,
        key: &[u8],
        value: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Option<Logged>> {
        let max = key_bytes_max(self.page_bytes);
        if key.len() > max {
            return Err(Error::key_too_long(key, max));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::value_too_long(key, value.len(), VALUE_BYTES_MAX));
        }
        let is_inline = fits_inline(self.page_bytes, key.len(), value.len());
        let cell = match is_inline {
            true => Value::Inline(value),
            // The value is not written yet. This placeholder takes as many bytes as the final cell.
            false => Value::Overflow { head: PageId::NONE, length: 0 },
        };
        let mut logged = None;
        if self.leaf.used + entry_bytes(key, &cell) > self.leaf.room(self.page_bytes) {
            self.close_leaf(pages, key, writer.alloc_class())?;
            if self.full.len() >= self.group {
                logged = Some(self.log(pages, writer)?);
            }
        }
        self.leaf.push(key, &cell);
        if !is_inline {
            logged = self.push_chain(pages, value, writer)?;
        }
        Ok(logged)
    }

    /// Logs all pages that the log does not have as they are.
    pub(crate) fn finish(&mut self, pages: Pages<'_>, writer: &mut dyn ChangeWriter) -> Result<Logged> {
        self.log(pages, writer)
    }

    fn log(&mut self, pages: Pages<'_>, writer: &mut dyn ChangeWriter) -> Result<Logged> {
        let mut change = Structure::new(pages);
        self.add_pages(&mut change, pages)?;
        change.commit(RecordFor::Structure, writer)
    }

    /// Writes the value of the last entry into pages of its own.
    fn push_chain(
        &mut self,
        pages: Pages<'_>,
        value: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Option<Logged>> {
        let mut logged = None;
        write_groups(pages, self.tree.table, value, writer.alloc_class(), |mut change, chain| {
            if let Some((_, stored)) = self.leaf.entries.last_mut() {
                *stored = Stored::Chain(chain);
            }
            self.add_pages(&mut change, pages)?;
            logged = Some(change.commit(RecordFor::Structure, writer)?);
            Ok(())
        })?;
        Ok(logged)
    }

    /// Adds to `change` all pages that the log does not have as they are.
    fn add_pages(&mut self, change: &mut Structure<'_>, pages: Pages<'_>) -> Result<()> {
        for FullPage { mut place, bytes } in self.full.drain(..) {
            let page = place.add(change, pages)?;
            change.parts().image(page, image::parts(&bytes));
            self.spare.push(bytes);
        }
        let leaf = &mut self.leaf;
        let page = leaf.place.add(change, pages)?;
        let fences = (leaf.lower.as_slice(), None);
        LeafMut::build(&mut self.scratch, page, self.tree.table, fences, leaf.entries())
            .map_err(does_not_fit)?;
        change.parts().image(page, image::parts(&self.scratch));
        for (below, inner) in self.inner.iter_mut().enumerate().filter(|(_, inner)| inner.is_changed) {
            let page = inner.place.add(change, pages)?;
            inner.build(&mut self.scratch, self.tree, below + 1, None)?;
            change.parts().image(page, image::parts(&self.scratch));
            inner.is_changed = false;
        }
        Ok(())
    }

    /// Returns memory for a page.
    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; self.page_bytes])
    }

    /// Gives the leaf its upper fence, and begins the next leaf, whose first key is `next`.
    fn close_leaf(&mut self, pages: Pages<'_>, next: &[u8], class: AllocClass) -> Result<()> {
        let leaf = &self.leaf;
        let count = leaf.entries.len();
        let Some(last) = count.checked_sub(1) else {
            return Err(Error::Internal("an entry does not fit an empty leaf"));
        };
        let mut upper = separator(leaf.key(last), next);
        let mut keep = count;
        if leaf.used + upper.len() > leaf.room(self.page_bytes) && last > 0 {
            // The last entry goes to the next leaf, which frees at least the bytes of the entry's
            // key. The new fence is not longer than that key, so it fits.
            upper = separator(leaf.key(last - 1), leaf.key(last));
            keep = last;
        }
        let upper = upper.to_vec();
        let mut next = OpenLeaf::new(Place::New(pages.space.reserve(class)?), upper.clone());
        let right = next.place.page();
        for index in keep..count {
            next.push(leaf.key(index), &leaf.value(index));
        }
        if self.inner.is_empty() {
            self.grow(pages, class)?;
        }
        let mut bytes = self.buffer();
        let leaf = &self.leaf;
        let (page, fences) = (leaf.place.page(), (leaf.lower.as_slice(), Some(upper.as_slice())));
        LeafMut::build(&mut bytes, page, self.tree.table, fences, leaf.entries().take(keep))
            .map_err(does_not_fit)?;
        let OpenLeaf { place, .. } = mem::replace(&mut self.leaf, next);
        self.full.push(FullPage { place, bytes });
        self.add_child(pages, upper, right, class)
    }

    /// Adds a level: the highest page gets another number, and becomes the only child of the root.
    fn grow(&mut self, pages: Pages<'_>, class: AllocClass) -> Result<()> {
        if self.inner.len() == usize::from(u8::MAX) {
            return Err(corrupt(self.tree.root, "the tree is 255 levels high"));
        }
        let own = Place::New(pages.space.reserve(class)?);
        let first = own.page();
        let highest = self.inner.last_mut().map_or(&mut self.leaf.place, |inner| &mut inner.place);
        let root = mem::replace(highest, own);
        if let Some(inner) = self.inner.last_mut() {
            inner.is_changed = true;
        }
        self.inner.push(OpenInner::new(root, Vec::new(), first));
        Ok(())
    }

    /// Adds a leaf to its parent. If a page has no room for the separator, the page gives its last
    /// separator to its own parent. The two children around the new separator become the first
    /// children of the next page.
    fn add_child(
        &mut self,
        pages: Pages<'_>,
        mut separator: Vec<u8>,
        mut child: PageId,
        class: AllocClass,
    ) -> Result<()> {
        let mut at = 0;
        loop {
            let inner = &mut self.inner[at];
            let room = self.page_bytes - header::BYTES - inner.lower.len();
            if inner.used + InnerRef::entry_bytes(&separator) <= room {
                inner.push(separator, child);
                return Ok(());
            }
            let Some((upper, first)) = inner.entries.pop() else {
                return Err(Error::Internal("a separator does not fit an empty page"));
            };
            let mut next = OpenInner::new(Place::New(pages.space.reserve(class)?), upper.clone(), first);
            let right = next.place.page();
            next.push(separator, child);
            if at + 1 == self.inner.len() {
                self.grow(pages, class)?;
            }
            let mut bytes = self.buffer();
            self.inner[at].build(&mut bytes, self.tree, at + 1, Some(&upper))?;
            let OpenInner { place, .. } = mem::replace(&mut self.inner[at], next);
            self.full.push(FullPage { place, bytes });
            (separator, child) = (upper, right);
            at += 1;
        }
    }
}
