//! A replicated Katydid database: several machines keep one database by Raft, and go on when some of them fail.
//!
//! - `write_set`: what a transaction changes, as replicas exchange it.
#![forbid(unsafe_code)]

mod write_set;

pub use write_set::{Write, WriteSet};
