//! The non-uniform choice of TPC-C (2.1.6) and of TATP. Pure function.

use fastrand::Rng;

/// A number from 1 to `of`, which is at least 1. Some numbers are far more frequent than others:
/// the difference grows with the number of one bits in `a`, and `c` selects the frequent numbers.
pub(crate) fn non_uniform(rng: &mut Rng, a: u32, c: u32, of: u32) -> u32 {
    ((rng.u32(0..=a) | rng.u32(1..=of)).wrapping_add(c) % of) + 1
}
