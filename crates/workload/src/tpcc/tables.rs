//! The tables of TPC-C and their numbers.

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
