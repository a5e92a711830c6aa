//! OrderStatus (2.6) and StockLevel (2.8), the transactions that only read.

use super::keys::{self, DistrictId};
use super::payment::CustomerChoice;
use super::rows::{Customer, District, Order, OrderLine, Stock};
use super::tables::{ORDER_BY_CUSTOMER, ORDER_LINE, ORDERS};
use super::terminal::{Terminal, inconsistent};
use crate::row::read;
use crate::store::{Keys, Result, Transaction};
use std::collections::BTreeSet;

/// OrderStatus reads the last order of a customer.
#[derive(Debug)]
pub(super) struct OrderStatus {
    of: DistrictId,
    who: CustomerChoice,
}

impl OrderStatus {
    pub(super) fn plan(terminal: &mut Terminal) -> Self {
        OrderStatus { of: terminal.district(), who: CustomerChoice::plan(terminal) }
    }

    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<()> {
        let of = self.of;
        let number = self.who.find(transaction, of)?;
        let _balance: Customer = read(transaction, &keys::of_district(of, number))?;
        let from = keys::order_by_customer(of, number, u32::MAX);
        let mut latest = None;
        transaction.on(ORDER_BY_CUSTOMER).range(Keys::from(&from), 1, &mut |key, _| {
            latest = (key[..from.len() - 4] == from[..from.len() - 4]).then(|| keys::last_number(key));
        })?;
        let Some(Some(latest)) = latest else {
            return Err(inconsistent(ORDER_BY_CUSTOMER, &from, "leads to no order"));
        };
        let latest = !latest;
        let key = keys::of_district(of, latest);
        let order: Order = read(transaction, &key)?;
        let lines = lines(transaction, of, latest, latest + 1)?.len();
        match lines == usize::from(order.lines) && order.customer == number {
            true => Ok(()),
            false => {
                let Order { customer, lines: of_order, .. } = order;
                let how = format!(
                    "is of customer {customer} with {of_order} lines; found by customer {number} with {lines}"
                );
                Err(inconsistent(ORDERS, &key, &how))
            }
        }
    }
}

/// The lines of the orders from `from` up to but not including `to`, with their keys.
pub(super) fn lines<T: Transaction>(
    transaction: &mut T,
    of: DistrictId,
    from: u32,
    to: u32,
) -> Result<Vec<(Vec<u8>, OrderLine)>> {
    use crate::row::Row;
    let (from, to) = (keys::line(of, from, 0), keys::line(of, to, 0));
    let (mut lines, mut wrong) = (Vec::new(), None);
    transaction.on(ORDER_LINE).range(Keys::between(&from, &to), usize::MAX, &mut |key, row| {
        match OrderLine::read(row) {
            Some(line) => lines.push((key.to_vec(), line)),
            None => wrong = Some(inconsistent(ORDER_LINE, key, "is cut")),
        }
    })?;
    wrong.map_or(Ok(lines), Err)
}

/// StockLevel counts the items with a stock below a threshold among the items of the last 20
/// orders.
#[derive(Debug)]
pub(super) struct StockLevel {
    of: DistrictId,
    threshold: i32,
}

impl StockLevel {
    pub(super) fn plan(terminal: &mut Terminal) -> Self {
        StockLevel { of: terminal.district(), threshold: terminal.rng.i32(10..=20) }
    }

    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<()> {
        let of = self.of;
        let next = read::<District, T>(transaction, &keys::district(of))?.next_order;
        let lines = lines(transaction, of, next.saturating_sub(20), next)?;
        let items: BTreeSet<u32> = lines.iter().map(|(_, line)| line.item).collect();
        let mut _low = 0;
        for item in items {
            let stock: Stock = read(transaction, &keys::stock(of.warehouse, item))?;
            _low += u32::from(stock.quantity < self.threshold);
        }
        Ok(())
    }
}
