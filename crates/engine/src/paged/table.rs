//! State that the handles on one table share.

use crate::engine::EngineTable;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::lock::LockSpace;
use crate::paged::page::Value;
use crate::paged::pool::Pool;
use crate::paged::tree::{InMemory, Shortcuts, Tree};
use crate::paged::views::Versions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table of an open database.
pub(crate) struct PagedTable {
    pub(crate) tree: Tree,
    pub(crate) space: Arc<LockSpace>,
    pub(crate) shortcuts: Shortcuts,
    /// Former values of the table's keys, for views.
    pub(crate) versions: Arc<Versions>,
    /// True once the record that drops the table has its position in the log. The dropping thread
    /// sets it before pages are freed and before the table's exclusive lock is released. A
    /// transaction reads the flag after the grant of its table lock, which orders the store before
    /// the load. A view, which has no lock, reads the flag after it has read pages.
    pub(crate) dropped: AtomicBool,
}

impl PagedTable {
    /// Fails if the table was dropped.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::TableDropped { name: self.space.name().to_string() });
        }
        Ok(())
    }
}

/// Reading one key, by a shortcut to its leaf if there is one. The caller holds no page's latch.
impl PagedTable {
    /// Calls `see` with the value that the leaf has for `key`, or with `None` if there is no such
    /// key. The leaf's latch is held meanwhile.
    #[inline]
    pub(crate) fn look<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R> {
        let page = self.tree.leaf_by_route(pool, &self.shortcuts, key)?;
        Ok(see(page.leaf()?.get(key)))
    }

    /// Returns a copy of the value of `key`, even if the value lies in an overflow chain. The
    /// caller's lock on the key keeps the chain from being freed.
    pub(crate) fn get_copy(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let page = self.tree.leaf_by_route(pool, &self.shortcuts, key)?;
        self.tree.copy_value(pool, page, key)
    }

    /// Calls `see` as [`PagedTable::look`] does, if the leaf is in memory.
    pub(crate) fn look_in_memory<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<InMemory<R>> {
        Ok(match self.tree.leaf_in_memory_by_route(pool, &self.shortcuts, key)? {
            InMemory::Found(page) => InMemory::Found(see(page.leaf()?.get(key))),
            InMemory::Missing(leaf) => InMemory::Missing(leaf),
        })
    }

    /// Returns a copy of the value of `key`, if its leaf is in memory. In all else it works like
    /// [`PagedTable::get_copy`].
    pub(crate) fn get_copy_in_memory(&self, pool: &Pool, key: &[u8]) -> Result<InMemory<Option<Vec<u8>>>> {
        match self.tree.leaf_in_memory_by_route(pool, &self.shortcuts, key)? {
            InMemory::Found(page) => self.tree.copy_value(pool, page, key).map(InMemory::Found),
            InMemory::Missing(leaf) => Ok(InMemory::Missing(leaf)),
        }
    }

    /// Returns whether the table has `key`.
    pub(crate) fn contains(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        self.look(pool, key, |value| value.is_some())
    }
}

impl EngineTable for Arc<PagedTable> {
    fn name(&self) -> Arc<str> {
        self.space.name()
    }

    fn id(&self) -> TableId {
        self.tree.table
    }
}
