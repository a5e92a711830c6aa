//! Waits of transactions for other transactions: how long they took, and, for an engine without a
//! lock manager, the waits under way.
//!
//! Any thread may call this code. Each wait takes the latch of its thread's shard up to three
//! times; this cost is small compared with the wait. The latches are leaves. Only `stat` depends on
//! the data kept here.

use crate::events;
use crate::ids::{TableId, TxnId};
use crate::latch::Mutex;
use crate::shard::thread_number;
use crate::stat::Latencies;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use std::fmt;
use std::time::Duration;

/// Number of shards: enough for the threads that begin or end a wait at once, and few enough for
/// many databases in one process.
const SHARDS: usize = 16;
/// The longest time that is measured: 2^31 microseconds (35 minutes). A longer wait counts as this
/// time.
const MICROS_MAX: u64 = 1 << 31;

/// The waits of an engine's transactions; see the head of this file.
pub(crate) struct Waits {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

struct Shard {
    /// Times in microseconds, with one significant digit. The first wait makes the histogram.
    times: Option<Histogram<u64>>,
    under_way: Vec<WaitUnderWay>,
}

/// A transaction that waits for another one at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitUnderWay {
    pub(crate) txn: TxnId,
    pub(crate) blocker: TxnId,
    pub(crate) table: TableId,
    pub(crate) key: Box<[u8]>,
}

/// A wait that is listed until this value is dropped.
#[derive(Debug)]
pub(crate) struct Listed<'w> {
    waits: &'w Waits,
    shard: usize,
    txn: TxnId,
}

impl Waits {
    pub(crate) fn new() -> Waits {
        let shard = |_| CachePadded::new(Mutex::new(Shard { times: None, under_way: Vec::new() }));
        Waits { shards: (0..SHARDS).map(shard).collect() }
    }

    /// Counts a wait that took `time`, however it ended.
    #[cold]
    pub(crate) fn count(&self, time: Duration) {
        events::waited(time);
        let micros = u64::try_from(time.as_micros()).unwrap_or(MICROS_MAX).min(MICROS_MAX);
        let mut shard = self.shards[thread_number() % SHARDS].lock();
        if shard.times.is_none() {
            shard.times = empty();
        }
        if let Some(times) = &mut shard.times {
            times.saturating_record(micros);
        }
    }

    /// Lists a wait, until the result is dropped. A transaction has one wait at a time.
    pub(crate) fn begin(&self, wait: WaitUnderWay) -> Listed<'_> {
        let (shard, txn) = (thread_number() % SHARDS, wait.txn);
        self.shards[shard].lock().under_way.push(wait);
        Listed { waits: self, shard, txn }
    }

    /// Returns the waits that are listed now, ordered by the number of the transaction that waits.
    pub(crate) fn under_way(&self) -> Vec<WaitUnderWay> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().under_way.iter().cloned());
        }
        all.sort_by_key(|wait| wait.txn);
        all
    }

    /// Returns the latencies of all waits so far.
    pub(crate) fn times(&self) -> Latencies {
        let Some(mut all) = empty() else { return Latencies::default() };
        for shard in &self.shards {
            if let Some(times) = &shard.lock().times {
                // The bounds of all histograms are the same.
                let _added = all.add(times);
            }
        }
        let quantile = |q: f64| Duration::from_micros(all.value_at_quantile(q).min(all.max()));
        Latencies {
            count: all.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: Duration::from_micros(all.max()),
        }
    }
}

/// Returns an empty histogram, whose quantiles are at most a sixteenth too large. The result is
/// never `None`, because the bounds are constants that a histogram accepts.
fn empty() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, MICROS_MAX, 1).ok()
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut shard = self.waits.shards[self.shard].lock();
        if let Some(at) = shard.under_way.iter().position(|wait| wait.txn == self.txn) {
            shard.under_way.swap_remove(at);
        }
    }
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits").field("times", &self.times()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_threads_are_added_up_and_quantiles_are_at_most_an_eighth_too_large() {
        let waits = Waits::new();
        assert_eq!(waits.times(), Latencies::default());
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let waits = &waits;
                scope.spawn(move || {
                    (1..=250).for_each(|n| waits.count(Duration::from_micros(4 * n - part)));
                });
            }
        });
        let times = waits.times();
        assert_eq!((times.count, times.max >= Duration::from_micros(1000)), (1000, true));
        for (quantile, exact) in [(times.p50, 500), (times.p99, 990), (times.p999, 999), (times.max, 1000)] {
            let micros = u64::try_from(quantile.as_micros()).expect("small");
            assert!(micros >= exact && micros <= exact + exact / 8, "{micros} for {exact}");
        }
        waits.count(Duration::MAX);
        assert!(waits.times().max >= Duration::from_secs(1800));
    }

    #[test]
    fn a_wait_is_listed_until_it_ends() {
        let waits = Waits::new();
        let wait = |txn| WaitUnderWay {
            txn: TxnId::new(txn),
            blocker: TxnId::new(1),
            table: TableId::new(7),
            key: b"k"[..].into(),
        };
        let (third, second) = (waits.begin(wait(3)), waits.begin(wait(2)));
        assert_eq!(waits.under_way(), [wait(2), wait(3)]);
        drop(third);
        assert_eq!(waits.under_way(), [wait(2)]);
        drop(second);
        assert_eq!(waits.under_way(), []);
    }
}
