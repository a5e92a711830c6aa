//! The rows of the tables. A row has the fields of the standard that its key does not contain. Rows
//! of table `new_order` have no fields. Pure functions.
//!
//! Money is in cents, taxes and discounts in hundredths of a percent, dates in microseconds
//! since 1970. A date of 0 means no date, and a carrier of 0 means no carrier.

use super::settings::DISTRICTS;
use super::tables::{CUSTOMER, DISTRICT, HISTORY, ITEM, ORDER_LINE, ORDERS, STOCK, TABLES, WAREHOUSE};
use crate::row::{Field, Text, rows};

/// A postal address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) street_1: Text,
    pub(super) street_2: Text,
    pub(super) city: Text,
    pub(super) state: [u8; 2],
    pub(super) zip: [u8; 9],
}

impl Field for Address {
    fn write(&self, out: &mut Vec<u8>) {
        self.street_1.write(out);
        self.street_2.write(out);
        self.city.write(out);
        self.state.write(out);
        self.zip.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Address {
            street_1: Field::read(bytes)?,
            street_2: Field::read(bytes)?,
            city: Field::read(bytes)?,
            state: Field::read(bytes)?,
            zip: Field::read(bytes)?,
        })
    }
}

/// One text for each of the ten districts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DistrictTexts(pub(super) [[u8; 24]; DISTRICTS as usize]);

impl Field for DistrictTexts {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|text| text.write(out));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut texts = [[0; 24]; DISTRICTS as usize];
        for text in &mut texts {
            *text = Field::read(bytes)?;
        }
        Some(DistrictTexts(texts))
    }
}

rows! {
    /// Key: the warehouse, from 1.
    Warehouse in WAREHOUSE {
        tax: u16,
        /// Year-to-date payments.
        ytd: i64,
        name: Text,
        address: Address,
    }

    /// Key: the warehouse and the district, from 1 to 10.
    District in DISTRICT {
        next_order: u32,
        tax: u16,
        ytd: i64,
        name: Text,
        address: Address,
    }

    /// Key: the district and the customer, from 1.
    Customer in CUSTOMER {
        balance: i64,
        ytd_payment: i64,
        payments: u32,
        deliveries: u32,
        discount: u16,
        /// `GC` for good credit, `BC` for bad credit.
        credit: [u8; 2],
        credit_limit: i64,
        since: u64,
        first: Text,
        middle: [u8; 2],
        last: Text,
        address: Address,
        phone: [u8; 16],
        data: Text,
    }

    /// A payment. Key: a number that no other payment has.
    History in HISTORY {
        customer_warehouse: u32,
        customer_district: u8,
        customer: u32,
        warehouse: u32,
        district: u8,
        date: u64,
        amount: i64,
        data: Text,
    }

    /// Key: the district and the order, from 1.
    Order in ORDERS {
        customer: u32,
        entered: u64,
        carrier: u8,
        lines: u8,
        /// 1 if all lines are supplied by the order's own warehouse, otherwise 0.
        all_local: u8,
    }

    /// Key: the order and the line, from 1.
    OrderLine in ORDER_LINE {
        item: u32,
        supply_warehouse: u32,
        delivered: u64,
        quantity: u8,
        amount: i64,
        district_text: [u8; 24],
    }

    /// Key: the item, from 1.
    Item in ITEM {
        image: u32,
        price: u32,
        name: Text,
        data: Text,
    }

    /// Key: the warehouse and the item.
    Stock in STOCK {
        quantity: i32,
        ytd: u32,
        orders: u32,
        remote_orders: u32,
        district_texts: DistrictTexts,
        data: Text,
    }
}
