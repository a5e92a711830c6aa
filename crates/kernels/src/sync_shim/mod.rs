//! The only place in this crate that names atomics, fences, parking and yielding.
//!
//! The kernels use only the items exported here. Therefore production code also runs, unchanged,
//! under loom (`--cfg loom`), under the explorer of all interleavings (`--cfg katydid_explore`),
//! and on the simulated machine (`--cfg katydid_simulated`, which `crates/manycore/kernels` sets).
//! In production the atomics, locks and threads are those of `std`, at no cost.
//!
//! A world exports `AtomicBool`, `AtomicU32`, `AtomicU64`, `AtomicUsize`, `Ordering`, `fence`,
//! `Mutex`, `MutexGuard`, `Thread` (with `unpark`), `current`, `park`, `yield_now`, `spin_loop` and
//! `Instant`, each shaped like std's, and `PlainAccess`. The files `publish` and `waiting` have the
//! functions that all worlds share, except the simulated machine, which exports its own. Code that
//! no checker runs (start and stop of background threads, rare slow paths) uses the `Mutex` and
//! `Condvar` of `std` or `parking_lot`.

#[cfg(not(any(loom, katydid_explore, katydid_simulated)))]
mod production;
#[cfg(not(any(loom, katydid_explore, katydid_simulated)))]
pub use production::*;

#[cfg(all(loom, not(katydid_explore)))]
mod under_loom;
#[cfg(all(loom, not(katydid_explore)))]
pub use under_loom::*;

#[cfg(katydid_explore)]
pub use crate::explore::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PlainAccess, Thread, current,
    fence, park, spin_loop, yield_now,
};
#[cfg(all(katydid_explore, not(katydid_simulated)))]
pub use std::time::Instant;

#[cfg(katydid_simulated)]
pub use katydid_virtual_machine::sync_shim::*;

mod raise;
pub use raise::raise;

#[cfg(not(katydid_simulated))]
mod publish;
#[cfg(not(katydid_simulated))]
pub use publish::publish_stores;
#[cfg(not(katydid_simulated))]
mod waiting;
#[cfg(not(katydid_simulated))]
pub use waiting::{CHECKED, copy_bytes, pause, rest, return_token};
