//! Generators of numbers with a given distribution. Deterministic: all randomness comes from the
//! caller's generator, so that a seed replays a run. One per thread; what threads share is in
//! [`AcknowledgedCounter`] and the sequence.

mod counter;
mod hash;
mod keys;
mod non_uniform;
mod zipfian;

pub use counter::AcknowledgedCounter;
pub use hash::fnv64;
pub use keys::{KeyChooser, KeyDistribution};
pub(crate) use non_uniform::non_uniform;
pub use zipfian::{ZIPFIAN_CONSTANT, Zipfian};
