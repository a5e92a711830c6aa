//! Zipfian numbers: item 0 is the most popular, and item `i` is drawn in proportion to
//! `1 / (i + 1)^skew`, for any skew from 0 (all items are equally likely).
//!
//! The method is rejection-inversion: Hörmann and Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", TOMACS 1996. The generator draws a point under
//! the curve `x^-skew` between 1/2 and `items + 1/2` by inverting the curve's integral. If the
//! point also lies in the part of the area that belongs to the nearest item, which is nearly always
//! the case, the generator takes this item. Otherwise the generator draws again. The proportions
//! are therefore exact. The generator needs neither tables nor sums, and 10^10 items cost no more
//! than 10 items. (YCSB's generator, after Gray et al., SIGMOD 1994, is exact for the first two
//! items only and needs a skew below 1.)

use fastrand::Rng;

/// The skew that YCSB uses.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// Draws zipfian numbers from a set that may grow.
#[derive(Debug, Clone)]
pub struct Zipfian {
    skew: f64,
    items: u64,
    /// Bounds of the drawn areas. `from` gives the first item an area of exactly 1; `to` is the
    /// integral at the right end.
    from: f64,
    to: f64,
    /// An item that lies at most this far to the right of the point is taken without a test of the
    /// item's part of the area.
    surely: f64,
}

impl Zipfian {
    /// A generator of `items` numbers (at least 1) with a skew of at least 0.
    pub fn new(items: u64, skew: f64) -> Self {
        assert!(skew >= 0.0 && skew.is_finite(), "the caller has checked this");
        let mut zipfian = Zipfian { skew, items: 0, from: 0.0, to: 0.0, surely: 0.0 };
        zipfian.from = zipfian.integral(1.5) - 1.0;
        zipfian.surely = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.curve(2.0));
        zipfian.resize(items);
        zipfian
    }

    /// Changes the number of items.
    pub fn resize(&mut self, items: u64) {
        let items = items.max(1);
        if items != self.items {
            self.items = items;
            self.to = self.integral(items as f64 + 0.5);
        }
    }

    /// Draws a number less than the number of items.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.to + rng.f64() * (self.from - self.to);
            let x = self.inverse(area);
            let rank = ((x + 0.5) as u64).clamp(1, self.items);
            let at = rank as f64;
            if at - x <= self.surely || area >= self.integral(at + 0.5) - self.curve(at) {
                return rank - 1;
            }
        }
    }

    fn curve(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// Integral of the curve from 1 to `x`: `(x^(1 - skew) - 1) / (1 - skew)`, or the logarithm of
    /// `x` for a skew of 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        by_itself((1.0 - self.skew) * log, f64::exp_m1) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may give a value below the least value of the integral.
        let scaled = (area * (1.0 - self.skew)).max(-1.0);
        (by_itself(scaled, f64::ln_1p) * area).exp()
    }
}

/// `of(x) / x` for a function `of` that is nearly `x` around 0; the quotient at 0 is 1.
fn by_itself(x: f64, of: fn(f64) -> f64) -> f64 {
    // The next term of the series is below half a unit in the last place of 1.
    if x.abs() < 1e-16 { 1.0 } else { of(x) / x }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skews on both sides of 1, 1 itself, and skews so near to 1 that a division by `1 - skew`
    /// would lose all digits.
    const SKEWS: [f64; 9] = [0.0, 0.5, 0.85, ZIPFIAN_CONSTANT, 1.0 - 1e-12, 1.0, 1.0 + 1e-9, 1.25, 2.0];

    fn exact(items: u64, skew: f64) -> Vec<f64> {
        let parts: Vec<f64> = (1..=items).map(|rank| (rank as f64).powf(-skew)).collect();
        let sum: f64 = parts.iter().sum();
        parts.iter().map(|part| part / sum).collect()
    }

    /// Computes Pearson's statistic. An item counts alone if at least 20 draws of it are expected;
    /// all other items are counted together.
    #[test]
    fn every_item_is_drawn_in_proportion() {
        const DRAWS: usize = 1_000_000;
        for skew in SKEWS {
            for items in [2, 3, 10, 1000] {
                let zipfian = Zipfian::new(items, skew);
                let mut rng = Rng::with_seed(42);
                let mut counts = vec![0_u32; items as usize];
                (0..DRAWS).for_each(|_| counts[zipfian.next(&mut rng) as usize] += 1);
                let (mut statistic, mut cells) = (0.0, 0);
                let (mut rare, mut rare_expected) = (0.0, 0.0);
                for (count, share) in counts.iter().zip(exact(items, skew)) {
                    let (got, expected) = (f64::from(*count), share * DRAWS as f64);
                    if expected < 20.0 {
                        rare += got;
                        rare_expected += expected;
                        continue;
                    }
                    statistic += (got - expected).powi(2) / expected;
                    cells += 1;
                }
                if rare_expected > 0.0 {
                    statistic += (rare - rare_expected).powi(2) / rare_expected;
                    cells += 1;
                }
                let freedom = f64::from(cells - 1);
                // Five standard deviations above the mean of a chi-squared variable.
                let most = freedom + 5.0 * (2.0 * freedom).sqrt();
                assert!(statistic < most, "skew {skew}, {items} items: {statistic} of at most {most}");
            }
        }
    }

    #[test]
    fn very_many_items_are_as_exact() {
        // Shares of the first item: the first from the sum that YCSB stores for its 10^10 items,
        // the second from zeta(2).
        for (items, skew, share) in [(10_000_000_000, 0.99, 1.0 / 26.469_028), (1 << 40, 2.0, 0.607_927)] {
            let zipfian = Zipfian::new(items, skew);
            let mut rng = Rng::with_seed(7);
            let first = (0..1_000_000).filter(|_| zipfian.next(&mut rng) == 0).count() as f64 / 1e6;
            assert!((first / share - 1.0).abs() < 0.03, "{first} instead of {share}");
        }
    }

    #[test]
    fn grows_as_if_made_anew() {
        for skew in SKEWS {
            let mut grown = Zipfian::new(1, skew);
            for items in [2, 3, 10, 500, 20_000, 20_001, 5_000] {
                grown.resize(items);
                let made = Zipfian::new(items, skew);
                let (mut a, mut b) = (Rng::with_seed(7), Rng::with_seed(7));
                for _ in 0..1000 {
                    let number = grown.next(&mut a);
                    assert!(number < items && number == made.next(&mut b), "{skew}: {items}");
                }
            }
        }
    }

    #[test]
    fn few_items_stay_in_range() {
        let mut rng = Rng::with_seed(1);
        for skew in SKEWS.into_iter().chain([20.0]) {
            for items in [0, 1, 2, 3] {
                let zipfian = Zipfian::new(items, skew);
                assert!((0..10_000).all(|_| zipfian.next(&mut rng) < items.max(1)));
            }
        }
    }
}
