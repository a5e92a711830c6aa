//! Runs the log's real inserters, the memory engine's clock and slots, and models of both engines'
//! point reads on a deterministic simulated machine of many cores.
//!
//! The kernels are the sources of `katydid-kernels`, compiled a second time
//! (`crates/manycore/kernels`) against the simulated machine (`crates/manycore/vm`), on which every
//! atomic access, copy and wait costs simulated time. This crate has only the runs.
//! `docs/manycore.md` says what is modelled and how far to trust the results.
//!
//! A machine, a plan and a seed determine the result exactly.

mod reads;
mod run;
mod txn;

pub use katydid_kernels_simulated::sizes::Sizes;
pub use katydid_virtual_machine::{Bandwidth, Machine, MachineError, Nanos, Placement, Real, sync_shim, vm};
pub use reads::{KeyChoice, READ_DESIGNS, ReadDesign, ReadEngine, ReadOutcome, ReadPlan, run_reads};
pub use run::{Outcome, Plan, RunError, designs, ring_bytes, run};
pub use txn::{TXN_DESIGNS, TxnDesign, TxnOutcome, TxnPlan, run_txns};
