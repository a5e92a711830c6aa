//! Descending from the root to a leaf. Each page is latched before the latch above it is released.

use super::handle::{Tree, corrupt};
use crate::paged::page::{InnerRef, Kind, PageId, header};
use crate::paged::pool::{PageRead, PageWrite, Pool};
use crate::{Result, TableId};
use std::ops::Bound;

/// Target of a search in an inner page.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// The child that holds this key.
    Key(&'a [u8]),
    /// The child that holds the greatest key below this one.
    Below(&'a [u8]),
    /// The last child.
    Last,
}

impl<'a> Target<'a> {
    /// Target at which a scan that ascends from `bound` begins.
    pub(super) fn ascending(bound: Bound<&'a [u8]>) -> Self {
        match bound {
            Bound::Included(key) | Bound::Excluded(key) => Target::Key(key),
            Bound::Unbounded => Target::Key(&[]),
        }
    }

    /// Target at which a scan that descends from `bound` begins.
    pub(super) fn descending(bound: Bound<&'a [u8]>) -> Self {
        match bound {
            Bound::Included(key) => Target::Key(key),
            Bound::Excluded(key) => Target::Below(key),
            Bound::Unbounded => Target::Last,
        }
    }

    /// Returns the number of the child to descend to.
    #[inline]
    pub(super) fn child_index(self, inner: InnerRef<'_>) -> usize {
        match self {
            Target::Key(key) => inner.child_index(key),
            Target::Below(key) => match inner.search(key) {
                Ok(index) | Err(index) => index,
            },
            Target::Last => inner.len(),
        }
    }
}

/// Outcome of a read that reads no leaf from the device, unless the leaf is the root or is evicted
/// during the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InMemory<R> {
    Found(R),
    /// The leaf that the read needs is not in memory.
    Missing(PageId),
}

/// Returns whether a page is a page of this table's trees, at this level.
#[inline]
pub(super) fn is_node(page: &[u8], table: TableId, level: u8) -> bool {
    let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
    header::level(page) == level && header::table(page) == table && header::kind(page) == Some(kind)
}

/// Checks that a page belongs to this tree and this level. Levels descend by one, so every descent
/// ends.
#[inline]
pub(super) fn expect_node(page: &[u8], table: TableId, level: u8) -> Result<()> {
    if is_node(page, table, level) { Ok(()) } else { Err(wrong_node(page, table, level)) }
}

#[cold]
fn wrong_node(page: &[u8], table: TableId, level: u8) -> crate::Error {
    let finding = format!(
        "a page of table {table} at level {level} belongs there, not a {:?} page of table {} at level {}",
        header::kind(page),
        header::table(page),
        header::level(page)
    );
    corrupt(header::page_id(page), finding)
}

impl Tree {
    /// The root, latched shared.
    #[inline]
    pub(super) fn read_root(&self, pool: &Pool) -> Result<PageRead> {
        let page = pool.read(self.root)?;
        expect_node(&page, self.table, header::level(&page))?;
        Ok(page)
    }

    /// The root, latched exclusively.
    pub(super) fn write_root(&self, pool: &Pool) -> Result<PageWrite> {
        let page = pool.write(self.root)?;
        expect_node(&page, self.table, header::level(&page))?;
        Ok(page)
    }

    /// Returns the child, which is at this level, latched exclusively. The caller holds the
    /// parent's latch.
    pub(super) fn write_child(&self, pool: &Pool, child: PageId, level: u8) -> Result<PageWrite> {
        let page = pool.write(child)?;
        expect_node(&page, self.table, level)?;
        Ok(page)
    }

    /// The leaf of `target`, latched shared.
    #[inline]
    pub(super) fn leaf_for_read(&self, pool: &Pool, target: Target<'_>) -> Result<PageRead> {
        self.page_for_read(pool, target, 0)
    }

    /// Returns the page on the way to `target` at level `above`, or the root if the root's level is
    /// lower; latched shared.
    #[inline]
    pub(super) fn page_for_read(&self, pool: &Pool, target: Target<'_>, above: u8) -> Result<PageRead> {
        let mut page = self.read_root(pool)?;
        let mut level = header::level(&page);
        while level > above {
            let inner = page.inner()?;
            let child = inner.child(target.child_index(inner));
            let next = pool.read(child)?;
            level -= 1;
            expect_node(&next, self.table, level)?;
            page = next;
        }
        Ok(page)
    }

    /// The leaf of `key`, latched shared, if it is in memory. Waits for its latch.
    pub(super) fn leaf_in_memory(&self, pool: &Pool, key: &[u8]) -> Result<InMemory<PageRead>> {
        let parent = self.page_for_read(pool, Target::Key(key), 1)?;
        if header::level(&parent) == 0 {
            return Ok(InMemory::Found(parent));
        }
        let leaf = parent.inner()?.child_for(key);
        let page = match pool.try_read(leaf) {
            Some(page) => page,
            None if !pool.is_in_memory(leaf) => return Ok(InMemory::Missing(leaf)),
            None => pool.read(leaf)?,
        };
        expect_node(&page, self.table, 0)?;
        Ok(InMemory::Found(page))
    }

    /// Returns the leaf of `key`, latched exclusively. The pages above it were latched shared.
    #[inline]
    pub(super) fn leaf_for_write(&self, pool: &Pool, key: &[u8]) -> Result<PageWrite> {
        loop {
            let mut page = self.read_root(pool)?;
            let mut level = header::level(&page);
            if level == 0 {
                drop(page);
                let page = self.write_root(pool)?;
                // The root may have grown while no thread held its latch.
                if header::level(&page) == 0 {
                    return Ok(page);
                }
                continue;
            }
            while level > 1 {
                let next = pool.read(page.inner()?.child_for(key))?;
                level -= 1;
                expect_node(&next, self.table, level)?;
                page = next;
            }
            return self.write_child(pool, page.inner()?.child_for(key), 0);
        }
    }
}
