//! Tests of the page format.

mod fixture;
mod garbage;
mod inner_model;
mod leaf_model;
mod parts;

use fastrand::Rng;

/// Runs `test` with `count` seeds, or only with the seed in `KATYDID_SEED`. A failure prints how to
/// replay it.
pub(crate) fn for_seeds(count: u64, test: impl Fn(&mut Rng)) {
    let given =
        std::env::var("KATYDID_SEED").ok().map(|text| text.parse().expect("KATYDID_SEED is a number"));
    let (first, count) = given.map_or((0, count), |seed| (seed, 1));
    for seed in first..first + count {
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut Rng::with_seed(seed))));
        if let Err(panic) = outcome {
            eprintln!("failed with seed {seed}; replay with KATYDID_SEED={seed} and this test's name");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Returns a key of at most `longest` bytes from a small alphabet, so that many keys share prefixes
/// or differ only in trailing zeros.
fn key(rng: &mut Rng, longest: usize) -> Vec<u8> {
    let short = if rng.bool() { 6 } else { longest };
    let length = rng.usize(0..=longest.min(short));
    (0..length).map(|_| [0, 1, b'a', b'b', 255][rng.usize(0..5)]).collect()
}
