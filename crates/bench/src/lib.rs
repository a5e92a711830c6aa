//! All measurements: workloads under load, inserts and commits as in the papers, the papers'
//! figures with a verdict on each, simulated machines, and raw devices. The program `katydid`
//! mounts the commands of this crate.
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
