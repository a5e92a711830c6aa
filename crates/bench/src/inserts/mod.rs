//! Inserts: what is measured of the log's inserters alone, and of a log under transactions of a few
//! records.
//!
//! Two commands share the sweeps, the cases and their rows. `bench log-insert` runs them on real
//! threads, `manycore run` on virtual ones: the same case is the same run on either kind.

pub mod case;
pub mod flags;
mod lines;
pub mod real;
mod reference;
pub mod rows;
mod stall;
pub mod sweep;
pub mod txn;
