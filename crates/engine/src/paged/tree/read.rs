//! Reading one key.

use super::chain::{Chain, read_chain};
use super::descend::Target;
use super::handle::Tree;
use crate::Result;
use crate::paged::page::Value;
use crate::paged::pool::Pool;

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
