//! Workloads under load. Each workload is loaded, run, checked, and reported with the rates of the
//! raw device.

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
