//! A map from keys to the leaves of a table, read from the inner pages.
//!
//! Any thread may run this code. A map is never changed. It may be stale: see `shortcuts` for why
//! that does no harm, and for when a new map is made.

use super::descend::Target;
use super::handle::Tree;
use crate::Result;
use crate::paged::page::{PageId, header};
use crate::paged::pool::{Aside, Pool};

/// Maximum number of leaves in a map. This limit bounds the time for making a map, which is about
/// 50 ns for each leaf.
const LEAVES_MAX: usize = 1 << 18;
/// Bytes of a map for each leaf, besides the separator.
const LEAF_BYTES: usize = size_of::<u64>() + size_of::<u32>() + size_of::<PageId>();
/// A map takes at most 1/`CACHE_PART` of the cache's size. The pool bounds all maps together.
const CACHE_PART: usize = 64;

/// The leaves of a table in key order, with the separators between them.
///
/// A search compares the key with `heads`, which are dense in memory. It compares whole separators
/// only if their heads equal the key's head.
#[derive(Debug)]
pub(super) struct RouteMap {
    /// Bytes with which all separators begin.
    prefix: Box<[u8]>,
    /// The first eight bytes of each separator's rest, as a big-endian number. A shorter rest is
    /// followed by zeros.
    heads: Box<[u64]>,
    /// The separators without the prefix, one after another.
    rests: Box<[u8]>,
    /// End of each separator's rest in `rests`.
    ends: Box<[u32]>,
    /// One leaf more than separators. Leaf `i + 1` has the keys from separator `i` on.
    leaves: Box<[PageId]>,
    /// The memory that the map takes.
    _aside: Option<Aside>,
}

