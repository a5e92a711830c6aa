//! A deterministic simulated machine of many cores.
//!
//! [`vm`] runs closures as threads of a [`Machine`]. [`sync_shim`] has the atomics, mutexes and
//! threads whose use costs simulated time: what the sources of `katydid-kernels` are compiled
//! against by `katydid-kernels-simulated`. `docs/manycore.md` says what is modelled and how far to
//! trust it.
//!
//! One operating system thread runs everything; the same machine, bodies and seed give the same
//! result to the byte.

mod checksum;
mod machine;
pub mod sync_shim;
pub mod vm;

pub use checksum::Sum;
pub use machine::{Bandwidth, Machine, MachineError, Nanos, Placement, Real};
