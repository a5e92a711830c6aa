//! Measurements of the log's inserters alone, and of a log under transactions of a few records.
//!
//! Two commands share the sweeps, the cases and their rows. `lab log-insert` runs the cases on real
//! threads, `lab manycore run` on virtual threads. A case means the same run on both kinds of
//! threads.

pub mod case;
pub mod flags;
mod lines;
pub mod real;
mod reference;
pub mod rows;
mod stall;
pub mod sweep;
pub mod txn;