/// Returns the head of a key or separator that has these bytes after the prefix. A search compares
/// heads before whole separators.
#[inline]
fn head(rest: &[u8]) -> u64 {
    let mut head = [0; size_of::<u64>()];
    let count = rest.len().min(head.len());
    head[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(head)
}

impl RouteMap {
    /// Makes the map of a tree, from one inner page after another. Returns `None` if this map, or
    /// all maps together, would be too large. The caller holds no page's latch.
    pub(super) fn read(tree: Tree, pool: &Pool) -> Result<Option<RouteMap>> {
        // The ends of separators have 32 bits.
        let bytes_max = (pool.capacity() * pool.page_bytes() / CACHE_PART).min(u32::MAX as usize);
        let leaves_max = LEAVES_MAX.min(pool.capacity());
        let (mut separators, mut ends, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |separator: Option<&[u8]>, leaf| {
            if let Some(separator) = separator {
                separators.extend_from_slice(separator);
                ends.push(separators.len() as u32);
            }
            leaves.push(leaf);
            leaves.len() <= leaves_max && separators.len() + leaves.len() * LEAF_BYTES <= bytes_max
        };
        let mut low: Vec<u8> = Vec::new();
        loop {
            let page = tree.page_for_read(pool, Target::Key(&low), 1)?;
            if header::level(&page) == 0 {
                return Ok(RouteMap::counted(pool, &[], &[], vec![tree.root]));
            }
            let inner = page.inner()?;
            // If pages were merged after the previous iteration, this page also has children for
            // keys below `low`.
            let first = inner.child_index(&low);
            let mut fits = add((!low.is_empty()).then_some(low.as_slice()), inner.child(first));
            for index in first..inner.len() {
                fits = fits && add(Some(inner.separator(index)), inner.child(index + 1));
            }
            if !fits {
                return Ok(None);
            }
            match inner.upper_fence() {
                None => return Ok(RouteMap::counted(pool, &separators, &ends, leaves)),
                Some(upper) if upper > low.as_slice() => low = upper.to_vec(),
                // The fences contradict each other: the pages are damaged, or the tree is being
                // freed.
                Some(_) => return Ok(None),
            }
        }
    }

    /// Makes the map as [`RouteMap::new`] does, and counts its memory. Returns `None` if all maps
    /// together would be too large.
    fn counted(pool: &Pool, separators: &[u8], ends: &[u32], leaves: Vec<PageId>) -> Option<RouteMap> {
        let aside = pool.set_aside(separators.len() + leaves.len() * LEAF_BYTES)?;
        Some(RouteMap { _aside: Some(aside), ..RouteMap::new(separators, ends, leaves) })
    }

    /// Makes the map from separators in ascending order. The separators follow one another in
    /// `bytes`; `ends` has the end of each.
    fn new(bytes: &[u8], ends: &[u32], leaves: Vec<PageId>) -> RouteMap {
        let separator = |index: usize| {
            let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
            &bytes[begin as usize..ends[index] as usize]
        };
        let prefix: &[u8] = match ends.len().checked_sub(1) {
            None => &[],
            Some(last) => {
                let (first, last) = (separator(0), separator(last));
                let common = first.iter().zip(last).take_while(|(one, other)| one == other).count();
                &first[..common]
            }
        };
        let (mut heads, mut rests, mut rest_ends) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..ends.len() {
            let rest = &separator(index)[prefix.len()..];
            heads.push(head(rest));
            rests.extend_from_slice(rest);
            rest_ends.push(rests.len() as u32);
        }
        RouteMap {
            prefix: prefix.into(),
            heads: heads.into(),
            rests: rests.into(),
            ends: rest_ends.into(),
            leaves: leaves.into(),
            _aside: None,
        }
    }

    /// Number of leaves.
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }

    fn rest(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rests[begin as usize..self.ends[index] as usize]
    }

    /// Returns the page that was the leaf of `key` when the map was made.
    #[inline]
    pub(super) fn leaf_of(&self, key: &[u8]) -> PageId {
        let Some(rest) = key.strip_prefix(&*self.prefix) else {
            let end = if key < &*self.prefix { 0 } else { self.heads.len() };
            return self.leaves[end];
        };
        let head = head(rest);
        let mut index = self.heads.partition_point(|other| *other < head);
        if self.heads.get(index) == Some(&head) {
            let mut end = index + self.heads[index..].partition_point(|other| *other == head);
            while index < end {
                let middle = index.midpoint(end);
                if self.rest(middle) <= rest { index = middle + 1 } else { end = middle }
            }
        }
        self.leaves[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(separators: &[&[u8]]) -> RouteMap {
        let ends: Vec<u32> = separators
            .iter()
            .scan(0, |end, separator| {
                *end += separator.len() as u32;
                Some(*end)
            })
            .collect();
        let leaves = (0..=separators.len() as u64).map(PageId::new).collect();
        RouteMap::new(&separators.concat(), &ends, leaves)
    }

    #[test]
    fn each_key_is_led_to_the_leaf_after_the_last_separator_that_is_not_greater() {
        let mut rng = fastrand::Rng::with_seed(77);
        // Few distinct bytes and many lengths give equal heads, prefixes of each other and zeros.
        let mut text = |prefix: &[u8], length: usize| {
            let rest = (0..rng.usize(..=length)).map(|_| [0, 1, 255][rng.usize(..3)]);
            [prefix, &rest.collect::<Vec<u8>>()].concat()
        };
        for round in 0..600 {
            let (prefix, length): (&[u8], usize) =
                [(&b""[..], 12), (b"user", 3), (b"user0000", 20)][round % 3];
            let mut separators: Vec<Vec<u8>> =
                (0..round % 40).map(|_| text(prefix, length)).filter(|key| !key.is_empty()).collect();
            separators.sort();
            separators.dedup();
            let borrowed: Vec<&[u8]> = separators.iter().map(Vec::as_slice).collect();
            let map = map(&borrowed);
            let mut keys: Vec<Vec<u8>> = (0..40).map(|_| text(prefix, length)).collect();
            keys.extend((0..20).map(|_| text(b"", 5)));
            keys.extend([b"usez".to_vec(), b"us".to_vec()]);
            keys.extend(separators.clone());
            for key in keys {
                let expected = separators.iter().filter(|separator| **separator <= key).count();
                assert_eq!(map.leaf_of(&key).get(), expected as u64, "{key:?} among {separators:?}");
            }
        }
    }
}
