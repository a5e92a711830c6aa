//! Backups: what is in them, what a failure leaves, and what is refused. The tests run with both
//! engines.
//!
//! The files:
//!
//! - `model`: writers that remember their transactions, and the check of a copy against these
//!   transactions.
//! - `beside`: backups while transactions, checkpoints and eviction run, on one thread in an order
//!   that the seed determines, and on several threads.
//! - `compact`: a database that is rewritten without its free pages.
//! - `crash`: the machine of the copy, or of its source, crashes at each device call of a backup;
//!   devices that are full or fail.
//! - `increments`: changes since a backup, and chains of increments.
//! - `repair`: repair of a database with transactions that had not ended, and a crash at each call
//!   of a repair.
//! - `torn`: pages that are read while they are written.
//! - `refused`: folders that are no backups, and files of one copy among those of another copy.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod beside;
mod compact;
mod crash;
mod increments;
mod model;
mod refused;
mod repair;
mod torn;
