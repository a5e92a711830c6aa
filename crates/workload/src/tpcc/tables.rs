//! The tables of TPC-C and their numbers.

/// The tables, in the order in which the workload numbers them.
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
/// Index of customers. Key: district, last name, first name, number. Values are empty.
pub(crate) const CUSTOMER_BY_NAME: usize = 9;
/// Index of orders. Key: district, customer, order; the latest order comes first. Values are empty.
pub(crate) const ORDER_BY_CUSTOMER: usize = 10;
