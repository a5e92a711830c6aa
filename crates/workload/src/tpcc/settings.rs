//! Size of a TPC-C database.
//!
//! Any thread may use the settings.

/// Number of districts of a warehouse.
pub const DISTRICTS: u8 = 10;

/// Size of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of warehouses, the benchmark's scale; at least 1.
    pub warehouses: u32,
    /// Number of items, and of stock rows of each warehouse; at least 1.
    pub items: u32,
    /// Number of customers of each district, each with one loaded order; at least 1.
    pub customers_of_district: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { warehouses: 1, items: 100_000, customers_of_district: 3_000 }
    }
}

impl Settings {
    /// Number of districts of all warehouses.
    pub(crate) fn districts(&self) -> u64 {
        u64::from(self.warehouses) * u64::from(DISTRICTS)
    }

    /// Number of orders that are loaded.
    pub fn orders(&self) -> u64 {
        self.districts() * u64::from(self.customers_of_district)
    }

    /// Number of the first undelivered order among a district's loaded orders: 2,101 of 3,000.
    pub(crate) fn first_undelivered(&self) -> u32 {
        let delivered = u64::from(self.customers_of_district) * 7 / 10;
        // The result is at most the number of customers.
        u32::try_from(delivered).unwrap_or(u32::MAX) + 1
    }
}
