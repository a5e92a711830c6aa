//! Medians of rounds. Pure functions.

/// The median; of an even number of figures, the lower of the middle two.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// The least and the greatest figure.
pub fn extremes(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().min_by(f64::total_cmp);
    let greatest = figures.iter().copied().max_by(f64::total_cmp);
    (least.unwrap_or(0.0), greatest.unwrap_or(0.0))
}

/// Ratio of `ours` to `other` in each round.
pub fn ratios(ours: &[f64], other: &[f64]) -> Vec<f64> {
    ours.iter().zip(other).map(|(ours, other)| ours / other.max(1e-9)).collect()
}

/// Ratio of `ours` to `other`: the median of each round's ratio, because a disturbance of a round
/// affects all its runs.
pub fn times_as_much(ours: &[f64], other: &[f64]) -> f64 {
    median(ratios(ours, other))
}

/// Quantile of sorted nanoseconds, in microseconds.
pub fn quantile_us(sorted: &[u64], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * quantile) as usize).map_or(0.0, |nanos| *nanos as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_middle_and_compares_within_rounds() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
        assert_eq!(extremes(&[2.0, 1.0, 3.0]), (1.0, 3.0));
        // Each round's ratio is 2, though the rounds differ tenfold.
        assert_eq!(times_as_much(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]), 2.0);
        assert_eq!(ratios(&[3.0, 8.0], &[1.0, 2.0]), [3.0, 4.0]);
        assert_eq!(quantile_us(&[1_000, 2_000, 3_000], 0.5), 2.0);
        assert_eq!(quantile_us(&[], 0.5), 0.0);
    }
}
