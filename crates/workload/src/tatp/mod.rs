//! TATP, also known as TM1: what a mobile network asks of its register of subscribers, in very small transactions. Aether (6.1) measures
//! log buffers with its UpdateLocation.
//!
//! Four tables as in the standard and one that leads to subscribers by number. Population, mix and non-uniform choices are the standard's.
//! So is what fails: of some transactions a known share asks for what is not there, or inserts what is. Such a one rolls back and is
//! counted as failed, not among those acknowledged, as the standard's throughput has it. After any number of transactions all rows belong
//! to each other, and there are as many of each table as were loaded, inserted and not deleted: a lost, doubled or torn transaction
//! that changes call forwardings is found by counting ([`State`]).
//!
//! Different here: how many subscribers there are can be chosen freely: from 100,000 on in the standard.

mod check;
mod load;
mod population;
mod request;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use check::{Fault, State};
pub use load::{TatpLoad, TatpLoadSource};
pub use population::Counts;
pub use run::{Kind, Mix, TatpRun, TatpSource};

/// The tables, in the order in which the workload knows them.
pub const TABLES: [&str; 5] =
    ["subscriber", "access_info", "special_facility", "call_forwarding", "subscriber_by_number"];

pub(crate) const SUBSCRIBER: usize = 0;
pub(crate) const ACCESS_INFO: usize = 1;
pub(crate) const SPECIAL_FACILITY: usize = 2;
pub(crate) const CALL_FORWARDING: usize = 3;
/// The subscriber who has a number.
pub(crate) const SUBSCRIBER_BY_NUMBER: usize = 4;

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The benchmark's scale; at least 1.
    pub subscribers: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { subscribers: 100_000 }
    }
}

impl Settings {
    /// The constant of the non-uniform choice of subscribers.
    pub(crate) fn a(&self) -> u32 {
        match self.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        }
    }
}
