//! A replicated Katydid database: several machines keep one database by Raft, and go on when some of them fail.
//!
//! - [`client_driven`]: the replication of Efficient flushing, for reproducing its figures.
//! - `write_set`: what a transaction changes, as replicas exchange it.
#![forbid(unsafe_code)]

pub mod client_driven;
mod write_set;

pub use write_set::{Write, WriteSet};
