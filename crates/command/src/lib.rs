//! Code that the commands of the `katydid` program share: reading values, opening databases,
//! failures, output and stopping.
//!
//! The operator's commands (`crates/cli`) and everything that evaluates (`crates/bench`) stand on
//! this crate, and neither on the other's modules. No command is in here.
#![forbid(unsafe_code)]

pub mod built;
pub mod bytes;
pub mod database;
pub mod failure;
pub mod flags;
pub mod log_flags;
pub mod look;
pub mod output;
pub mod progress;
pub mod signals;
pub mod table;
pub mod whole_file;
