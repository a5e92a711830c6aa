//! Archives of the log, and databases that are restored to a point with them. The tests run with
//! both engines.
//!
//! The files:
//!
//! - `history`: a database that one thread uses, crashes, backs up and archives, in an order that
//!   the seed determines; and a model of the rows after each commit.
//! - `points`: restores to each commit's stamp, which must have the model's state, and to times.
//! - `beside`: archiving while several threads commit.
//! - `broken`: the machine of the archive crashes at each of its device calls.
//! - `fixture`: a kept backup and archive of each version of the format.
//! - `refused`: gaps, damage, other databases, and points that cannot be restored.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod beside;
mod broken;
mod fixture;
mod history;
mod points;
mod refused;
