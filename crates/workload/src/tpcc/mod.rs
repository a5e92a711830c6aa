//! TPC-C: a wholesale supplier's orders, payments and deliveries. The report on NV-Logging and
//! ELEDA (6.3.3) measure their logs with this workload.
//!
//! There are the nine tables of the standard and two indexes: customers by last name, and orders by
//! customer. Population, mix, non-uniform choices, remote warehouses and the one percent of
//! NewOrders that roll back are the standard's (clauses 2 and 4.3). After any number of
//! transactions the standard's consistency conditions 1 to 4 (3.3.2) hold, and there are as many
//! orders as were loaded and acknowledged. A lost, repeated or torn transaction violates one of
//! these conditions ([`State`]).
//!
//! Five things differ from the standard:
//!
//! 1. The number of items and the number of customers of a district can be chosen, while the
//!    standard has 100,000 and 3,000.
//! 2. A terminal is a thread, or one of a thread's transactions in flight. A terminal uses one
//!    warehouse, does not think, and displays nothing. If there are more threads than warehouses,
//!    several threads share a warehouse.
//! 3. Delivery runs at once, in one transaction for all districts.
//! 4. NewOrder locks stock rows in the order of warehouses and items, so that two NewOrders cannot
//!    deadlock.
//! 5. The constants of the non-uniform choices are the same in all runs, so that a seed repeats a
//!    run.

mod check;
mod delivery;
mod keys;
mod load;
mod look;
mod new_order;
mod payment;
mod random;
mod rows;
mod run;
mod settings;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;

pub use check::{Condition, State};
pub use load::{TpccLoad, TpccLoadSource};
pub use run::{Kind, Mix, TpccRun, TpccSource};
pub use settings::{DISTRICTS, Settings};
pub use tables::TABLES;
