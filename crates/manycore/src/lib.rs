//! A deterministic simulated machine of many cores, on which the log's real inserters run unchanged.
//!
//! The files of the inserters are those of `katydid-wal`, compiled a second time beside this crate's [`sync_shim`], in which every atomic
//! access, copy and wait costs simulated time. `docs/manycore.md` says what is modelled and how far to trust it.
//!
//! One operating system thread runs everything; the same machine, plan and seed give the same result to the byte.

mod checksum;
mod machine;
mod run;
pub mod sync_shim;
pub mod vm;

// The kernels, and what they name as `crate::...`.
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src/counters.rs"]
mod counters;
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src/frontier.rs"]
mod frontier;
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the log and its tests use more of it than this crate"
)]
#[path = "../../wal/src/insert/mod.rs"]
mod insert;
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src/lsn.rs"]
mod lsn;
#[allow(dead_code, reason = "no log is in NVRAM here")]
#[path = "../../wal/src/nvram"]
mod nvram {
    pub(crate) mod ring;
}
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src/options.rs"]
mod options;
// A file with a folder of its own is found only from within a module whose path is the folder above.
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src"]
mod wal {
    pub(crate) mod record;
}
pub(crate) use wal::record;
#[allow(dead_code, reason = "the real machine uses more of it than this one")]
#[path = "../../wal/src/testing/rig.rs"]
mod rig;
#[allow(dead_code, reason = "the log uses more of it than this crate")]
#[path = "../../wal/src/ring.rs"]
mod ring;

#[path = "../../wal/src/testing/sizes.rs"]
mod sizes;

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
        pub(crate) use crate::sync_shim::{
            AtomicBool, AtomicU64, AtomicUsize, Ordering, spin_loop, yield_now,
        };
        pub(crate) use crate::vm::Instant;

        /// The virtual clock is read after the stores before it.
        pub(crate) fn publish_stores() {}
    }

    /// What slots ask of the log.
    pub(crate) trait LogView {
        /// The caller is about to wait for another transaction.
        fn before_wait(&self);
    }
}

pub use machine::{Bandwidth, Machine, MachineError, Nanos, Placement, Real};
pub use run::{Outcome, Plan, RunError, designs, ring_bytes, run};
pub use sizes::Sizes;
pub use store::txn::{TXN_DESIGNS, TxnDesign, TxnOutcome, TxnPlan, run_txns};
