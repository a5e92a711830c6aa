//! TPC-C: a wholesale supplier's orders, payments and deliveries, the workload on which the report
//! on NV-Logging measures its log, and ELEDA (6.4.3) its own beside logs in NVRAM.
//!
//! Nine tables as in the standard and two that lead to rows by something else: customers by last
//! name, orders by customer. Population, mix, non-uniform choices, remote warehouses and the one
//! NewOrder of a hundred that rolls back are the standard's (clauses 2 and 4.3). After any number
//! of transactions its consistency conditions 1 to 4 (3.3.2) hold, and there are as many orders as
//! were loaded and acknowledged: a lost, doubled or torn transaction is found by adding up
//! ([`State`]).
//!
//! Different here:
//!
//! 1. How many items there are, and how many customers a district has, can be chosen: 100,000 and
//!    3,000 in the standard.
//! 2. A terminal is a thread, or one of its transactions in flight. It keeps to one warehouse, does
//!    not think, and takes what it reads for shown. A thread more than there are warehouses shares
//!    one.
//! 3. Delivery runs when it is asked for and in one transaction for all districts.
//! 4. NewOrder takes stock in the order of warehouses and items, so that two of them do not wait
//!    for each other in a circle.
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
