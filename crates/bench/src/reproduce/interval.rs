//! The median of several rounds, and an interval around the true median.
//!
//! Pure functions. Each end of the interval is the value of a round. No distribution of the values
//! is assumed.

/// Minimum number of rounds for a verdict. The least and the greatest of five rounds enclose the
/// true median in 94 of 100 measurements.
pub const ROUNDS_MIN: usize = 5;

/// Minimum probability that an interval contains the true median: `1 - 2 / 2^5`, the probability
/// for the least and the greatest of five rounds.
const COVERAGE: f64 = 0.9375;

/// Median of a quantity over rounds, with an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub rounds: usize,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Interval {
    /// The narrowest interval between the values of two rounds that contains the true median with a
    /// probability of at least [`COVERAGE`]. With fewer than five rounds, the interval from the
    /// least to the greatest value; `None` without rounds.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rounds = sorted.len();
        let last = rounds.checked_sub(1)?;
        let cut = (1..=last / 2).take_while(|cut| coverage(rounds, *cut) >= COVERAGE).last().unwrap_or(0);
        Some(Interval { rounds, low: sorted[cut], median: sorted[last / 2], high: sorted[last - cut] })
    }
}

/// Probability that the true median lies between the least and the greatest value that remain when
/// the values of `cut` rounds are removed at each end (sign test).
fn coverage(rounds: usize, cut: usize) -> f64 {
    let (mut term, mut tail) = (0.5_f64.powi(rounds as i32), 0.0);
    for below in 0..=cut {
        tail += term;
        term *= (rounds - below) as f64 / (below + 1) as f64;
    }
    1.0 - 2.0 * tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rounds_reach_from_end_to_end_and_nine_do_not() {
        let of = |rounds: usize| {
            let values: Vec<f64> = (1..=rounds).rev().map(|value| value as f64).collect();
            Interval::of(&values)
        };
        let interval = |rounds, low, median, high| Some(Interval { rounds, low, median, high });
        assert_eq!(of(0), None);
        assert_eq!(of(1), interval(1, 1.0, 1.0, 1.0));
        assert_eq!(of(5), interval(5, 1.0, 3.0, 5.0));
        assert_eq!(of(8), interval(8, 1.0, 4.0, 8.0));
        assert_eq!(of(9), interval(9, 2.0, 5.0, 8.0));
        assert!((coverage(5, 0) - COVERAGE).abs() < 1e-12 && (coverage(9, 1) - 0.9609375).abs() < 1e-12);
    }
}
