//! The consistency conditions 1 to 4 of the standard (3.3.2), checked for all warehouses and
//! districts in one transaction.

use super::keys::{self, DistrictId};
use super::rows::{District, Order, Warehouse};
use super::settings::Settings;
use super::tables::{DISTRICT, NEW_ORDER, ORDER_LINE, ORDERS, TABLES, WAREHOUSE};
use super::terminal::inconsistent;
use crate::row::Row;
use crate::store::{Client, Intent, Keys, Result, Store, StoreError, Transaction};
use std::collections::BTreeMap;

/// Totals of one district, as the conditions need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct DistrictTotals {
    ytd: i64,
    next_order: u32,
    orders: u64,
    latest_order: u32,
    /// Sum of the numbers of lines that the orders state.
    lines: u64,
    new_orders: u64,
    oldest_new: u32,
    latest_new: u32,
    order_lines: u64,
}

/// Totals that the conditions compare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Year-to-date payments of each warehouse, in cents.
    warehouses: BTreeMap<u32, i64>,
    districts: BTreeMap<DistrictId, DistrictTotals>,
}

/// A condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Condition {
    /// 1: the payments of a warehouse equal the sum of its districts' payments, in cents.
    #[error("condition 1: warehouse {warehouse} was paid {paid}, its districts {districts}")]
    Paid {
        /// The warehouse.
        warehouse: u32,
        /// Payments in the row of the warehouse.
        paid: i64,
        /// Sum of the payments in the rows of its districts.
        districts: i64,
    },
    /// 2: the next order number of a district follows its latest order number.
    #[error(
        "condition 2: the next order of district {district} of warehouse {warehouse} is {next}, its latest {latest}"
    )]
    NextOrder {
        /// The warehouse.
        warehouse: u32,
        /// The district.
        district: u8,
        /// The number of the next order.
        next: u32,
        /// The largest number of an order, or of an undelivered order.
        latest: u32,
    },
    /// 3: the numbers of the undelivered orders have no gap between the oldest and the latest.
    #[error(
        "condition 3: district {district} of warehouse {warehouse} has {found} new orders, from the oldest to the latest {span}"
    )]
    NewOrders {
        /// The warehouse.
        warehouse: u32,
        /// The district.
        district: u8,
        /// Number of undelivered orders found.
        found: u64,
        /// Number of undelivered orders if there were no gap.
        span: u64,
    },
    /// 4: the number of order lines equals the sum of the counts in the orders.
    #[error(
        "condition 4: the orders of district {district} of warehouse {warehouse} have {orders} lines, but there are {found}"
    )]
    Lines {
        /// The warehouse.
        warehouse: u32,
        /// The district.
        district: u8,
        /// Sum of the counts in the orders.
        orders: u64,
        /// Number of lines found.
        found: u64,
    },
    /// The number of rows of a table whose size never changes differs from the number loaded.
    #[error("there are {found} {what}, but {loaded} were loaded")]
    Missing {
        /// Name of the rows.
        what: &'static str,
        /// Number of rows found.
        found: u64,
        /// Number of rows loaded.
        loaded: u64,
    },
}

impl From<Condition> for StoreError {
    fn from(condition: Condition) -> Self {
        StoreError::Inconsistent(condition.to_string())
    }
}

impl State {
    /// Reads all rows that the conditions need.
    ///
    /// # Errors
    /// Those of the store. [`StoreError::Inconsistent`] names a row that cannot be decoded.
    pub fn read<S: Store>(store: &S) -> Result<State> {
        let mut client = store.client(&TABLES)?;
        let mut transaction = client.begin(Intent::ReadOnly)?;
        let mut state = State::default();
        let State { warehouses, districts } = &mut state;
        each(&mut transaction, WAREHOUSE, |key, row| {
            warehouses.insert(keys::last_number(key)?, Warehouse::read(row)?.ytd);
            Some(())
        })?;
        each(&mut transaction, DISTRICT, |key, row| {
            let (of, _) = keys::read_district(key)?;
            let row = District::read(row)?;
            let district = districts.entry(of).or_default();
            (district.ytd, district.next_order) = (row.ytd, row.next_order);
            Some(())
        })?;
        each(&mut transaction, ORDERS, |key, row| {
            let (of, number) = keys::read_of_district(key)?;
            let district = districts.entry(of).or_default();
            district.orders += 1;
            district.lines += u64::from(Order::read(row)?.lines);
            district.latest_order = number;
            Some(())
        })?;
        each(&mut transaction, NEW_ORDER, |key, _| {
            let (of, number) = keys::read_of_district(key)?;
            let district = districts.entry(of).or_default();
            district.oldest_new = if district.new_orders == 0 { number } else { district.oldest_new };
            district.new_orders += 1;
            district.latest_new = number;
            Some(())
        })?;
        each(&mut transaction, ORDER_LINE, |key, _| {
            let (of, _) = keys::read_district(key)?;
            districts.entry(of).or_default().order_lines += 1;
            Some(())
        })?;
        transaction.commit()?;
        Ok(state)
    }

    /// Number of orders of all districts.
    pub fn orders(&self) -> u64 {
        self.districts.values().map(|district| district.orders).sum()
    }

    /// Checks the conditions. `settings` states the number of warehouses.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn check(&self, settings: &Settings) -> std::result::Result<(), Condition> {
        let counted = [
            ("warehouses", self.warehouses.len() as u64, u64::from(settings.warehouses)),
            ("districts", self.districts.len() as u64, settings.districts()),
        ];
        if let Some((what, found, loaded)) = counted.into_iter().find(|(_, found, loaded)| found != loaded) {
            return Err(Condition::Missing { what, found, loaded });
        }
        for (&warehouse, &paid) in &self.warehouses {
            let of = self.districts.iter().filter(|(of, _)| of.warehouse == warehouse);
            let districts = of.map(|(_, district)| district.ytd).sum();
            if paid != districts {
                return Err(Condition::Paid { warehouse, paid, districts });
            }
        }
        self.districts.iter().try_for_each(|(of, district)| district.check(*of))
    }
}

impl DistrictTotals {
    fn check(&self, of: DistrictId) -> std::result::Result<(), Condition> {
        let DistrictId { warehouse, district } = of;
        let last = self.next_order.wrapping_sub(1);
        let latest_new = (self.new_orders > 0).then_some(self.latest_new);
        let mut latest = [Some(self.latest_order), latest_new].into_iter().flatten();
        if let Some(latest) = latest.find(|latest| *latest != last) {
            return Err(Condition::NextOrder { warehouse, district, next: self.next_order, latest });
        }
        let span = match self.new_orders {
            0 => 0,
            _ => u64::from(self.latest_new - self.oldest_new) + 1,
        };
        if self.new_orders != span {
            return Err(Condition::NewOrders { warehouse, district, found: self.new_orders, span });
        }
        if self.lines != self.order_lines {
            let (orders, found) = (self.lines, self.order_lines);
            return Err(Condition::Lines { warehouse, district, orders, found });
        }
        Ok(())
    }
}

/// Passes every row of a table to `note`, which returns `None` for bytes that are no row.
fn each<T: Transaction>(
    transaction: &mut T,
    table: usize,
    mut note: impl FnMut(&[u8], &[u8]) -> Option<()>,
) -> Result<()> {
    let mut wrong = None;
    transaction.on(table).range(Keys::ALL, usize::MAX, &mut |key, row| {
        if note(key, row).is_none() {
            wrong = Some(inconsistent(table, key, "is no row"));
        }
    })?;
    wrong.map_or(Ok(()), Err)
}
