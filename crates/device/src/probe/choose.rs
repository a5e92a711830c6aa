//! The rule by which measurements become a choice. Pure functions.

use crate::directory::Method;

/// Another method is chosen over [`Method::Direct`] only if its cost is below this share of
/// Direct's. The cost is the product of two measured times, so this share allows each time to be a
/// tenth less by chance.
const CLEARLY: f64 = 0.8;
/// Share of the best rate at which a write is large enough, or a depth great enough.
const NEARLY: f64 = 0.8;
/// Least factor by which a doubling of the writes in flight must raise the rate.
const WORTH: f64 = 1.25;

/// Returns the cheapest of the methods that are clearly cheaper than [`Method::Direct`], or
/// `Direct` if no method is. If `Direct` was not measured, the first measured method stands in for
/// it.
pub(super) fn best_method(costs: &[(Method, f64)]) -> Method {
    let direct = costs.iter().find(|(method, _)| *method == Method::Direct).or(costs.first());
    let Some(&(start, cost)) = direct else { return Method::Buffered };
    let better = costs.iter().filter(|(_, other)| *other < cost * CLEARLY);
    let best = better.min_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map_or(start, |(method, _)| *method)
}

/// Returns the smallest write that nearly reaches the best rate. `rates` is in the order of the
/// bytes.
pub(super) fn enough_bytes(rates: &[(usize, f64)]) -> Option<usize> {
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    rates.iter().find(|(_, rate)| *rate >= NEARLY * best).map(|(bytes, _)| *bytes)
}

/// Returns the greatest depth up to which doublings raised the rate by the factor [`WORTH`] on
/// average, or a smaller depth that nearly reaches the same rate. One bad measurement at a smaller
/// depth does not matter.
pub(super) fn best_depth(rates: &[(usize, f64)]) -> usize {
    let Some(&(shallow, alone)) = rates.first() else { return 1 };
    let is_worth = |(steps, (_, rate)): &(usize, &(usize, f64))| *rate >= alone * WORTH.powi(*steps as i32);
    let deepest = rates.iter().enumerate().rfind(is_worth);
    let enough = deepest.map_or(alone, |(_, (_, rate))| NEARLY * rate);
    rates.iter().find(|(_, rate)| *rate >= enough).map_or(shallow, |(depth, _)| *depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Method::{Buffered, Direct, Uring};

    #[test]
    fn direct_is_kept_unless_another_is_clearly_better() {
        for (costs, best) in [
            (vec![(Buffered, 1.0), (Direct, 1.0), (Uring, 1.0)], Direct),
            (vec![(Buffered, 0.9), (Direct, 1.0), (Uring, 0.85)], Direct),
            (vec![(Buffered, 1.3), (Direct, 1.0), (Uring, 0.7)], Uring),
            (vec![(Buffered, 0.6), (Direct, 1.0), (Uring, 0.7)], Buffered),
            (vec![(Buffered, 2.0)], Buffered),
            (vec![], Buffered),
        ] {
            assert_eq!(best_method(&costs), best, "{costs:?}");
        }
    }

    #[test]
    fn a_write_is_as_large_as_the_rate_needs() {
        let rates = [(4, 100.0), (16, 350.0), (64, 790.0), (256, 1000.0), (1024, 980.0)];
        assert_eq!(enough_bytes(&rates), Some(256));
        assert_eq!(enough_bytes(&rates[..3]), Some(64));
        assert_eq!(enough_bytes(&[]), None);
    }

    #[test]
    fn depth_grows_for_as_long_as_it_gains() {
        let reference = [(1, 20.0), (2, 35.0), (4, 47.0), (8, 70.0), (16, 100.0)];
        assert_eq!(best_depth(&reference), 16);
        let noisy = [(1, 6.4), (2, 7.1), (4, 11.2), (8, 17.5), (16, 22.1)];
        assert_eq!(best_depth(&noisy), 16, "two at once were measured badly");
        assert_eq!(best_depth(&[(1, 20.0), (2, 40.0), (4, 41.0), (8, 42.0), (16, 43.0)]), 2);
        assert_eq!(best_depth(&[(1, 20.0), (2, 22.0), (4, 24.0), (8, 26.0), (16, 28.0)]), 1);
        assert_eq!(best_depth(&[]), 1);
    }
}
