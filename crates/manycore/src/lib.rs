//! The log's real inserters, and the memory engine's clock and slots, on a deterministic simulated machine of many cores.
//!
//! The kernels are the sources of `katydid-kernels`, compiled a second time (`crates/manycore/kernels`) against the simulated machine
//! (`crates/manycore/vm`), on which every atomic access, copy and wait costs simulated time. Here is only what runs on them.
//! `docs/manycore.md` says what is modelled and how far to trust it.
//!
//! The same machine, plan and seed give the same result to the byte.

mod run;

/// Timestamps and slots of the memory engine, and transactions on them.
#[allow(dead_code, reason = "the engine uses more of it than this crate")]
#[path = "../../engine/src/memory/store"]
mod store {
    pub(crate) mod clock;
    pub(crate) mod deadline;
    pub(crate) mod slots;
    #[path = "../../../../manycore/src/txn.rs"]
    pub(crate) mod txn;

    pub(crate) mod sync_shim {
        pub(crate) use katydid_virtual_machine::sync_shim::{
            AtomicBool, AtomicU64, AtomicUsize, Ordering, spin_loop, yield_now,
        };
        pub(crate) use katydid_virtual_machine::vm::Instant;

        /// The virtual clock is read after the stores before it.
        pub(crate) fn publish_stores() {}
    }

    /// What slots ask of the log.
    pub(crate) trait LogView {
        /// The caller is about to wait for another transaction.
        fn before_wait(&self);
    }
}

pub use katydid_kernels_simulated::sizes::Sizes;
pub use katydid_virtual_machine::{Bandwidth, Machine, MachineError, Nanos, Placement, Real, sync_shim, vm};
pub use run::{Outcome, Plan, RunError, designs, ring_bytes, run};
pub use store::txn::{TXN_DESIGNS, TxnDesign, TxnOutcome, TxnPlan, run_txns};
