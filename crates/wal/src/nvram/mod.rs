//! Logs in byte-addressable memory that keeps its bytes: nothing is written or synced, an append has persisted its own record when it
//! returns.
//!
//! | where | what |
//! |---|---|
//! | `ring` | the log's ring, in place in the memory |
//! | `header` | how the region begins |
//! | `store` | what stands for the segments of an open log: the ring, its start, and trimming |
//! | `recover` | opening: which records survive |
//!
//! | kind | source | a commit waits for | after a crash |
//! |---|---|---|---|
//! | `nv_ring` | ours | everything below its end: it looks for holes until there is none | the log ends at the first hole |
//! | `nv_direct` | Fang et al., as ELEDA 6.4.3 reports it | nothing: its records were persisted when they were appended | every whole record survives; holes become padding |
//!
//! Both have the records, positions, inserters, sessions and readers of the log on disk (`docs/adr/0015-logs-on-nvram.md`). What differs
//! from the report on Fang et al.'s log: holes are not left to the readers, and any of the inserters may fill the ring.
//!
//! `NV-Logging`, whose entries and records lie apart, is not here yet.

pub(crate) mod header;
pub(crate) mod recover;
pub(crate) mod ring;
pub(crate) mod store;

/// The name of the region in the log's directory.
pub(crate) const REGION_NAME: &str = "log.nvram";
