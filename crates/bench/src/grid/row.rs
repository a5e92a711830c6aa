//! A case with its rounds, and statistics of several rounds.
//!
//! Pure functions.

use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_workload::measure::Summary;

/// Result of one run of a case.
pub trait Round {
    /// The rate by which rounds are compared: records, transactions or commits per second.
    fn per_second(&self) -> f64;

    /// Times in nanoseconds, if the round timed anything. All histograms have the bounds of
    /// [`times`].
    fn times(&self) -> Option<&Histogram<u64>>;
}

/// A case with its rounds in the order in which they ran; at least one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<C, R> {
    pub case: C,
    pub rounds: Vec<R>,
}

impl<C, R: Round> Row<C, R> {
    /// The median of a quantity over the rounds. For an even number of rounds it is the lower of
    /// the middle two.
    pub fn median(&self, quantity: impl Fn(&R) -> f64) -> f64 {
        median(self.rounds.iter().map(quantity))
    }

    /// The round with the median rate.
    pub fn median_round(&self) -> Option<&R> {
        let mut rounds: Vec<&R> = self.rounds.iter().collect();
        rounds.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        rounds.get(rounds.len().saturating_sub(1) / 2).copied()
    }

    /// The rates of the slowest and the fastest round.
    pub fn spread(&self) -> (f64, f64) {
        let rates = self.rounds.iter().map(R::per_second);
        (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max))
    }

    /// The median, over the rounds, of a quantity divided by another row's quantity in the same
    /// round. A disturbance of a round affects both rows, so it hardly changes the quotient.
    pub fn ratio(&self, other: &Row<C, R>, quantity: impl Fn(&R) -> f64) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(one, other)| quantity(one) / quantity(other).max(1e-9)))
    }

    /// Times of all rounds together.
    pub fn times(&self) -> Option<Histogram<u64>> {
        let mut rounds = self.rounds.iter().filter_map(R::times);
        let mut sum = rounds.next()?.clone();
        // All histograms have the same bounds, so no addition fails.
        rounds.for_each(|times| sum += times);
        Some(sum)
    }

    /// Percentiles of the times of all rounds together.
    pub fn summary(&self) -> Option<Summary> {
        self.times().map(|times| Summary::of(&times))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// An empty histogram of times in nanoseconds. A time above one minute counts as one minute.
pub fn times() -> Result<Histogram<u64>> {
    const LONGEST: u64 = 60_000_000_000;
    Histogram::new_with_bounds(1, LONGEST, 2).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rate(f64);

    impl Round for Rate {
        fn per_second(&self) -> f64 {
            self.0
        }

        fn times(&self) -> Option<&Histogram<u64>> {
            None
        }
    }

    fn row(rates: &[f64]) -> Row<(), Rate> {
        Row { case: (), rounds: rates.iter().copied().map(Rate).collect() }
    }

    #[test]
    fn of_an_even_number_of_rounds_the_lower_in_the_middle_counts() {
        let four = row(&[40.0, 10.0, 30.0, 20.0]);
        assert_eq!((four.median(Rate::per_second), four.spread()), (20.0, (10.0, 40.0)));
        assert_eq!(four.median_round().map(Rate::per_second), Some(20.0));
        assert_eq!(row(&[7.0]).median(Rate::per_second), 7.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The ratios of the three rounds are 2, 0.5 and 3. The ratio of the medians would be 2/3.
        let (one, other) = (row(&[10.0, 20.0, 90.0]), row(&[5.0, 40.0, 30.0]));
        assert_eq!(one.ratio(&other, Rate::per_second), 2.0);
    }
}
