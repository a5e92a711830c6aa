//! Workloads under load: each is loaded, run durably, checked, and reported beside what the device
//! can do.

mod hlog;
pub mod insert;
mod ledger;
pub mod oltp;
#[cfg(feature = "replica")]
mod replicas;
mod report;
mod runner;
mod setup;
pub mod ycsb;
