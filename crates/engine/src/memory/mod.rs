//! The memory engine: Cicada's concurrency control over a log in several streams (P-WAL), after
//! "Integration of Parallel Write Ahead Logging and Cicada Concurrency Control Method".
//!
//! | file | what |
//! |---|---|
//! | `store/` | the kernels: clock, versions, index, validation, collection; knows no log |
//! | `database`, `table`, `transaction`, `range` | what is inside the public types |
//! | `engine` | the parts of an open database; giving a transaction its place in the log |
//! | `log_record` | a transaction's writes as bytes |
//! | `checkpoint/`, `checkpoints` | the files of a checkpoint; taking one |
//! | `verify`, `dump`, `stat` | looking at it |
//! | `copy` | copying it beside transactions |
//! | `rewind` | a copy brought back to a stamp |
//! | `open`, `recovery` | opening: the last checkpoint, then the log |
//! | `writers` | the sessions of the log |
//! | `threads` | doing something on several threads |
//!
//! What is durable, and what a crash leaves, is argued in `docs/recovery.md`.

pub(crate) mod checkpoint;
mod checkpoints;
mod copied_checkpoints;
mod copy;
mod database;
mod dump;
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
