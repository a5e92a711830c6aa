//! The memory engine's store: optimistic, multi-version concurrency control after Cicada, on the
//! clock, slots and statuses of `katydid-kernels`. The store uses no files, and the log only
//! through [`LogView`].
//!
//! A transaction takes a timestamp when it begins (`Clock`), reads the versions below it, and keeps
//! its writes in its own memory (`transaction`). At its end its versions are put in place and its
//! reads are validated (`validate`). Then the caller appends the transaction's record to the log,
//! and decides the transaction's status (`TxnStatus`). A transaction that only reads gets a bound
//! below which no version changes any more (`Slots`). The order of all transactions is that of
//! their timestamps.
//!
//! The latches of the store have ranks 5 and 6 of the table in `docs/ARCHITECTURE.md`. Rank 5: a
//! queue of the collector. Rank 6, in this order: the directory of an index, one leaf of the index,
//! a shard of the index's hash table, the map of tables, the chain of a record. No thread waits for
//! a transaction while it holds one of these latches. As far as possible, values are neither copied
//! nor dropped under a chain's latch.

mod backoff;
mod collect;
mod early;
mod found;
mod index;
mod limit;
mod load;
mod record;
mod state;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod transaction_scan;
mod transaction_writes;
mod unflushed;
mod validate;
mod value;

pub(crate) use found::RecoveredVersion;
pub(crate) use load::{FoundIn, Loader, Row};
pub(crate) use record::{Key, Value};
pub(crate) use state::{LogView, Settings, Store};
pub(crate) use table::Table;
pub(crate) use transaction::{ActiveTxn, Mark};
pub(crate) use transaction_scan::Scan;
pub(crate) use validate::Validated;

#[cfg(test)]
pub(crate) use katydid_kernels::txn::HandClock;
pub(crate) use katydid_kernels::txn::{Deadline, SLOTS_MAX, Source, Timestamp};
