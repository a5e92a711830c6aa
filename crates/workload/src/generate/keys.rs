//! Chooses the record of each request by the distributions of YCSB's core workload.
//!
//! Rules:
//!
//! 1. Every chosen number is that of an acknowledged record: at least `first`, and less than the
//!    given `end`.
//! 2. Choosing always ends: after `REDRAWS` draws outside the acknowledged records, a number is
//!    drawn uniformly.

use super::hash::fnv64;
use super::zipfian::{ZIPFIAN_CONSTANT, Zipfian};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of items from which the scrambled zipfian draws. The drawn item is then folded onto the
/// records, as in YCSB.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// Maximum number of draws outside the acknowledged records before a number is drawn uniformly.
const REDRAWS: usize = 1000;

/// Distribution of requests over the records.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum KeyDistribution {
    /// All records are equally likely.
    Uniform,
    /// A few records are very popular, and they are scattered over all records. The field is the
    /// skew, from 0 up to but not including 1.
    Zipfian(f64),
    /// The newest records are the most popular, with a zipfian distribution of this skew.
    Latest(f64),
    /// A share of the records (first field) gets a share of the requests (second field), uniformly
    /// in each part.
    Hotspot(f64, f64),
    /// One record after the other, in one sequence for all threads.
    Sequential,
    /// The newest records are the most popular: a share of the records (second field) gets a
    /// percentage of the requests (first field).
    Exponential(f64, f64),
}

impl Default for KeyDistribution {
    fn default() -> Self {
        KeyDistribution::Zipfian(ZIPFIAN_CONSTANT)
    }
}

#[derive(Debug, Clone)]
enum Drawing {
    Uniform,
    Zipfian(Zipfian),
    Latest(Zipfian),
    Hotspot { hot: u64, share: f64 },
    Sequential(Arc<AtomicU64>),
    Exponential { gamma: f64 },
}

/// Chooses record numbers. Clones share only the sequence of `Sequential`.
#[derive(Debug, Clone)]
pub struct KeyChooser {
    drawing: Drawing,
    first: u64,
    count: u64,
    /// Number of records that the zipfian distribution covers: loaded records and expected inserts.
    spread: u64,
}

