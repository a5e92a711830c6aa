//! The number of bytes that the store holds, and its limit.
//!
//! Any thread runs this code. `whole` counts the bytes that are taken from the limit. Each shard
//! takes bytes in advance, so that threads do not contend for this one word. Invariant: `whole` is
//! at least the bytes held plus the bytes that shards have left. `whole` is at most `limit`, so no
//! more than `limit` bytes are held. The exception is [`Limit::charge`], which never fails: deletes
//! use it, validation uses it for each record that it makes, and recovery for the rows in the log.

use crate::shard::thread_number;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Bytes of a version in addition to its value.
pub(super) const VERSION_BYTES: usize = 96;
/// Bytes of a record in addition to its key, including its entries in both indexes.
pub(super) const RECORD_BYTES: usize = 192;

const SHARDS: usize = 16;

/// The number of this thread's shard, below `count`.
pub(super) fn shard(count: usize) -> usize {
    thread_number() % count
}

#[derive(Debug)]
pub(super) struct Limit {
    limit: i64,
    piece: i64,
    /// Bytes taken from the limit: those that are held, and those that shards have left.
    whole: CachePadded<AtomicI64>,
    /// Bytes that each shard has left.
    left: Box<[CachePadded<AtomicI64>]>,
}

impl Limit {
    pub(super) fn new(limit: u64) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX / 2);
        Limit {
            limit,
            piece: (limit / 1024).clamp(4096, 256 << 10),
            whole: CachePadded::new(AtomicI64::new(0)),
            left: (0..SHARDS).map(|_| CachePadded::new(AtomicI64::new(0))).collect(),
        }
    }

    /// Replaces the limit. More bytes than the new limit may be held.
    pub(super) fn limited_to(self, limit: u64) -> Self {
        Limit { whole: self.whole, left: self.left, ..Limit::new(limit) }
    }

    /// Takes `bytes` if this does not exceed the limit. Returns true if it took them.
    pub(super) fn try_charge(&self, bytes: usize) -> bool {
        let bytes = bytes as i64;
        let left = &self.left[shard(SHARDS)];
        if left.fetch_sub(bytes, Relaxed) >= bytes {
            return true;
        }
        left.fetch_add(bytes, Relaxed);
        if self.grow(bytes + self.piece) {
            left.fetch_add(self.piece, Relaxed);
            return true;
        }
        self.recall();
        self.grow(bytes)
    }

    fn grow(&self, by: i64) -> bool {
        self.whole
            .fetch_update(Relaxed, Relaxed, |whole| (whole + by <= self.limit).then_some(whole + by))
            .is_ok()
    }

    /// Takes the unused bytes of all shards back, and subtracts them from `whole`.
    fn recall(&self) {
        for left in &self.left {
            let found = left.swap(0, Relaxed);
            self.whole.fetch_sub(found, Relaxed);
        }
    }

    /// Takes `bytes`, even above the limit.
    pub(super) fn charge(&self, bytes: usize) {
        if !self.try_charge(bytes) {
            self.whole.fetch_add(bytes as i64, Relaxed);
        }
    }

    pub(super) fn release(&self, bytes: usize) {
        let left = &self.left[shard(SHARDS)];
        let now = left.fetch_add(bytes as i64, Relaxed) + bytes as i64;
        if now > 4 * self.piece {
            let back = now - self.piece;
            left.fetch_sub(back, Relaxed);
            self.whole.fetch_sub(back, Relaxed);
        }
    }

    /// Bytes held.
    pub(super) fn used(&self) -> u64 {
        let left: i64 = self.left.iter().map(|left| left.load(Relaxed)).sum();
        (self.whole.load(Relaxed) - left).max(0) as u64
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_over_all_threads_and_never_above_the_limit() {
        let limit = Limit::new(1 << 20);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let limit = &limit;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut held = Vec::new();
                    for _ in 0..20_000 {
                        let bytes = random.usize(1..20_000);
                        if random.bool() && limit.try_charge(bytes) {
                            held.push(bytes);
                        } else if let Some(bytes) = held.pop() {
                            limit.release(bytes);
                        }
                    }
                    held.iter().for_each(|bytes| limit.release(*bytes));
                });
            }
        });
        assert_eq!(limit.used(), 0);
        assert!(limit.try_charge(1 << 20), "one thread can take all of it");
        assert!(!limit.try_charge(1));
        limit.charge(5);
        assert_eq!(limit.used(), (1 << 20) + 5);
        limit.release((1 << 20) + 5);
        assert!(limit.try_charge(1 << 20));
    }
}
