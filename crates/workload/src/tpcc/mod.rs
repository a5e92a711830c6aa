//! TPC-C: a wholesale supplier's orders, payments and deliveries, the workload on which the report on NV-Logging measures its log, and
//! ELEDA (6.4.3) its own beside logs in NVRAM.
//!
//! Nine tables as in the standard and two that lead to rows by something else: customers by last name, orders by customer. Population,
//! mix, non-uniform choices, remote warehouses and the one NewOrder of a hundred that rolls back are the standard's (clauses 2 and 4.3).
//! After any number of transactions its consistency conditions 1 to 4 (3.3.2) hold, and there are as many orders as were loaded and
//! acknowledged: a lost, doubled or torn transaction is found by adding up ([`State`]).
//!
//! Different here:
//!
//! 1. How many items there are, and how many customers a district has, can be chosen: 100,000 and 3,000 in the standard.
//! 2. A terminal is a thread, or one of its transactions in flight. It keeps to one warehouse, does not think, and takes what it reads for
//!    shown. A thread more than there are warehouses shares one.
//! 3. Delivery runs when it is asked for and in one transaction for all districts.
//! 4. NewOrder takes stock in the order of warehouses and items, so that two of them do not wait for each other in a circle.
//! 5. The constants of the non-uniform choices are the same in all runs, so that a seed repeats a run.

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
#[cfg(test)]
mod tests;

pub use check::{Condition, State};
pub use load::{TpccLoad, TpccLoadSource};
pub use run::{Kind, Mix, TpccRun, TpccSource};

/// The tables, in the order in which the workload knows them.
pub const TABLES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
    "customer_by_name",
    "order_by_customer",
];

pub(crate) const WAREHOUSE: usize = 0;
pub(crate) const DISTRICT: usize = 1;
pub(crate) const CUSTOMER: usize = 2;
pub(crate) const HISTORY: usize = 3;
pub(crate) const NEW_ORDER: usize = 4;
pub(crate) const ORDERS: usize = 5;
pub(crate) const ORDER_LINE: usize = 6;
pub(crate) const ITEM: usize = 7;
pub(crate) const STOCK: usize = 8;
/// District, last name, first name, number: nothing in it.
pub(crate) const CUSTOMER_BY_NAME: usize = 9;
/// District, customer, number of the order, the latest first: nothing in it.
pub(crate) const ORDER_BY_CUSTOMER: usize = 10;

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The benchmark's scale; at least 1.
    pub warehouses: u32,
    /// Items, and so many in the stock of each warehouse; at least 1.
    pub items: u32,
    /// Customers of each district, each with an order; at least 1.
    pub customers_of_district: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { warehouses: 1, items: 100_000, customers_of_district: 3_000 }
    }
}

impl Settings {
    /// Districts of all warehouses.
    pub(crate) fn districts(&self) -> u64 {
        u64::from(self.warehouses) * u64::from(DISTRICTS)
    }

    /// Orders that are loaded.
    pub fn orders(&self) -> u64 {
        self.districts() * u64::from(self.customers_of_district)
    }

    /// The first of a district's loaded orders that is not delivered yet: 2,101 of 3,000.
    pub(crate) fn first_undelivered(&self) -> u32 {
        let delivered = u64::from(self.customers_of_district) * 7 / 10;
        // Not more than there are customers.
        u32::try_from(delivered).unwrap_or(u32::MAX) + 1
    }
}
