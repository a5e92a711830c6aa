//! The memory engine: Cicada's concurrency control over a log in several streams (P-WAL), after
//! "Integration of Parallel Write Ahead Logging and Cicada Concurrency Control Method".
//!
//! | file | contents |
//! |---|---|
//! | `store/` | clock, versions, index, validation and collection, independent of the log |
//! | `database`, `table`, `transaction`, `range` | the implementation of the public types |
//! | `engine` | the parts of an open database; the steps of a commit |
//! | `log_record` | a transaction's writes as bytes |
//! | `checkpoint/`, `checkpoints` | the files of a checkpoint; taking a checkpoint |
//! | `verify`, `dump`, `stat` | checking a database; showing its log; its counters |
//! | `copy`, `copied_checkpoints` | copying a database while transactions run |
//! | `rewind` | bringing a copy back to a stamp |
//! | `feed` | the committed transactions in the order of their stamps |
//! | `load` | bulk loads |
//! | `open`, `recovery` | opening: the last checkpoint, then the log |
//! | `writers`, `log_room` | the sessions of the log; room in the log |
//! | `threads` | running work on several threads |
//!
//! `docs/recovery.md` argues which transactions are durable, and what a crash leaves.

pub(crate) mod checkpoint;
mod checkpoints;
mod copied_checkpoints;
mod copy;
mod database;
mod dump;
#[cfg(test)]
mod durability_tests;
mod engine;
mod feed;
mod inner;
mod load;
mod log_record;
mod log_room;
mod open;
#[cfg(test)]
mod races_tests;
mod range;
mod recovery;
mod rewind;
mod stat;
mod store;
mod table;
mod threads;
mod transaction;
mod verify;
mod writers;

pub(crate) use checkpoint::any as has_checkpoint;
pub(crate) use database::MemoryDatabase;