impl KeyChooser {
    /// A chooser of records whose numbers begin at `first`. There are `count` records (at least 1)
    /// at the beginning, and `expected` inserts will follow.
    pub fn new(distribution: KeyDistribution, first: u64, count: u64, expected: u64) -> Self {
        let count = count.max(1);
        let drawing = match distribution {
            KeyDistribution::Uniform => Drawing::Uniform,
            KeyDistribution::Zipfian(theta) => Drawing::Zipfian(Zipfian::new(SCRAMBLED_ITEMS, theta)),
            KeyDistribution::Latest(theta) => Drawing::Latest(Zipfian::new(count, theta)),
            KeyDistribution::Hotspot(records, share) => {
                Drawing::Hotspot { hot: ((count as f64 * records) as u64).min(count), share }
            }
            KeyDistribution::Sequential => Drawing::Sequential(Arc::new(AtomicU64::new(0))),
            KeyDistribution::Exponential(percentile, share) => {
                let range = (count as f64 * share).max(1.0);
                Drawing::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / range }
            }
        };
        KeyChooser { drawing, first, count, spread: count.saturating_add(expected) }
    }

    /// Chooses a record. All records from `first` up to but not including `end` must be
    /// acknowledged.
    pub fn next(&mut self, rng: &mut Rng, end: u64) -> u64 {
        let end = end.max(self.first + 1);
        for _ in 0..REDRAWS {
            let drawn = self.draw(rng, end);
            if let Some(number) = drawn
                && (self.first..end).contains(&number)
            {
                return number;
            }
        }
        rng.u64(self.first..end)
    }

    fn draw(&mut self, rng: &mut Rng, end: u64) -> Option<u64> {
        let (first, count) = (self.first, self.count);
        match &mut self.drawing {
            Drawing::Uniform => Some(first + rng.u64(..count)),
            Drawing::Zipfian(zipfian) => Some(first + fnv64(zipfian.next(rng)) % self.spread),
            Drawing::Latest(zipfian) => {
                zipfian.resize(end - first);
                Some(end - 1 - zipfian.next(rng))
            }
            Drawing::Hotspot { hot, share } => {
                let (hot, cold) = (*hot, count - *hot);
                if (rng.f64() < *share && hot > 0) || cold == 0 {
                    Some(first + rng.u64(..hot))
                } else {
                    Some(first + hot + rng.u64(..cold))
                }
            }
            Drawing::Sequential(sequence) => Some(first + sequence.fetch_add(1, Ordering::Relaxed) % count),
            Drawing::Exponential { gamma } => {
                // 1 - u, because the logarithm of 0 does not exist.
                let back = -(1.0 - rng.f64()).ln() / *gamma;
                (end - 1).checked_sub(back as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 100;
    const COUNT: u64 = 10_000;

    fn draws(distribution: KeyDistribution, n: usize) -> Vec<u64> {
        let mut chooser = KeyChooser::new(distribution, FIRST, COUNT, 0);
        let mut rng = Rng::with_seed(11);
        (0..n).map(|_| chooser.next(&mut rng, FIRST + COUNT)).collect()
    }

    fn histogram(numbers: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; COUNT as usize];
        numbers.iter().for_each(|number| counts[(number - FIRST) as usize] += 1);
        counts
    }

    const ALL: [KeyDistribution; 6] = [
        KeyDistribution::Uniform,
        KeyDistribution::Zipfian(0.99),
        KeyDistribution::Latest(0.99),
        KeyDistribution::Hotspot(0.2, 0.8),
        KeyDistribution::Sequential,
        KeyDistribution::Exponential(95.0, 0.857),
    ];

    #[test]
    fn stays_in_range_and_replays() {
        for distribution in ALL {
            let numbers = draws(distribution, 20_000);
            assert!(numbers.iter().all(|number| (FIRST..FIRST + COUNT).contains(number)), "{distribution:?}");
            assert_eq!(numbers, draws(distribution, 20_000), "{distribution:?}");
            let mut chooser = KeyChooser::new(distribution, 0, 1, 0);
            let mut rng = Rng::with_seed(1);
            assert!((0..100).all(|_| chooser.next(&mut rng, 1) == 0), "{distribution:?}");
        }
    }

    #[test]
    fn never_chooses_what_is_not_acknowledged() {
        for distribution in ALL {
            let mut chooser = KeyChooser::new(distribution, FIRST, COUNT, 5_000);
            let mut rng = Rng::with_seed(3);
            for end in FIRST + 1..FIRST + 2_000 {
                assert!((FIRST..end).contains(&chooser.next(&mut rng, end)), "{distribution:?}");
            }
        }
    }

    #[test]
    fn uniform_is_flat() {
        let counts = histogram(&draws(KeyDistribution::Uniform, 1_000_000));
        // 100 draws are expected for each key, with a standard deviation of 10; the bounds lie six
        // standard deviations away.
        assert!(counts.iter().all(|count| (40..160).contains(count)));
    }

    #[test]
    fn zipfian_is_skewed_and_scattered() {
        let mut counts = histogram(&draws(KeyDistribution::Zipfian(0.99), 1_000_000));
        let hottest = counts.iter().position(|count| count == counts.iter().max().unwrap()).unwrap() as u64;
        assert_eq!(hottest, fnv64(0) % COUNT);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // One in zeta(1e10) = 26.47 draws goes to the hottest record.
        assert!((36_000..40_500).contains(&counts[0]), "{}", counts[0]);
        let top: u64 = counts[..COUNT as usize / 100].iter().sum();
        assert!((200_000..450_000).contains(&top), "{top}");
    }

    #[test]
    fn latest_prefers_the_newest() {
        let counts = histogram(&draws(KeyDistribution::Latest(0.99), 1_000_000));
        let newest = counts[COUNT as usize - 1];
        assert_eq!(Some(&newest), counts.iter().max());
        let recent: u64 = counts[COUNT as usize - 100..].iter().sum();
        assert!(recent > 450_000, "{recent}");
    }

    #[test]
    fn latest_follows_inserts() {
        let mut chooser = KeyChooser::new(KeyDistribution::Latest(0.99), 0, 100, 0);
        let mut rng = Rng::with_seed(5);
        let newest = (0..1000).filter(|_| chooser.next(&mut rng, 1000) == 999).count();
        assert!(newest > 80, "{newest}");
    }

    #[test]
    fn hotspot_has_its_shares() {
        let counts = histogram(&draws(KeyDistribution::Hotspot(0.2, 0.8), 1_000_000));
        let hot: u64 = counts[..COUNT as usize / 5].iter().sum();
        assert!((795_000..805_000).contains(&hot), "{hot}");
        draws(KeyDistribution::Hotspot(0.0, 1.0), 10);
        draws(KeyDistribution::Hotspot(1.0, 0.0), 10);
    }

    #[test]
    fn sequential_goes_round() {
        let numbers = draws(KeyDistribution::Sequential, COUNT as usize + 1);
        assert!(numbers[..COUNT as usize].iter().copied().eq(FIRST..FIRST + COUNT));
        assert_eq!(numbers[COUNT as usize], FIRST);
    }

    #[test]
    fn exponential_has_its_percentile() {
        let counts = histogram(&draws(KeyDistribution::Exponential(95.0, 0.1), 1_000_000));
        let recent: u64 = counts[COUNT as usize - COUNT as usize / 10..].iter().sum();
        assert!((945_000..955_000).contains(&recent), "{recent}");
    }
}
