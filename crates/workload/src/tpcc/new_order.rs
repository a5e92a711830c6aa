//! NewOrder (2.4): a customer orders 5 to 15 items.

use super::keys::{self, DistrictId};
use super::random;
use super::rows::{Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use super::tables::{NEW_ORDER, ORDER_BY_CUSTOMER};
use super::terminal::{Terminal, now};
use crate::drive::Ending;
use crate::row::{add, change, find, read};
use crate::store::{Result, Transaction};

/// One line of an order.
#[derive(Debug, Clone, Copy)]
struct Line {
    item: u32,
    supply_warehouse: u32,
    quantity: u8,
}

/// An order to enter.
#[derive(Debug)]
pub(super) struct NewOrder {
    of: DistrictId,
    customer: u32,
    lines: Vec<Line>,
    date: u64,
}

impl NewOrder {
    pub(super) fn plan(terminal: &mut Terminal) -> Self {
        let of = terminal.district();
        let settings = terminal.settings;
        let customer = random::customer(&mut terminal.rng, &settings);
        let line = |terminal: &mut Terminal| Line {
            item: random::item(&mut terminal.rng, &settings),
            supply_warehouse: match terminal.rng.u32(..100) {
                0 => terminal.other_warehouse(),
                _ => of.warehouse,
            },
            quantity: terminal.rng.u8(1..=10),
        };
        let mut lines: Vec<Line> = (0..terminal.rng.u32(5..=15)).map(|_| line(terminal)).collect();
        lines.sort_by_key(|line| (line.supply_warehouse, line.item));
        // One order in 100 ends with an item that does not exist.
        if let (0, Some(last)) = (terminal.rng.u32(..100), lines.last_mut()) {
            last.item = settings.items.saturating_add(1);
        }
        NewOrder { of, customer, lines, date: now() }
    }

    /// The item and the supplying warehouse of each line.
    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(u32, u32)> {
        self.lines.iter().map(|line| (line.item, line.supply_warehouse)).collect()
    }

    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<Ending> {
        let of = self.of;
        let _tax: Warehouse = read(transaction, &keys::number(of.warehouse))?;
        let _discount: Customer = read(transaction, &keys::of_district(of, self.customer))?;
        let district: District =
            change(transaction, &keys::district(of), |district: &mut District| district.next_order += 1)?;
        let number = district.next_order - 1;
        let local = self.lines.iter().all(|line| line.supply_warehouse == of.warehouse);
        let order = Order {
            customer: self.customer,
            entered: self.date,
            carrier: 0,
            lines: self.lines.len() as u8,
            all_local: u8::from(local),
        };
        add(transaction, &keys::of_district(of, number), &order)?;
        transaction.on(NEW_ORDER).insert(&keys::of_district(of, number), &[])?;
        let by_customer = keys::order_by_customer(of, self.customer, number);
        transaction.on(ORDER_BY_CUSTOMER).insert(&by_customer, &[])?;
        for (index, line) in (1..).zip(&self.lines) {
            match find::<Item, T>(transaction, &keys::number(line.item))? {
                Some(item) => self.line(transaction, number, index, line, i64::from(item.price))?,
                None => return Ok(Ending::RollBack),
            }
        }
        Ok(Ending::Commit)
    }

    fn line<T: Transaction>(
        &self,
        transaction: &mut T,
        order: u32,
        index: u8,
        line: &Line,
        price: i64,
    ) -> Result<()> {
        let quantity = i32::from(line.quantity);
        let take = |stock: &mut Stock| {
            let left = stock.quantity - quantity;
            // A stock that falls below 10 is refilled by 91.
            stock.quantity = if left >= 10 { left } else { left + 91 };
            stock.ytd = stock.ytd.wrapping_add(u32::from(line.quantity));
            stock.orders += 1;
            stock.remote_orders += u32::from(line.supply_warehouse != self.of.warehouse);
        };
        let stock: Stock = change(transaction, &keys::stock(line.supply_warehouse, line.item), take)?;
        let row = OrderLine {
            item: line.item,
            supply_warehouse: line.supply_warehouse,
            delivered: 0,
            quantity: line.quantity,
            amount: i64::from(line.quantity) * price,
            district_text: stock.district_texts.0[usize::from(self.of.district) - 1],
        };
        add(transaction, &keys::line(self.of, order, index), &row)
    }
}
