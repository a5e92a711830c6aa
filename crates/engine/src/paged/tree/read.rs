//! Reading one key.

use super::chain::{Chain, read_chain};
use super::descend::Target;
use super::handle::Tree;
use crate::Result;
use crate::paged::page::{Value, header};
use crate::paged::pool::{PageRead, Pool};

impl Tree {
    /// Calls `see` with the value that the leaf has for `key`, with the leaf's latch held. Returns
    /// `None` if there is no such key.
    pub(super) fn get<R>(
        &self,
        pool: &Pool,
        key: &[u8],
        see: impl FnOnce(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        let page = self.leaf_for_read(pool, Target::Key(key))?;
        Ok(page.leaf()?.get(key).map(see))
    }

    /// Returns whether the tree has `key`.
    pub(super) fn contains(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        Ok(self.get(pool, key, |_| ())?.is_some())
    }

    /// Reads together those leaves of `keys` that are not in memory. The caller passes at most
    /// [`Pool::ahead_max`] keys. This call is only a hint: when a key is read later, it may lie in
    /// another leaf, or its leaf may have been evicted again. Then that read may go to the device.
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

    /// Returns a copy of the value of `key`, even if the value lies in an overflow chain. The
    /// caller's lock on the key keeps the chain from being freed.
    pub(crate) fn get_copy(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let leaf = self.leaf_for_read(pool, Target::Key(key))?;
        self.copy_value(pool, leaf, key)
    }

    /// Returns a copy of the value of `key`, like [`Tree::get_copy`]. `leaf` is the leaf of `key`.
    #[inline]
    pub(crate) fn copy_value(&self, pool: &Pool, leaf: PageRead, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let chain = match leaf.leaf()?.get(key) {
            None => return Ok(None),
            Some(Value::Inline(bytes)) => return Ok(Some(bytes.to_vec())),
            Some(Value::Overflow { head, length }) => Chain { head, length },
        };
        drop(leaf);
        read_chain(pool, self.table, chain).map(Some)
    }
}
