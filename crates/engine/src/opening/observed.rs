//! Observations of an opening: its open transactions, and the latencies of commits.
//!
//! Any thread may call this code. Latencies are counted in buckets, eight for each power of two of
//! microseconds, so that a quantile is at most an eighth too large. Accesses to counters are
//! relaxed, because no decision depends on them.

use super::open_transactions::{Entry, Listed, OpenTransactions};
use crate::coarse_clock;
use crate::events::{self, Slow};
use crate::ids::TxnId;
use crate::shard::thread_number;
use crate::stat::{Latencies, OpenTransaction};
use crossbeam_utils::CachePadded;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of shards: enough for the threads that commit at once, and few enough for many databases
/// in one process.
const SHARDS: usize = 16;
/// Number of buckets for each power of two.
const PARTS: u64 = 8;
/// Number of buckets. The last one counts all latencies from 2^30 microseconds (18 minutes) on.
const BUCKETS: usize = (30 - 3) * PARTS as usize + PARTS as usize + 1;

/// The open transactions of an opening and the latencies of its commits.
#[derive(Debug)]
pub(crate) struct Observed {
    open: OpenTransactions,
    shards: Box<[CachePadded<Shard>]>,
    /// Age from which an open transaction is reported as slow; never if zero.
    slow: Duration,
}

#[derive(Debug)]
struct Shard {
    commits: [AtomicU64; BUCKETS],
    /// Microseconds of the slowest commit.
    slowest: AtomicU64,
}

impl Observed {
    /// Makes the observations of an opening. Transactions that are open for `slow` or longer will
    /// be reported ([`crate::events`]); none if `slow` is zero.
    pub(super) fn new(slow: Duration) -> Observed {
        let shard = |_| {
            CachePadded::new(Shard {
                commits: std::array::from_fn(|_| AtomicU64::new(0)),
                slowest: AtomicU64::new(0),
            })
        };
        Observed { open: OpenTransactions::new(), shards: (0..SHARDS).map(shard).collect(), slow }
    }

    /// Adds to the list a transaction that the calling thread begins. The caller passes the result
    /// to [`Observed::ends`].
    #[inline]
    pub(crate) fn begins(&self, txn: TxnId, origin: &'static Location<'static>) -> Listed {
        self.open.begins(txn, origin)
    }

    /// Removes from the list a transaction that ends, and reports it if it was slow.
    #[inline]
    pub(crate) fn ends(&self, listed: Listed) {
        let ended = self.open.ends(listed);
        if events::IS_ON
            && !self.slow.is_zero()
            && let Some(entry) = ended
        {
            let age = age_of(&entry);
            if age >= self.slow {
                events::slow_transaction(entry.txn, age, entry.origin, Slow::Ended);
            }
        }
    }

    /// Reports the open transactions that are slow by now, each once.
    pub(crate) fn report_slow(&self) {
        if !events::IS_ON || self.slow.is_zero() {
            return;
        }
        let slow = u64::try_from(self.slow.as_nanos()).unwrap_or(u64::MAX);
        let Some(begun) = coarse_clock::now().checked_sub(slow) else { return };
        for entry in self.open.unreported(begun) {
            events::slow_transaction(entry.txn, age_of(&entry), entry.origin, Slow::Open);
        }
    }

    /// Returns all open transactions, the oldest first.
    pub(crate) fn open(&self) -> Vec<OpenTransaction> {
        let mut all: Vec<Entry> = self.open.all().collect();
        all.sort_by_key(|entry| (entry.begun, entry.txn));
        let describe =
            |entry: Entry| OpenTransaction { txn: entry.txn, age: age_of(&entry), origin: entry.origin };
        all.into_iter().map(describe).collect()
    }

    /// Counts a commit that began at `begun` and is acknowledged at `now`.
    pub(crate) fn committed(&self, begun: Instant, now: Instant) {
        events::committed(now.duration_since(begun));
        let micros = u64::try_from(now.duration_since(begun).as_micros()).unwrap_or(u64::MAX);
        let shard = &self.shards[thread_number() % SHARDS];
        shard.commits[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        if shard.slowest.load(Ordering::Relaxed) < micros {
            shard.slowest.fetch_max(micros, Ordering::Relaxed);
        }
    }

    /// Returns the latencies of all commits so far.
    pub(crate) fn commits(&self) -> Latencies {
        let mut counts = [0u64; BUCKETS];
        let mut slowest = 0;
        for shard in &self.shards {
            for (count, part) in counts.iter_mut().zip(&shard.commits) {
                *count += part.load(Ordering::Relaxed);
            }
            slowest = slowest.max(shard.slowest.load(Ordering::Relaxed));
        }
        let count: u64 = counts.iter().sum();
        let quantile = |per_mille: u64| {
            // The rank of the commit to find, counted from 1.
            let rank = (count * per_mille).div_ceil(1000).max(1);
            let mut below = 0;
            let found = counts.iter().position(|count| {
                below += count;
                below >= rank
            });
            Duration::from_micros(found.map_or(0, end_of).min(slowest))
        };
        Latencies {
            count,
            p50: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            max: Duration::from_micros(slowest),
        }
    }
}

fn age_of(entry: &Entry) -> Duration {
    coarse_clock::since(entry.begun)
}

/// Returns the bucket of a number of microseconds.
fn bucket(micros: u64) -> usize {
    if micros < PARTS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let part = (micros >> (power - 3)) % PARTS;
    (((power - 2) * PARTS + part) as usize).min(BUCKETS - 1)
}

/// Returns the largest number of microseconds in a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (power, part) = (bucket / PARTS + 2, bucket % PARTS);
    ((PARTS + part + 1) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_the_bucket_that_ends_above_it() {
        let mut last = 0;
        for micros in
            (0..5000).chain((13..30).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 77]))
        {
            let bucket = bucket(micros);
            assert!(
                end_of(bucket) >= micros && end_of(bucket) <= micros + micros / 8,
                "{micros} in {bucket}"
            );
            assert!(bucket == 0 || end_of(bucket - 1) < micros, "{micros} in {bucket}");
            if micros < 5000 {
                assert!(bucket == last || bucket == last + 1, "{micros} in {bucket}");
                last = bucket;
            }
        }
        assert_eq!((bucket(u64::MAX), bucket(1 << 30)), (BUCKETS - 1, BUCKETS - 1));
    }
}
