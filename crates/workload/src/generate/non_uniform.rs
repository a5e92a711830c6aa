//! The non-uniform choice of TPC-C (2.1.6) and of TATP. Pure.

use fastrand::Rng;

/// A number from 1 to `of`, which is at least 1, some far oftener than others: more so the more
/// ones `a` has; `c` says which.
pub(crate) fn non_uniform(rng: &mut Rng, a: u32, c: u32, of: u32) -> u32 {
    ((rng.u32(0..=a) | rng.u32(1..=of)).wrapping_add(c) % of) + 1
}
