//! A guide for programs that use Katydid: one page for each question that comes up before the first
//! release of a program.
//!
//! The examples of all pages are compiled and run as tests. Whole programs are in the folder
//! `examples` of the repository: a queue with several consumers, an outbox, a secondary index, and
//! a copy of a database in use.

#[doc = include_str!("isolation.md")]
pub mod isolation {}

#[doc = include_str!("engines.md")]
pub mod engines {}

#[doc = include_str!("in_async_programs.md")]
pub mod in_async_programs {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("durability.md")]
pub mod durability {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[doc = include_str!("backups.md")]
pub mod backups {}

#[doc = include_str!("observing.md")]
pub mod observing {}

#[doc = include_str!("upgrades.md")]
pub mod upgrades {}
