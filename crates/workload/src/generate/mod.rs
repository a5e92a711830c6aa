//! Generators of numbers with a given distribution. All randomness comes from the caller's
//! generator, so a seed replays a run. Threads share no state that changes, except
//! [`AcknowledgedCounter`] and the sequence of sequential keys.

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
