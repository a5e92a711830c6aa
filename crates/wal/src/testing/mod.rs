//! What tests of this crate, of later designs, and of users of the log share.

#[cfg(katydid_explore)]
pub mod explore;

mod decoders;

pub use decoders::{Target, fuzz_targets};
