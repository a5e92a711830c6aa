//! Test support for this crate, for later designs, and for users of the log.

pub mod conformance;
mod decoders;
pub mod limits;
mod positions;
pub mod rate;

pub use conformance::{Sizes, conformance, conformance_in_nvram};
pub use decoders::{Target, fuzz_targets, mend_records};
pub use katydid_kernels::{rig, sizes};
pub use positions::begin_at;

use crate::log::Log;

/// Ends `log` as the death of the process would: nothing more is written, records that were only in
/// memory are lost, and the directory's lock is free. Other clones, sessions and futures of the log
/// see a failed log.
pub fn crash(log: &Log) {
    log.abandon();
}
