//! Putting a loaded table's keys in order. Sorting all keys at once is several times cheaper than
//! inserting them one after another.
//!
//! Recovery loads keys into the hash table only (`points`). After that the keys are divided into
//! ranges, by bounds taken from a sample of the keys. Several threads then sort the ranges and cut
//! them into leaves, one range at a time. Until all leaves are made, the ordered index is empty,
//! and only recovery uses the table.
//!
//! The main cost is the first touch of new memory. So each range is freed as soon as its leaves are
//! made, and the next leaves can reuse its memory.

use super::super::record::Record;
use super::fence::{Fence, prefix};
use super::leaf::{ENTRIES_MAX, Leaf};
use super::points::{Points, SHARDS};
use super::{Directory, Index};
use crate::latch::{Mutex, RwLock};
use crate::memory::threads::on_threads;
use katydid_kernels::txn::Timestamp;
use std::sync::Arc;

/// Number of entries of a leaf that is made here, which leaves room for some more keys.
const ENTRIES: usize = ENTRIES_MAX * 7 / 8;
/// Approximate number of keys in a range, chosen so that they fit into a processor's cache while
/// they are sorted.
const RANGE_KEYS: usize = if cfg!(all(test, debug_assertions)) { 32 } else { 8192 };
/// Number of sampled keys for each range.
const SAMPLED: usize = 16;
/// Number of keys that a thread adds to a range at a time.
const DEALT: usize = 32;

/// A key with its prefix.
type Prefixed = (u128, Arc<Record>);

impl Index {
    /// Puts the loaded keys in order, on `threads` threads. The ordered index is empty before this
    /// call.
    pub(in super::super) fn put_in_order(&self, threads: usize) {
        let bounds = bounds(&self.points);
        // While a thread holds a latch of `ranges` or of `leaves`, it takes no other latch.
        let ranges: Vec<Mutex<Vec<Prefixed>>> = (0..=bounds.len()).map(|_| Mutex::default()).collect();
        on_threads(threads, SHARDS, &|shard| {
            let mut hands: Vec<Vec<Prefixed>> = (0..=bounds.len()).map(|_| Vec::new()).collect();
            self.points.for_each(shard, |record| {
                let prefix = prefix(&record.key);
                let range = bounds.partition_point(|bound| *bound <= prefix);
                hands[range].push((prefix, record.clone()));
                if hands[range].len() == DEALT {
                    ranges[range].lock().append(&mut hands[range]);
                }
            });
            hands.iter_mut().zip(&ranges).for_each(|(hand, range)| range.lock().append(hand));
        });
        let leaves: Vec<Mutex<Vec<(Fence, Leaf)>>> = ranges.iter().map(|_| Mutex::default()).collect();
        on_threads(threads, ranges.len(), &|at| {
            let range = std::mem::take(&mut *ranges[at].lock());
            *leaves[at].lock() = cut(range);
        });
        let leaves = leaves.into_iter().flat_map(Mutex::into_inner);
        let mut leaves: Vec<_> = leaves.map(|(fence, leaf)| (fence, RwLock::new(leaf))).collect();
        let Some((fence, _)) = leaves.first_mut() else { return };
        *fence = Fence::at(b"");
        let mut directory = self.exclusive();
        debug_assert!(
            directory.values_mut().all(|leaf| leaf.get_mut().is_empty()),
            "the table was used while it was loaded"
        );
        *directory = Directory::from_iter(leaves);
    }
}

/// The prefixes at which all ranges but the first begin.
fn bounds(points: &Points) -> Vec<u128> {
    let ranges = points.len() as usize / RANGE_KEYS + 1;
    if ranges == 1 {
        return Vec::new();
    }
    // A record's slot in the hash table is independent of the order of keys, so taking every n-th
    // record gives a random sample of the keys.
    let mut sample = Vec::new();
    for shard in 0..SHARDS {
        let mut nth = 0;
        points.for_each(shard, |record| {
            if nth % (RANGE_KEYS / SAMPLED) == 0 {
                sample.push(prefix(&record.key));
            }
            nth += 1;
        });
    }
    sample.sort_unstable();
    let mut bounds: Vec<u128> = (1..ranges).map(|nth| sample[nth * sample.len() / ranges]).collect();
    bounds.dedup();
    bounds
}

/// Sorts these keys and cuts them into leaves.
fn cut(mut range: Vec<Prefixed>) -> Vec<(Fence, Leaf)> {
    range.sort_unstable_by(|(left, one), (right, other)| {
        left.cmp(right).then_with(|| one.key.cmp(&other.key))
    });
    let mut leaves = Vec::with_capacity(range.len().div_ceil(ENTRIES));
    let mut keys = range.into_iter().peekable();
    while let Some((_, first)) = keys.peek() {
        let fence = Fence::at(&first.key);
        leaves.push((fence, Leaf::of(keys.by_ref().take(ENTRIES), Timestamp::ZERO)));
    }
    leaves
}
