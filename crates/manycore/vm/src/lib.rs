//! A deterministic simulated machine of many cores.
//!
//! [`vm`] runs closures as threads of a [`Machine`]. [`sync_shim`] has atomics, mutexes and threads
//! whose use costs simulated time; `katydid-kernels-simulated` compiles the sources of
//! `katydid-kernels` against them. `docs/manycore.md` says what is modelled and how far to trust
//! the results.
//!
//! One operating system thread runs everything. A machine, the bodies and a seed determine the
//! result exactly.

mod checksum;
mod machine;
pub mod sync_shim;
pub mod vm;

pub use checksum::Sum;
pub use machine::{Bandwidth, Machine, MachineError, Nanos, Placement, Real};
