//! TATP, also known as TM1: the requests of a mobile network to its database of subscribers, in
//! very small transactions. Aether (6.1) measures log buffers with the transaction UpdateLocation.
//!
//! There are the four tables of the standard and a table that maps numbers to subscribers.
//! Population, mix and non-uniform choices are the standard's. As in the standard, a known share of
//! some kinds of transactions fails: the transaction asks for a missing row or inserts an existing
//! row. A failed transaction rolls back and is not counted as acknowledged, as in the standard's
//! throughput. After any number of transactions every row belongs to its subscriber, and each table
//! has as many rows as were loaded plus inserted minus deleted. Counting therefore finds a lost,
//! repeated or torn transaction that changes call forwardings ([`State`]).
//!
//! One thing differs from the standard: the number of subscribers can be chosen freely, while the
//! standard demands at least 100,000.

mod check;
mod load;
mod population;
mod request;
mod rows;
mod run;
mod settings;
mod tables;
#[cfg(test)]
mod tests;

pub use check::{Fault, State};
pub use load::{TatpLoad, TatpLoadSource};
pub use population::Counts;
pub use run::{Kind, Mix, TatpRun, TatpSource};
pub use settings::Settings;
pub use tables::TABLES;
