//! The concurrent algorithms of Katydid. They do no I/O and use no files. They read the time
//! through [`sync_shim`]; only deadlines (`txn/deadline.rs`) use std's clock directly.
//!
//! | module | content |
//! |---|---|
//! | [`lsn`], [`durability`] | positions in the log, and the levels of durability |
//! | [`stamp`] | the order of commits |
//! | [`frontier`] | how far the log is reserved, filled, written and durable |
//! | [`record`], [`checksum`] | physical records as bytes |
//! | [`ring`] | the bytes of the log buffer |
//! | [`insert`] | the nine designs that reserve and fill, and the admission of records |
//! | [`sync`] | the leader's hand-over, the waiters, and the sync protocols |
//! | [`nvram`] | persisting of a log in NVRAM, and assignment of its memory |
//! | [`notification`] | the wake-up of a worker thread |
//! | [`page_meta`] | a page's number and recovery LSN, read without the page's latch |
//! | [`rig`], [`sizes`] | measuring an inserter without a log |
//! | [`dependencies`] | the positions in several streams that a transaction depends on |
//! | [`txn`] | timestamps, slots and statuses of transactions of the memory engine |
//! | [`sync_shim`] | the only place that names atomics, fences, parking and yielding |
//! | [`checking`] | one test body under loom, the explorer or real threads |
//!
//! Every module is written against [`sync_shim`]. Therefore production code runs unchanged under
//! loom (`--cfg loom`), under the explorer of all interleavings (`--cfg katydid_explore`), and on
//! the simulated machine of many cores. For that machine `crates/manycore/kernels` compiles this
//! crate's sources a second time (`--cfg katydid_simulated`), without the modules that no
//! simulation runs.
//!
//! This crate is internal to Katydid: its items are public for the crates above it, and change
//! without notice. Use `katydid-wal` or `katydid`.

pub mod checking;
pub mod checksum;
pub mod counter;
pub mod dependencies;
pub mod durability;
#[cfg(katydid_explore)]
pub mod explore;
pub mod frontier;
pub mod insert;
pub mod lsn;
#[cfg(not(katydid_simulated))]
pub mod notification;
#[cfg(not(katydid_simulated))]
pub mod nvram;
#[cfg(not(katydid_simulated))]
pub mod page_meta;
pub mod record;
pub mod rig;
pub mod ring;
pub mod sizes;
pub mod stamp;
#[cfg(not(katydid_simulated))]
pub mod sync;
pub mod sync_shim;
pub mod txn;
pub mod words;
