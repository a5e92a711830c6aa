//! Workloads, and a driver that runs them on anything behind the [`Store`] trait.
//!
//! A workload ([`ycsb`], [`tpcb`], [`tpcc`], [`tatp`], [`sysbench`], [`tuples`], [`insert`]) plans
//! requests. The driver ([`drive::drive`]) runs them from several threads, which block in each
//! commit or have several commits in flight. The driver measures reads and durable commits
//! separately. [`KatydidStore`] implements the trait for Katydid; other stores can implement the
//! trait in their own crates.
#![forbid(unsafe_code)]

pub mod drive;
pub mod generate;
pub mod insert;
mod katydid_store;
pub mod measure;
pub mod properties;
mod row;
mod store;
pub mod sysbench;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;
pub mod tuples;
pub mod ycsb;

#[cfg(test)]
mod memory_store;

pub use katydid_store::{KatydidClient, KatydidStore, KatydidTransaction};
pub use store::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct FrontPage;
