//! Survey of the leaves of all tables.
//!
//! Reads every page once, except those that their maps mark as free. A leaf counts if its map marks
//! it as in use. If the map cannot be read, a leaf counts if a sound inner page leads to it with
//! the fences that the leaf has. Freed pages keep their bytes, so without these two rules deleted
//! rows would come back.
//!
//! In a sound file, two leaves of a tree never cover the same key. If two leaves of a table's tree
//! do, the device has returned an older version of one of them. Then the leaf with the lower LSN
//! does not count. A committed bulk load leaves a second tree with the table's id until this tree
//! is freed (`load`). If the second tree is the table's former tree, its root is an empty leaf that
//! covers all keys of the table; this leaf does not count. The tree of a load that is not committed
//! has the table's id, too. If the load was given up, this holds until its tree is freed. The
//! leaves of such a tree are found through its inner pages, and do not count
//! ([`Survey::leave_out`]).

use crate::Lsn;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::paged::page::{Kind, PageId, map};
use crate::paged::pool::Pool;
use crate::paged::tree::Tree;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

/// A leaf that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Leaf {
    pub(super) page: PageId,
    pub(super) lsn: Lsn,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
}

/// A range of keys.
pub(super) type KeysBetween = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The leaves that count, of all tables.
pub(super) struct Survey {
    /// The leaves are in no order, and two of them may cover the same key.
    leaves: BTreeMap<TableId, Vec<Leaf>>,
}

impl Survey {
    /// Reads the pages below `pages`, except those that are `unfit` or marked as free.
    pub(super) fn of(pool: &Pool, pages: u64, unfit: &HashSet<PageId>) -> Result<Survey> {
        let used = InUse::read(pool, pages)?;
        let (mut leaves, mut unsure): (Vec<(TableId, Leaf)>, _) = (Vec::new(), Vec::new());
        let mut led_to: HashSet<(TableId, Leaf)> = HashSet::new();
        for id in (0..pages).map(PageId::new) {
            let is_used = used.says(id);
            if is_used == Some(false) || unfit.contains(&id) {
                continue;
            }
            let page = match pool.read(id) {
                Ok(page) => page,
                Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            match page.kind() {
                Some(Kind::Leaf) => {
                    let leaf = page.leaf()?;
                    let (lower, upper) =
                        (leaf.lower_fence().to_vec(), leaf.upper_fence().map(<[u8]>::to_vec));
                    let found = (leaf.table(), Leaf { page: id, lsn: page.lsn(), lower, upper });
                    if is_used.is_some() { leaves.push(found) } else { unsure.push(found) }
                }
                Some(Kind::Inner) => {
                    let inner = page.inner()?;
                    let unmapped = (0..=inner.len()).filter(|index| used.says(inner.child(*index)).is_none());
                    led_to.extend(unmapped.map(|index| {
                        let (lower, upper) = inner.child_fences(index);
                        let (lower, upper) = (lower.to_vec(), upper.map(<[u8]>::to_vec));
                        (inner.table(), Leaf { page: inner.child(index), lsn: Lsn::ZERO, lower, upper })
                    }));
                }
                _ => {}
            }
        }
        // A root that is a leaf has no page above it. It is the only leaf of its table, and covers
        // every key.
        let is_led_to = |(table, leaf): &(TableId, Leaf)| {
            leaf.lower.is_empty() && leaf.upper.is_none()
                || led_to.contains(&(*table, Leaf { lsn: Lsn::ZERO, ..leaf.clone() }))
        };
        leaves.extend(unsure.into_iter().filter(is_led_to));
        let mut survey = Survey { leaves: BTreeMap::new() };
        for (table, leaf) in leaves {
            survey.leaves.entry(table).or_default().push(leaf);
        }
        Ok(survey)
    }

    /// Leaves out the root of the tree that a committed load of the table has replaced. `page` is
    /// the root that the load's catalog entry names; it is left out only if it is an empty leaf.
    pub(super) fn leave_out_replaced(&mut self, pool: &Pool, table: TableId, page: PageId) -> Result<()> {
        let Some(leaves) = self.leaves.get_mut(&table) else { return Ok(()) };
        if let Some(at) = leaves.iter().position(|leaf| leaf.page == page)
            && pool.read(page)?.leaf()?.is_empty()
        {
            leaves.swap_remove(at);
        }
        Ok(())
    }

    /// Leaves out the leaves of a tree, as far as its root leads to them. Returns whether these are
    /// all leaves of the tree.
    pub(super) fn leave_out(&mut self, pool: &Pool, tree: Tree, sound: &Sound<'_>) -> Result<bool> {
        let found = TreeLeaves::of(pool, tree, sound)?;
        if let Some(leaves) = self.leaves.get_mut(&tree.table) {
            leaves.retain(|leaf| !found.pages.contains(&leaf.page));
        }
        Ok(found.is_whole)
    }

    /// Leaves out the leaves of the tree's table to which the root of the tree does not lead.
    pub(super) fn keep_only(&mut self, pool: &Pool, tree: Tree, sound: &Sound<'_>) -> Result<()> {
        let found = TreeLeaves::of(pool, tree, sound)?;
        if let Some(leaves) = self.leaves.get_mut(&tree.table) {
            leaves.retain(|leaf| found.pages.contains(&leaf.page));
        }
        Ok(())
    }

    /// Tables that have a leaf.
    pub(super) fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        self.leaves.keys().copied()
    }

    /// The leaves of a table, in the order of their keys.
    pub(super) fn leaves(&self, table: TableId) -> Vec<Leaf> {
        self.leaves.get(&table).map_or_else(Vec::new, |leaves| without_overlaps(leaves.clone()))
    }

