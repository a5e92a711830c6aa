//! TATP, also known as TM1: what a mobile network asks of its register of subscribers, in very
//! small transactions. Aether (6.1) measures log buffers with its UpdateLocation.
//!
//! Four tables as in the standard and one that leads to subscribers by number. Population, mix and
//! non-uniform choices are the standard's. So is what fails: of some transactions a known share
//! asks for what is not there, or inserts what is. Such a one rolls back and is counted as failed,
//! not among those acknowledged, as the standard's throughput has it. After any number of
//! transactions all rows belong to each other, and there are as many of each table as were loaded,
//! inserted and not deleted: a lost, doubled or torn transaction that changes call forwardings is
//! found by counting ([`State`]).
//!
//! Different here: how many subscribers there are can be chosen freely: from 100,000 on in the
//! standard.

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
