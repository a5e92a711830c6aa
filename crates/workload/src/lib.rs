//! Workloads, and a driver that runs them on anything behind the [`Store`] trait.
//!
//! A workload ([`ycsb`], [`tpcb`], [`tpcc`], [`tatp`], [`sysbench`], [`tuples`], [`insert`]) plans
//! requests; the driver ([`drive::drive`]) runs them from several threads, blocking in each commit
//! or with many in flight, and measures reads and durable commits apart. Katydid itself stands
//! behind the trait as [`KatydidStore`]; other stores can be put there too.
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

/// The examples of the front page, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct FrontPage;
