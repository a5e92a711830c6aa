//! Latencies of one thread or of all threads: HdrHistograms of nanoseconds, one for reads and one
//! for durable commits.

use hdrhistogram::Histogram;
use std::time::Duration;

/// The longest latency that is recorded, in nanoseconds: one hour. Longer latencies are recorded as
/// one hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;

/// Latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Latencies of read-only transactions, from the beginning to the acknowledgement.
    pub reads: Histogram<u64>,
    /// Latencies of writing transactions, from the call of commit to the acknowledgement, or from
    /// the beginning if the plan says so. If a rate is given, both kinds of latencies are measured
    /// from the time when the request should have started, unless the plan says otherwise.
    pub commits: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are valid");
        Latencies { reads: empty.clone(), commits: empty }
    }
}

impl Latencies {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &Latencies) {
        let same = "histograms of the same bounds can be added";
        self.reads.add(&other.reads).expect(same);
        self.commits.add(&other.commits).expect(same);
    }

    /// Removes all latencies.
    pub fn reset(&mut self) {
        self.reads.reset();
        self.commits.reset();
    }

    /// Number of latencies recorded.
    pub fn count(&self) -> u64 {
        self.reads.len() + self.commits.len()
    }
}

/// Records a latency. A latency of more than one hour counts as one hour.
pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST).clamp(1, LONGEST));
}

/// Statistics of a histogram, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Number of latencies recorded.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The longest latency.
    pub max_us: f64,
}

impl Summary {
    /// Computes the statistics of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Summary {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        if histogram.is_empty() {
            return Summary::default();
        }
        Summary {
            count: histogram.len(),
            mean_us: histogram.mean() / 1000.0,
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summarizes_and_saturates() {
        let mut latencies = Latencies::default();
        assert_eq!(Summary::of(&latencies.reads), Summary::default());
        for us in 1..=1000 {
            record(&mut latencies.reads, Duration::from_micros(us));
        }
        record(&mut latencies.commits, Duration::ZERO);
        record(&mut latencies.commits, Duration::MAX);
        let summary = Summary::of(&latencies.reads);
        assert_eq!(summary.count, 1000);
        assert!((summary.p50_us - 500.0).abs() < 1.0 && (summary.p99_us - 990.0).abs() < 2.0);
        assert!((summary.max_us - 1000.0).abs() < 1.0);
        assert_eq!(latencies.commits.min(), 1);
        assert!(latencies.commits.max() >= LONGEST);
        let mut all = Latencies::default();
        all.add(&latencies);
        assert_eq!(all.count(), 1002);
        all.reset();
        assert_eq!(all.count(), 0);
    }
}
