//! Everything that evaluates: workloads under load, inserts and commits measured as the papers did,
//! the papers' figures with a verdict on each, simulated machines, and devices by themselves. The
//! program `katydid` mounts the commands below.
#![forbid(unsafe_code)]

mod commands;
mod commits;
mod disk;
mod distributed;
mod grid;
mod host;
mod inserts;
mod manycore;
#[cfg(feature = "replica")]
mod replication;
mod reproduce;
mod workloads;

pub use commands::{Bench, Lab};
pub use disk::BenchDisk;
pub use manycore::Manycore;
pub use reproduce::Reproduce;
