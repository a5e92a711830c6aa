//! Zipfian numbers: item 0 is the most popular, item `i` is drawn in proportion to `1 / (i + 1)^theta`.
//!
//! After Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, section 3.2, as YCSB has it.
//! Different here: the normalizing sum is not added up term by term beyond the first 10,000 terms but closed by the
//! Euler-Maclaurin formula, whose error is below 1e-12 of the sum, so that ten thousand million items cost no more
//! to set up than ten thousand.

use fastrand::Rng;

/// The skew YCSB uses.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// Terms that are added up exactly.
const EXACT: u64 = 10_000;

/// The sum of `1 / i^theta` for `i` from 1 to `items`; `theta` from 0 up to but not including 1.
pub fn zeta(items: u64, theta: f64) -> f64 {
    let exact = (1..=items.min(EXACT)).map(|i| (i as f64).powf(-theta)).sum::<f64>();
    if items <= EXACT {
        return exact;
    }
    let (a, b) = (EXACT as f64, items as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slope = theta / 12.0 * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0));
    exact + integral + ends + slope
}

/// Draws zipfian numbers from a set that may grow.
#[derive(Debug, Clone)]
pub struct Zipfian {
    theta: f64,
    alpha: f64,
    zeta2: f64,
    items: u64,
    zetan: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `items` numbers (at least one) with skew `theta`, from 0 up to but not including 1.
    pub fn new(items: u64, theta: f64) -> Self {
        let items = items.max(1);
        let mut zipfian = Zipfian {
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta2: zeta(2, theta),
            items,
            zetan: zeta(items, theta),
            eta: 0.0,
        };
        zipfian.set_eta();
        zipfian
    }

    fn set_eta(&mut self) {
        self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zetan);
    }

    /// Changes the number of items; a few more cost a term each.
    pub fn resize(&mut self, items: u64) {
        let items = items.max(1);
        if items == self.items {
            return;
        }
        if items > self.items && items - self.items < EXACT {
            self.zetan += (self.items + 1..=items).map(|i| (i as f64).powf(-self.theta)).sum::<f64>();
        } else {
            self.zetan = zeta(items, self.theta);
        }
        self.items = items;
        self.set_eta();
    }

    /// The next number, less than the number of items.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        let u = rng.f64();
        let uz = u * self.zetan;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_agrees_with_the_plain_sum() {
        for theta in [0.0, 0.5, 0.99] {
            for items in [1, 2, 100, EXACT, EXACT + 1, 50_000, 1_000_000] {
                let plain: f64 = (1..=items).map(|i| (i as f64).powf(-theta)).sum();
                let error = (zeta(items, theta) - plain).abs() / plain;
                assert!(error < 1e-10, "zeta({items}, {theta}): {} instead of {plain}", zeta(items, theta));
            }
        }
        // The constant YCSB carries for its ten thousand million items.
        assert!((zeta(10_000_000_000, ZIPFIAN_CONSTANT) - 26.469_028_201_783_02).abs() < 1e-4);
    }

    #[test]
    fn draws_in_proportion() {
        let (items, draws) = (1000, 1_000_000);
        let zipfian = Zipfian::new(items, ZIPFIAN_CONSTANT);
        let mut rng = Rng::with_seed(42);
        let mut counts = vec![0u64; items as usize];
        for _ in 0..draws {
            counts[zipfian.next(&mut rng) as usize] += 1;
        }
        let sum = zeta(items, ZIPFIAN_CONSTANT);
        for rank in [0, 1] {
            let expected = draws as f64 / (rank as f64 + 1.0).powf(ZIPFIAN_CONSTANT) / sum;
            let got = counts[rank] as f64;
            assert!((got / expected - 1.0).abs() < 0.03, "rank {rank}: {got}, expected {expected}");
        }
        // Beyond the first two ranks the method is an approximation: compare bands.
        for (from, to) in [(2, 10), (10, 100), (100, 1000)] {
            let expected: f64 = (from..to).map(|r| (r as f64 + 1.0).powf(-ZIPFIAN_CONSTANT)).sum::<f64>()
                * draws as f64
                / sum;
            let got = counts[from..to].iter().sum::<u64>() as f64;
            assert!((got / expected - 1.0).abs() < 0.1, "ranks {from}..{to}: {got}, expected {expected}");
        }
    }

    #[test]
    fn grows_as_if_made_anew() {
        let mut grown = Zipfian::new(1, ZIPFIAN_CONSTANT);
        for items in [2, 3, 10, 500, 20_000, 20_001, 5_000] {
            grown.resize(items);
            let made = Zipfian::new(items, ZIPFIAN_CONSTANT);
            assert!((grown.zetan - made.zetan).abs() < 1e-9, "{items}");
            let (mut a, mut b) = (Rng::with_seed(7), Rng::with_seed(7));
            for _ in 0..1000 {
                let (x, y) = (grown.next(&mut a), made.next(&mut b));
                assert!(x < items && x.abs_diff(y) <= 1, "{items}: {x} and {y}");
            }
        }
    }

    #[test]
    fn one_and_two_items_stay_in_range() {
        let mut rng = Rng::with_seed(1);
        for items in [0, 1, 2, 3] {
            let zipfian = Zipfian::new(items, ZIPFIAN_CONSTANT);
            for _ in 0..10_000 {
                assert!(zipfian.next(&mut rng) < items.max(1));
            }
        }
    }
}
