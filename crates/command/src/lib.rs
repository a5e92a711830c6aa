//! Code that the commands of the `katydid` program share: reading values, opening databases,
//! failures, output and stopping.
//!
//! The operator's commands (`crates/cli`) and the measurements (`crates/bench`) use this crate, so
//! that they need no modules of each other. This crate has no command.
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
pub mod stderr;
pub mod table;
pub mod whole_file;
