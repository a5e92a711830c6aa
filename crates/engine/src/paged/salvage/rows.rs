//! The rows of one table, read from its sound leaves, with the changes of unfinished transactions
//! taken back.

use super::history::{Replayed, Step};
use super::survey::{Leaf, gaps};
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::paged::change::{UndoOp, undo_of};
use crate::paged::page::Value;
use crate::paged::pool::Pool;
use crate::paged::tree::{Chain, read_chain};
use crate::salvage::Loss;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A table that is read leaf by leaf.
pub(super) struct Rows<'a> {
    pub(super) pool: &'a Pool,
    pub(super) table: TableId,
    /// Leaves in the order of their keys.
    pub(super) leaves: &'a [Leaf],
    pub(super) replayed: &'a Replayed,
}

/// Value of a key after the changes of unfinished transactions were taken back.
#[derive(Debug, PartialEq, Eq)]
enum Before {
    Value(Vec<u8>),
    Nothing,
    /// The former value is in no record and in no page that can be read.
    Lost,
}

/// A receiver of rows.
type Give<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

impl Rows<'_> {
    /// Calls `give` with every row that is found, and adds the keys that are lost to `losses`.
    /// `name` is the table's name.
    pub(super) fn give(&self, name: &str, losses: &mut Vec<Loss>, give: &mut Give<'_>) -> Result<()> {
        let range = |from, to| Loss::Keys { table: name.to_owned(), from, to };
        losses.extend(gaps(self.leaves).into_iter().map(|(from, to)| range(from, to)));
        let mut lose =
            |key: &[u8]| losses.push(range(Bound::Included(key.to_vec()), Bound::Included(key.to_vec())));
        let nothing = BTreeMap::new();
        let undo = self.replayed.undo.get(&self.table).unwrap_or(&nothing);
        for leaf in self.leaves {
            let page = self.pool.read(leaf.page)?;
            for (key, value) in page.leaf()?.entries() {
                if self.replayed.knows(leaf.lsn) && undo.contains_key(key) {
                    continue;
                }
                match self.value(value)? {
                    Some(value) => give(key, &value)?,
                    None => lose(key),
                }
            }
        }
        for (key, steps) in undo {
            let leaf = self.leaf_of(key);
            if leaf.is_some_and(|leaf| !self.replayed.knows(leaf.lsn)) {
                continue;
            }
            match self.before(key, leaf, steps)? {
                Before::Value(value) => give(key, &value)?,
                Before::Nothing => {}
                Before::Lost => lose(key),
            }
        }
        Ok(())
    }

    /// Returns the leaf that covers a key, if it can be read.
    fn leaf_of(&self, key: &[u8]) -> Option<&Leaf> {
        let at = self.leaves.partition_point(|leaf| leaf.lower.as_slice() <= key).checked_sub(1)?;
        let leaf = &self.leaves[at];
        leaf.upper.as_ref().is_none_or(|upper| key < upper.as_slice()).then_some(leaf)
    }

    /// Returns the bytes of a value in a leaf, or `None` if the overflow pages of a long value are
    /// damaged.
    fn value(&self, value: Value<'_>) -> Result<Option<Vec<u8>>> {
        match value {
            Value::Inline(bytes) => Ok(Some(bytes.to_vec())),
            Value::Overflow { head, length } => {
                match read_chain(self.pool, self.table, Chain { head, length }) {
                    Ok(value) => Ok(Some(value)),
                    Err(Error::Corrupt { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Returns the value of a key before unfinished transactions changed it. `steps` are their
    /// changes, the newest first.
    fn before(&self, key: &[u8], leaf: Option<&Leaf>, steps: &[Step]) -> Result<Before> {
        let mut now = match leaf {
            None => Before::Lost,
            Some(leaf) => match self.pool.read(leaf.page)?.leaf()?.get(key) {
                None => Before::Nothing,
                Some(value) => self.value(value)?.map_or(Before::Lost, Before::Value),
            },
        };
        for Step { kind, payload } in steps {
            now = match undo_of(*kind, payload) {
                Ok(UndoOp::Delete { .. }) => Before::Nothing,
                Ok(UndoOp::Insert { old, .. } | UndoOp::Replace { old, .. }) => {
                    self.value(old)?.map_or(Before::Lost, Before::Value)
                }
                Ok(UndoOp::Diff { back, .. }) => match now {
                    Before::Value(value) => back.apply(&value).map_or(Before::Lost, Before::Value),
                    _ => Before::Lost,
                },
                Ok(UndoOp::FreePages(_) | UndoOp::Nothing) => now,
                Err(_) => Before::Lost,
            };
        }
        Ok(now)
    }
}
