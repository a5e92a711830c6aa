//! Payment (2.5): a customer pays. This file also chooses customers by last name or number for
//! other transactions.

use super::keys::{self, DistrictId};
use super::random;
use super::rows::{Customer, District, History, Warehouse};
use super::tables::CUSTOMER_BY_NAME;
use super::terminal::{Terminal, inconsistent, now};
use crate::row::{add, change};
use crate::store::{Keys, Result, Transaction};

/// Choice of a customer. 60 of 100 choices are by last name.
#[derive(Debug, Clone)]
pub(super) enum CustomerChoice {
    LastName(Vec<u8>),
    Number(u32),
}

impl CustomerChoice {
    pub(super) fn plan(terminal: &mut Terminal) -> CustomerChoice {
        let settings = terminal.settings;
        match terminal.rng.u32(..100) {
            0..60 => CustomerChoice::LastName(random::last_name(&mut terminal.rng, &settings)),
            _ => CustomerChoice::Number(random::customer(&mut terminal.rng, &settings)),
        }
    }

    /// The customer's number. Among customers with the same last name, it is the middle one in the
    /// order of first names.
    pub(super) fn find<T: Transaction>(&self, transaction: &mut T, of: DistrictId) -> Result<u32> {
        let last = match self {
            CustomerChoice::Number(number) => return Ok(*number),
            CustomerChoice::LastName(last) => last,
        };
        let from = keys::last_name(of, last);
        let mut to = from.clone();
        // Turn the zero byte after the name into 1: the exclusive end of the customers with this
        // name.
        to.pop();
        to.push(1);
        let mut numbers = Vec::new();
        transaction.on(CUSTOMER_BY_NAME).range(Keys::between(&from, &to), usize::MAX, &mut |key, _| {
            numbers.extend(keys::last_number(key));
        })?;
        // Of 1 or 2 customers, the middle one is the first; of 3, the second.
        let middle = numbers.len().div_ceil(2).checked_sub(1).and_then(|middle| numbers.get(middle));
        middle.copied().ok_or_else(|| inconsistent(CUSTOMER_BY_NAME, &from, "leads to nobody"))
    }
}

/// A payment to enter.
#[derive(Debug)]
pub(super) struct Payment {
    /// District in which the customer pays.
    at: DistrictId,
    /// District of the customer.
    of: DistrictId,
    who: CustomerChoice,
    amount: i64,
    /// A number that no other payment has.
    number: u64,
    date: u64,
}

impl Payment {
    pub(super) fn plan(terminal: &mut Terminal, number: u64) -> Self {
        let at = terminal.district();
        let of = match terminal.rng.u32(..100) {
            0..85 => at,
            _ => DistrictId { warehouse: terminal.other_warehouse(), ..terminal.district() },
        };
        let amount = terminal.rng.i64(100..=500_000);
        Payment { at, of, who: CustomerChoice::plan(terminal), amount, number, date: now() }
    }

    #[cfg(test)]
    pub(super) fn is_remote(&self) -> bool {
        self.of.warehouse != self.at.warehouse
    }

    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<()> {
        let Payment { at, of, amount, .. } = *self;
        let warehouse =
            change(transaction, &keys::number(at.warehouse), |row: &mut Warehouse| row.ytd += amount)?;
        let district = change(transaction, &keys::district(at), |row: &mut District| row.ytd += amount)?;
        let number = self.who.find(transaction, of)?;
        change(transaction, &keys::of_district(of, number), |customer: &mut Customer| {
            customer.balance -= amount;
            customer.ytd_payment += amount;
            customer.payments += 1;
            if customer.credit == *b"BC" {
                self.note(customer, number);
            }
        })?;
        let mut data = warehouse.name;
        data.0.extend_from_slice(b"    ");
        data.0.extend_from_slice(&district.name.0);
        let history = History {
            customer_warehouse: of.warehouse,
            customer_district: of.district,
            customer: number,
            warehouse: at.warehouse,
            district: at.district,
            date: self.date,
            amount,
            data,
        };
        add(transaction, &self.number.to_be_bytes(), &history)
    }

    /// Adds a note in front of the data of a customer with bad credit. The data keep their first
    /// 500 bytes.
    fn note(&self, customer: &mut Customer, number: u32) {
        let Payment { at, of, amount, .. } = self;
        let note =
            format!("{number} {} {} {} {} {amount}|", of.district, of.warehouse, at.district, at.warehouse);
        customer.data.0.splice(0..0, note.bytes());
        customer.data.0.truncate(500);
    }
}
