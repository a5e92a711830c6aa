//! The rows that a thread reads.
//!
//! A draw costs no simulated time; the constant part of a read includes it.

use super::words::hash;

/// Skew of [`KeyChoice::Zipfian`]: the constant of YCSB.
const SKEW: f64 = 0.99;

/// Distribution of the rows that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChoice {
    /// Every row is equally likely.
    Uniform,
    /// The row of rank `i` is read with a probability in proportion to `1 / i^0.99`, as in YCSB.
    /// Rows of neighbouring ranks lie apart, by a hash of the rank.
    Zipfian,
}

/// Draws rows.
#[derive(Debug)]
pub(super) struct Draw {
    random: u64,
    rows: usize,
    zipfian: Option<Zipfian>,
}

impl Draw {
    pub(super) fn new(choice: KeyChoice, rows: usize, seed: u64) -> Draw {
        let zipfian = (choice == KeyChoice::Zipfian).then(|| Zipfian::new(rows));
        Draw { random: hash(seed), rows, zipfian }
    }

    /// Returns a random number (SplitMix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns the number of a row.
    pub(super) fn row(&mut self) -> usize {
        let random = self.random();
        match &self.zipfian {
            None => (random % self.rows as u64) as usize,
            Some(zipfian) => {
                let rank = zipfian.rank((random >> 11) as f64 / (1_u64 << 53) as f64);
                (hash(rank as u64) % self.rows as u64) as usize
            }
        }
    }
}

/// Ranks by the method of Gray et al., *Quickly generating billion-record synthetic databases*
/// (1994), which YCSB uses, too.
#[derive(Debug)]
struct Zipfian {
    ranks: f64,
    zeta: f64,
    eta: f64,
}

/// Returns the sum of `1 / i^SKEW` for `i` from 1 to `count`. The terms after the first ten
/// thousand are summed by the Euler-Maclaurin formula.
fn zeta(count: usize) -> f64 {
    let first = count.min(10_000);
    let sum: f64 = (1..=first).map(|rank| (rank as f64).powf(-SKEW)).sum();
    let (from, to) = (first as f64, count as f64);
    let integral = (to.powf(1.0 - SKEW) - from.powf(1.0 - SKEW)) / (1.0 - SKEW);
    sum + integral + (to.powf(-SKEW) - from.powf(-SKEW)) / 2.0
}

impl Zipfian {
    fn new(rows: usize) -> Zipfian {
        let (ranks, zeta_of_all) = (rows as f64, zeta(rows));
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - SKEW)) / (1.0 - zeta(2) / zeta_of_all);
        Zipfian { ranks, zeta: zeta_of_all, eta }
    }

    /// Returns the rank, from 0, at which a random number from 0 to 1 lies.
    fn rank(&self, random: f64) -> usize {
        let of_zeta = random * self.zeta;
        if of_zeta < 1.0 {
            return 0;
        }
        if of_zeta < 1.0 + 0.5_f64.powf(SKEW) {
            return 1.min(self.ranks as usize - 1);
        }
        let share = (self.eta * random - self.eta + 1.0).powf(1.0 / (1.0 - SKEW));
        ((self.ranks * share) as usize).min(self.ranks as usize - 1)
    }
}