    /// Number of leaves that have this LSN or a greater one.
    pub(super) fn pages_from(&self, lsn: Lsn) -> usize {
        self.leaves.values().flatten().filter(|leaf| leaf.lsn >= lsn).count()
    }
}

/// Function that returns whether a readable page with this LSN is what was written.
pub(super) type Sound<'a> = dyn Fn(PageId, Lsn) -> bool + 'a;

/// The leaves of a tree to which its root leads.
struct TreeLeaves {
    pages: HashSet<PageId>,
    /// True if these are all leaves of the tree.
    is_whole: bool,
}

impl TreeLeaves {
    /// Finds the leaves of a tree. Does not follow a page that is not `sound`.
    fn of(pool: &Pool, Tree { table, root }: Tree, sound: &Sound<'_>) -> Result<TreeLeaves> {
        let mut found = TreeLeaves { pages: HashSet::new(), is_whole: true };
        let (mut left, mut seen) = (vec![root], HashSet::from([root]));
        while let Some(id) = left.pop() {
            let page = match pool.read(id) {
                Ok(page) => page,
                Err(Error::Corrupt { .. }) => {
                    found.is_whole = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match page.kind() {
                _ if !sound(id, page.lsn()) => found.is_whole = false,
                Some(Kind::Leaf) if page.leaf()?.table() == table => drop(found.pages.insert(id)),
                Some(Kind::Inner) if page.inner()?.table() == table => {
                    let inner = page.inner()?;
                    let children = (0..=inner.len()).map(|index| inner.child(index));
                    left.extend(children.filter(|child| seen.insert(*child)));
                }
                _ => found.is_whole = false,
            }
        }
        Ok(found)
    }
}

/// The bits of the maps; `None` for a map that cannot be read.
struct InUse {
    page_bytes: usize,
    maps: Vec<Option<Vec<u8>>>,
}

impl InUse {
    fn read(pool: &Pool, pages: u64) -> Result<InUse> {
        let page_bytes = pool.page_bytes();
        let mut maps = Vec::new();
        for number in 0..pages.div_ceil(map::bits_per_map(page_bytes)) {
            let read = pool.read(map::map_page(number, page_bytes));
            maps.push(match read.and_then(|page| Ok(page.map()?.bits().to_vec())) {
                Ok(bits) => Some(bits),
                Err(Error::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            });
        }
        Ok(InUse { page_bytes, maps })
    }

    /// Returns whether a page is in use, or `None` if its map cannot be read.
    fn says(&self, page: PageId) -> Option<bool> {
        let number = (page.get() / map::bits_per_map(self.page_bytes)) as usize;
        let Some(bits) = self.maps.get(number) else { return Some(false) };
        let bit = map::bit_of(page, self.page_bytes);
        bits.as_ref().map(|bits| bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0))
    }
}

/// Returns the leaves in the order of their keys. If two leaves cover the same key, returns only
/// the one with the higher LSN.
fn without_overlaps(mut leaves: Vec<Leaf>) -> Vec<Leaf> {
    leaves.sort_unstable_by(|a, b| a.lower.cmp(&b.lower).then(b.lsn.cmp(&a.lsn)));
    let mut kept: Vec<Leaf> = Vec::with_capacity(leaves.len());
    'leaves: for leaf in leaves {
        while let Some(before) = kept.last() {
            if before.upper.as_ref().is_some_and(|upper| *upper <= leaf.lower) {
                break;
            }
            if before.lsn >= leaf.lsn {
                continue 'leaves;
            }
            kept.pop();
        }
        kept.push(leaf);
    }
    kept
}

/// Returns the keys that none of these leaves covers. The leaves are in the order of their keys.
pub(super) fn gaps(leaves: &[Leaf]) -> Vec<KeysBetween> {
    let mut gaps = Vec::new();
    let mut from: Option<&[u8]> = Some(&[]);
    let bound = |key: &[u8]| if key.is_empty() { Bound::Unbounded } else { Bound::Included(key.to_vec()) };
    for leaf in leaves {
        if let Some(from) = from
            && from < leaf.lower.as_slice()
        {
            gaps.push((bound(from), Bound::Excluded(leaf.lower.clone())));
        }
        from = leaf.upper.as_deref();
    }
    gaps.extend(from.map(|from| (bound(from), Bound::Unbounded)));
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(lower: &str, upper: &str, lsn: u64) -> Leaf {
        let upper = (!upper.is_empty()).then(|| upper.into());
        Leaf { page: PageId::new(lsn), lsn: Lsn::new(lsn), lower: lower.into(), upper }
    }

    #[test]
    fn gaps_are_what_no_leaf_covers() {
        let key = |key: &str| key.as_bytes().to_vec();
        assert_eq!(gaps(&[]), [(Bound::Unbounded, Bound::Unbounded)]);
        assert_eq!(gaps(&[leaf("", "c", 1), leaf("c", "", 2)]), []);
        assert_eq!(
            gaps(&[leaf("b", "c", 1), leaf("e", "f", 2)]),
            [
                (Bound::Unbounded, Bound::Excluded(key("b"))),
                (Bound::Included(key("c")), Bound::Excluded(key("e"))),
                (Bound::Included(key("f")), Bound::Unbounded),
            ]
        );
    }

    #[test]
    fn of_two_leaves_with_the_same_keys_the_newer_one_counts() {
        // The second leaf is an older version of a leaf that was split since.
        let kept = without_overlaps(vec![leaf("c", "", 9), leaf("", "", 3)]);
        assert_eq!(kept, [leaf("c", "", 9)]);
        let kept = without_overlaps(vec![leaf("", "b", 5), leaf("b", "d", 7), leaf("c", "d", 6)]);
        assert_eq!(kept, [leaf("", "b", 5), leaf("b", "d", 7)]);
    }
}
