//! Putting a loaded table's keys in order: all at once, which is several times cheaper than one
//! after the other.
//!
//! Recovery loads keys into the hash table only (`points`). When everything is loaded they are
//! dealt out into ranges, by bounds taken from a sample of them. Then one thread sorts each range
//! and cuts it into leaves, while others do the same with theirs. Until then the ordered index is
//! empty, and only recovery has the table.
//!
//! What costs here is memory that is touched for the first time, so nothing is kept twice for
//! longer than a range takes.

use super::super::record::Record;
use super::fence::{Fence, prefix};
use super::leaf::{ENTRIES_MAX, Leaf};
use super::points::{Points, SHARDS};
use super::{Directory, Index};
use crate::latch::{Mutex, RwLock};
use crate::memory::threads::on_threads;
use katydid_kernels::txn::Timestamp;
use std::sync::Arc;

/// Entries of a leaf that is made here: with room for some more keys.
const ENTRIES: usize = ENTRIES_MAX * 7 / 8;
/// About the number of keys that are sorted at once: they stay in a processor's cache.
const RANGE_KEYS: usize = if cfg!(all(test, debug_assertions)) { 32 } else { 8192 };
/// Keys of the sample for each range.
const SAMPLED: usize = 16;
/// Keys of a range that a thread adds at a time.
const DEALT: usize = 32;

/// A key with its prefix.
type Prefixed = (u128, Arc<Record>);

impl Index {
    /// Puts what was loaded in order, on `threads` threads. The ordered index is empty before.
    pub(in super::super) fn put_in_order(&self, threads: usize) {
        let bounds = bounds(&self.points);
        // Leaf latches.
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
        debug_assert!(directory.values_mut().all(|leaf| leaf.get_mut().is_empty()), "nobody had the table");
        *directory = Directory::from_iter(leaves);
    }
}

/// First keys of all ranges but the first.
fn bounds(points: &Points) -> Vec<u128> {
    let ranges = points.len() as usize / RANGE_KEYS + 1;
    if ranges == 1 {
        return Vec::new();
    }
    // A record's place in the hash table says nothing about its key.
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

/// Leaves of these keys.
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
