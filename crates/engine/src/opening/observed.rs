//! What is observed of an opening: which transactions are open, since when and from which line of the program, and how long commits took.
//!
//! Any thread. A transaction is listed in the shard of the thread that began it, under a latch that is a leaf and that other threads take only when a
//! transaction has moved, or `stat` is asked for. Latencies are counted in buckets of an eighth of a power of two microseconds, so that
//! a quantile is at most an eighth too large; counters are relaxed, for nothing depends on them.

use crate::coarse_clock;
use crate::events::{self, Slow};
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::shard::thread_number;
use crate::stat::{Latencies, OpenTransaction};
use crossbeam_utils::CachePadded;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shards: enough for the threads that begin transactions at once, and few enough for many databases in one process.
const SHARDS: usize = 16;
/// Buckets of a power of two.
const PARTS: u64 = 8;
/// The last bucket holds everything from 2^30 microseconds, 18 minutes, on.
const BUCKETS: usize = (30 - 3) * PARTS as usize + PARTS as usize + 1;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Observed {
    shards: Box<[CachePadded<Shard>]>,
    /// Age in milliseconds from which an open transaction is reported as slow; 0: never.
    slow: u64,
}

#[derive(Debug)]
struct Shard {
    open: Mutex<Open>,
    commits: [AtomicU64; BUCKETS],
    /// Microseconds of the slowest commit.
    slowest: AtomicU64,
}

/// Open transactions by their slot.
#[derive(Debug, Default)]
struct Open {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    txn: TxnId,
    /// By the coarse clock.
    begun: u64,
    origin: &'static Location<'static>,
    /// Whether it was told of as slow.
    is_told: bool,
}

/// The place of a transaction in the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    shard: u32,
    slot: u32,
}

impl Observed {
    /// Transactions that are open for `slow` or longer are told of ([`crate::events`]); zero: none.
    pub(super) fn new(slow: Duration) -> Observed {
        let shard = |_| {
            CachePadded::new(Shard {
                open: Mutex::new(Open::default()),
                commits: std::array::from_fn(|_| AtomicU64::new(0)),
                slowest: AtomicU64::new(0),
            })
        };
        let slow = u64::try_from(slow.as_millis()).unwrap_or(u64::MAX);
        Observed { shards: (0..SHARDS).map(shard).collect(), slow }
    }

    /// A transaction is open from now on. The caller gives its place back.
    pub(crate) fn begins(&self, txn: TxnId, origin: &'static Location<'static>) -> Listed {
        let entry = Some(Entry { txn, begun: coarse_clock::milliseconds(), origin, is_told: false });
        let shard = thread_number() % SHARDS;
        let mut open = self.shards[shard].open.lock();
        let slot = match open.free.pop() {
            Some(slot) => {
                open.slots[slot as usize] = entry;
                slot
            }
            None => {
                open.slots.push(entry);
                (open.slots.len() - 1) as u32
            }
        };
        Listed { shard: shard as u32, slot }
    }

    /// A transaction has ended.
    pub(crate) fn ends(&self, listed: Listed) {
        let ended = {
            let mut open = self.shards[listed.shard as usize].open.lock();
            open.free.push(listed.slot);
            open.slots[listed.slot as usize].take()
        };
        if events::IS_ON
            && self.slow > 0
            && let Some(entry) = ended
        {
            let age = coarse_clock::milliseconds().saturating_sub(entry.begun);
            if age >= self.slow {
                events::slow_transaction(entry.txn, Duration::from_millis(age), entry.origin, Slow::Ended);
            }
        }
    }

    /// Tells of transactions that are open for long by now, each once.
    pub(crate) fn tell_slow(&self) {
        if !events::IS_ON || self.slow == 0 {
            return;
        }
        let now = coarse_clock::milliseconds();
        for shard in &self.shards {
            let mut slow = Vec::new();
            for entry in shard.open.lock().slots.iter_mut().flatten() {
                if !entry.is_told && now.saturating_sub(entry.begun) >= self.slow {
                    entry.is_told = true;
                    slow.push(*entry);
                }
            }
            for entry in slow {
                let age = Duration::from_millis(now.saturating_sub(entry.begun));
                events::slow_transaction(entry.txn, age, entry.origin, Slow::Open);
            }
        }
    }

    /// All open transactions, the oldest first.
    pub(crate) fn open(&self) -> Vec<OpenTransaction> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.open.lock().slots.iter().flatten().copied());
        }
        all.sort_by_key(|entry: &Entry| (entry.begun, entry.txn));
        let now = coarse_clock::milliseconds();
        let told = |entry: Entry| OpenTransaction {
            txn: entry.txn,
            age: Duration::from_millis(now.saturating_sub(entry.begun)),
            origin: entry.origin,
        };
        all.into_iter().map(told).collect()
    }

    /// A commit that began at `begun` is acknowledged at `now`.
    pub(crate) fn committed(&self, begun: Instant, now: Instant) {
        events::committed(now.duration_since(begun));
        let micros = u64::try_from(now.duration_since(begun).as_micros()).unwrap_or(u64::MAX);
        let shard = &self.shards[thread_number() % SHARDS];
        shard.commits[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        if shard.slowest.load(Ordering::Relaxed) < micros {
            shard.slowest.fetch_max(micros, Ordering::Relaxed);
        }
    }

    /// How long commits took.
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
            // The commit of this rank, from 1.
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

/// The bucket of a number of microseconds.
fn bucket(micros: u64) -> usize {
    if micros < PARTS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let part = (micros >> (power - 3)) % PARTS;
    (((power - 2) * PARTS + part) as usize).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
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

    #[test]
    fn open_transactions_are_listed_until_they_end() {
        let observed = Observed::new(Duration::ZERO);
        let here = Location::caller();
        let listed: Vec<Listed> = (1..=3).map(|txn| observed.begins(TxnId::new(txn), here)).collect();
        let elsewhere = std::thread::scope(|scope| {
            scope.spawn(|| observed.begins(TxnId::new(4), here)).join().expect("no panic")
        });
        let open = || observed.open().iter().map(|open| open.txn.get()).collect::<Vec<_>>();
        assert_eq!(open(), [1, 2, 3, 4]);
        observed.ends(listed[1]);
        assert_eq!(open(), [1, 3, 4]);
        observed.begins(TxnId::new(5), here);
        observed.ends(elsewhere);
        assert_eq!(open(), [1, 3, 5]);
    }
}
