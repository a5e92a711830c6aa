//! Reading one key.

use super::chain::{Chain, read_chain};
use super::descend::{Target, expect_node};
use super::handle::Tree;
use crate::Result;
use crate::paged::page::{PageId, Value, header};
use crate::paged::pool::{PageRead, Pool};

/// Outcome of a read that reads no leaf from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InMemory<R> {
    Found(R),
    /// The leaf that the read needs is not in memory.
    Missing(PageId),
}

impl Tree {
    /// Calls `see` with the value that the leaf has for `key`, with the leaf's latch held. Returns
    /// `None` if there is no such key.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        let page = self.leaf_for_read(pool, Target::Key(key))?;
        Ok(page.leaf()?.get(key).map(see))
    }

    /// Calls `see` with the value that the leaf has for `key`, or with `None` if there is no such
    /// key. The leaf's latch is held meanwhile.
    #[inline]
    pub(crate) fn look<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R> {
        let page = self.leaf_for_read(pool, Target::Key(key))?;
        Ok(see(page.leaf()?.get(key)))
    }

    /// Looks at a key like [`Tree::look`], if its leaf is in memory.
    pub(crate) fn look_in_memory<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<InMemory<R>> {
        Ok(match self.leaf_in_memory(pool, key)? {
            InMemory::Found(page) => InMemory::Found(see(page.leaf()?.get(key))),
            InMemory::Missing(leaf) => InMemory::Missing(leaf),
        })
    }

    /// The leaf of `key`, latched shared, if it is in memory. Waits for its latch.
    fn leaf_in_memory(&self, pool: &Pool, key: &[u8]) -> Result<InMemory<PageRead>> {
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

    /// Reads together those leaves of `keys` that are not in memory. `keys` are at most
    /// [`Pool::ahead_max`]. Changes no result: the leaves may be others, or evicted again, when
    /// they are needed.
    pub(crate) fn read_ahead<'k>(&self, pool: &Pool, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let mut missing = Vec::new();
        for key in keys {
            let parent = self.page_for_read(pool, Target::Key(key), 1)?;
            if header::level(&parent) == 0 {
                return Ok(());
            }
            let leaf = parent.inner()?.child_for(key);
            if !pool.is_in_memory(leaf) {
                missing.push(leaf);
            }
        }
        pool.prefetch_several(&missing)
    }

    /// Returns a copy of the value of `key`, if its leaf is in memory. In all else it works like
    /// [`Tree::get_copy`].
    pub(crate) fn get_copy_in_memory(&self, pool: &Pool, key: &[u8]) -> Result<InMemory<Option<Vec<u8>>>> {
        let found = self.look_in_memory(pool, key, |value| match value {
            None => Ok(None),
            Some(Value::Inline(bytes)) => Ok(Some(bytes.to_vec())),
            Some(Value::Overflow { head, length }) => Err(Chain { head, length }),
        })?;
        Ok(match found {
            InMemory::Found(Ok(value)) => InMemory::Found(value),
            InMemory::Found(Err(chain)) => InMemory::Found(Some(read_chain(pool, self.table, chain)?)),
            InMemory::Missing(leaf) => InMemory::Missing(leaf),
        })
    }

    /// Returns a copy of the value of `key`, read from its chain if it is long. The caller's lock
    /// on the key keeps the chain from being freed.
    pub(crate) fn get_copy(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.get(pool, key, |value| match value {
            Value::Inline(bytes) => Ok(bytes.to_vec()),
            Value::Overflow { head, length } => Err(Chain { head, length }),
        })?;
        match found {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(chain)) => read_chain(pool, self.table, chain).map(Some),
        }
    }

    /// Returns whether the tree has `key`.
    pub(crate) fn contains(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        Ok(self.get(pool, key, |_| ())?.is_some())
    }
}
