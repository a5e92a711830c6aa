//! Delivery (2.7) delivers the oldest undelivered order of each district.

use super::keys::{self, DistrictId};
use super::look::lines;
use super::rows::{Customer, Order, OrderLine};
use super::settings::DISTRICTS;
use super::tables::NEW_ORDER;
use super::terminal::{Terminal, inconsistent, now};
use crate::row::change;
use crate::store::{Keys, Result, Transaction};

/// Delivery of the oldest order of each district by one carrier.
#[derive(Debug)]
pub(super) struct Delivery {
    warehouse: u32,
    carrier: u8,
    date: u64,
}

impl Delivery {
    pub(super) fn plan(terminal: &mut Terminal) -> Self {
        Delivery { warehouse: terminal.warehouse, carrier: terminal.rng.u8(1..=10), date: now() }
    }

    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<()> {
        for district in 1..=DISTRICTS {
            self.district(transaction, DistrictId { warehouse: self.warehouse, district })?;
        }
        Ok(())
    }

    fn district<T: Transaction>(&self, transaction: &mut T, of: DistrictId) -> Result<()> {
        let (from, to) = (keys::district(of), keys::district(of.next()));
        let mut oldest = None;
        transaction.on(NEW_ORDER).range(Keys::between(&from, &to), 1, &mut |key, _| {
            oldest = keys::read_of_district(key);
        })?;
        // Districts without undelivered orders are skipped.
        let Some((_, number)) = oldest else { return Ok(()) };
        let key = keys::of_district(of, number);
        if !transaction.on(NEW_ORDER).delete(&key)? {
            return Err(inconsistent(NEW_ORDER, &key, "was found and is missing"));
        }
        let order = change(transaction, &key, |order: &mut Order| order.carrier = self.carrier)?;
        let mut amount = 0;
        for (key, line) in lines(transaction, of, number, number + 1)? {
            amount += line.amount;
            change(transaction, &key, |line: &mut OrderLine| line.delivered = self.date)?;
        }
        change(transaction, &keys::of_district(of, order.customer), |customer: &mut Customer| {
            customer.balance += amount;
            customer.deliveries += 1;
        })?;
        Ok(())
    }
}
