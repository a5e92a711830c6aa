//! The load phase inserts the standard's population (4.3.3), many rows in a transaction.
//!
//! In one load phase, the seed and the ticket alone determine the rows of a transaction, so that a
//! transaction that conflicts is made again with the same rows.

use super::keys::{self, DistrictId};
use super::random;
use super::rows::{Customer, District, DistrictTexts, History, Item, Order, OrderLine, Stock, Warehouse};
use super::settings::{DISTRICTS, Settings};
use super::tables::{CUSTOMER_BY_NAME, NEW_ORDER, ORDER_BY_CUSTOMER};
use super::terminal::now;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::insert::{RUNS_MAX, first_number};
use crate::row::{Row, Text};
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of items or stock rows in a transaction.
const ITEMS: u32 = 100;
/// Number of customers in a transaction.
const CUSTOMERS: u32 = 30;
/// Number of orders in a transaction.
const ORDERS: u32 = 20;

/// Number of the run to which loaded payments belong.
pub(super) const LOADED: u64 = RUNS_MAX - 1;

/// Inserts the initial rows.
#[derive(Debug)]
pub struct TpccLoad {
    settings: Settings,
    seed: u64,
    date: u64,
    next: AtomicU64,
}

/// Rows that one transaction loads. Numbers begin at 1.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Batch {
    Items(Range<u32>),
    /// A warehouse and its districts.
    Warehouse(u32),
    Stock(u32, Range<u32>),
    Customers(DistrictId, Range<u32>),
    Orders(DistrictId, Range<u32>),
}

impl TpccLoad {
    /// The load phase of tables that do not exist yet.
    pub fn new(settings: &Settings, seed: u64) -> Arc<Self> {
        Arc::new(TpccLoad { settings: *settings, seed, date: now(), next: AtomicU64::new(0) })
    }

    fn batches(&self) -> u64 {
        let Settings { warehouses, items, customers_of_district: customers } = self.settings;
        let items = u64::from(items.div_ceil(ITEMS));
        let of_district = u64::from(customers.div_ceil(CUSTOMERS)) + u64::from(customers.div_ceil(ORDERS));
        items + u64::from(warehouses) * (1 + items) + self.settings.districts() * of_district
    }

    /// Batch number `number`; `None` if there is no such batch. Batches are numbered over all
    /// tables.
    fn batch(&self, mut number: u64) -> Option<Batch> {
        let Settings { warehouses, items, customers_of_district: customers } = self.settings;
        // The numbers in batch `number`, if the numbers 1 to `all` are split into batches of `of`
        // numbers; `None` if there is no such batch.
        let within = |number: u64, of: u32, all: u32| {
            let first = u32::try_from(number).ok()?.checked_mul(of).filter(|first| *first < all)?;
            Some(first + 1..(first + of).min(all) + 1)
        };
        let of_items = u64::from(items.div_ceil(ITEMS));
        if number < of_items {
            return within(number, ITEMS, items).map(Batch::Items);
        }
        number -= of_items;
        let of_warehouse = 1 + of_items;
        if number < u64::from(warehouses) * of_warehouse {
            let warehouse = u32::try_from(number / of_warehouse).ok()? + 1;
            return match (number % of_warehouse).checked_sub(1) {
                None => Some(Batch::Warehouse(warehouse)),
                Some(number) => Some(Batch::Stock(warehouse, within(number, ITEMS, items)?)),
            };
        }
        number -= u64::from(warehouses) * of_warehouse;
        let (of_customers, of_orders) =
            (u64::from(customers.div_ceil(CUSTOMERS)), u64::from(customers.div_ceil(ORDERS)));
        let district = number / (of_customers + of_orders);
        if district >= self.settings.districts() {
            return None;
        }
        let of = DistrictId {
            warehouse: u32::try_from(district / u64::from(DISTRICTS)).ok()? + 1,
            district: (district % u64::from(DISTRICTS)) as u8 + 1,
        };
        let number = number % (of_customers + of_orders);
        Some(match number.checked_sub(of_customers) {
            None => Batch::Customers(of, within(number, CUSTOMERS, customers)?),
            Some(number) => Batch::Orders(of, within(number, ORDERS, customers)?),
        })
    }

    /// A random generator that the seed and `number` determine.
    fn rng(&self, number: u64) -> Rng {
        Rng::with_seed(self.seed ^ number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl Workload for TpccLoad {
    type Source = TpccLoadSource;

    fn source(self: &Arc<Self>, _thread: usize, rng: Rng) -> TpccLoadSource {
        TpccLoadSource { load: Arc::clone(self), batch: None, rng, row: Vec::new() }
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.batches())
    }
}

/// The inserts of one thread.
#[derive(Debug)]
pub struct TpccLoadSource {
    load: Arc<TpccLoad>,
    batch: Option<(u64, Batch)>,
    rng: Rng,
    row: Vec<u8>,
}

impl Source for TpccLoadSource {
    fn plan(&mut self) -> Option<Planned> {
        let number = self.load.next.fetch_add(1, Ordering::Relaxed);
        (number < self.load.batches()).then(|| self.again(number))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        self.batch = self.load.batch(ticket).map(|batch| (ticket, batch));
        Planned { class: Class::Write, ticket: Some(ticket) }
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let Some((number, batch)) = self.batch.clone() else { return Ok(Ending::Commit) };
        self.rng = self.load.rng(number);
        match batch {
            Batch::Items(numbers) => {
                for number in numbers {
                    let item = self.item();
                    self.add(transaction, &keys::number(number), &item)?;
                }
            }
            Batch::Warehouse(number) => self.warehouse(transaction, number)?,
            Batch::Stock(warehouse, items) => {
                for item in items {
                    let stock = self.stock();
                    self.add(transaction, &keys::stock(warehouse, item), &stock)?;
                }
            }
            Batch::Customers(of, numbers) => {
                for number in numbers {
                    self.customer(transaction, of, number)?;
                }
            }
            Batch::Orders(of, numbers) => self.orders(transaction, of, numbers)?,
        }
        Ok(Ending::Commit)
    }
}

impl TpccLoadSource {
    fn add<R: Row, T: Transaction>(&mut self, transaction: &mut T, key: &[u8], row: &R) -> Result<()> {
        self.row.clear();
        row.write(&mut self.row);
        transaction.on(R::TABLE).insert(key, &self.row)
    }

    fn item(&mut self) -> Item {
        let rng = &mut self.rng;
        Item {
            image: rng.u32(1..=10_000),
            price: rng.u32(100..=10_000),
            name: random::text(rng, 14, 24),
            data: random::maybe_original(rng),
        }
    }

    fn stock(&mut self) -> Stock {
        let rng = &mut self.rng;
        Stock {
            quantity: rng.i32(10..=100),
            ytd: 0,
            orders: 0,
            remote_orders: 0,
            district_texts: DistrictTexts(std::array::from_fn(|_| random::letters(rng))),
            data: random::maybe_original(rng),
        }
    }

    fn warehouse<T: Transaction>(&mut self, transaction: &mut T, number: u32) -> Result<()> {
        let rng = &mut self.rng;
        let of_districts = 3_000_000;
        let warehouse = Warehouse {
            tax: rng.u16(0..=2000),
            ytd: of_districts * i64::from(DISTRICTS),
            name: random::text(rng, 6, 10),
            address: random::address(rng),
        };
        self.add(transaction, &keys::number(number), &warehouse)?;
        for district in 1..=DISTRICTS {
            let rng = &mut self.rng;
            let row = District {
                next_order: self.load.settings.customers_of_district + 1,
                tax: rng.u16(0..=2000),
                ytd: of_districts,
                name: random::text(rng, 6, 10),
                address: random::address(rng),
            };
            self.add(transaction, &keys::district(DistrictId { warehouse: number, district }), &row)?;
        }
        Ok(())
    }

    fn customer<T: Transaction>(&mut self, transaction: &mut T, of: DistrictId, number: u32) -> Result<()> {
        let (date, settings) = (self.load.date, self.load.settings);
        let rng = &mut self.rng;
        let customer = Customer {
            balance: -1_000,
            ytd_payment: 1_000,
            payments: 1,
            deliveries: 0,
            discount: rng.u16(0..=5000),
            credit: if rng.u32(..100) < 10 { *b"BC" } else { *b"GC" },
            credit_limit: 5_000_000,
            since: date,
            first: random::text(rng, 8, 16),
            middle: *b"OE",
            last: Text(random::loaded_last_name(rng, number)),
            address: random::address(rng),
            phone: random::digits(rng),
            data: random::text(rng, 300, 500),
        };
        let payment = History {
            customer_warehouse: of.warehouse,
            customer_district: of.district,
            customer: number,
            warehouse: of.warehouse,
            district: of.district,
            date,
            amount: 1_000,
            data: random::text(rng, 12, 24),
        };
        let by_name = keys::customer_by_name(of, &customer.last.0, &customer.first.0, number);
        let district = u64::from(of.warehouse - 1) * u64::from(DISTRICTS) + u64::from(of.district - 1);
        let numbered = first_number(LOADED, 0)
            + district * u64::from(settings.customers_of_district)
            + u64::from(number);
        self.add(transaction, &keys::of_district(of, number), &customer)?;
        self.add(transaction, &numbered.to_be_bytes(), &payment)?;
        transaction.on(CUSTOMER_BY_NAME).insert(&by_name, &[])
    }

    fn orders<T: Transaction>(
        &mut self,
        transaction: &mut T,
        of: DistrictId,
        numbers: Range<u32>,
    ) -> Result<()> {
        let Settings { customers_of_district, items, .. } = self.load.settings;
        let date = self.load.date;
        // Each customer has one order. The assignment is the same for all batches of the district.
        let mut customers: Vec<u32> = (1..=customers_of_district).collect();
        let district = u64::from(of.warehouse) * u64::from(DISTRICTS) + u64::from(of.district);
        self.load.rng(!district).shuffle(&mut customers);
        for number in numbers {
            let delivered = number < self.load.settings.first_undelivered();
            let customer = customers[number as usize - 1];
            let lines = self.rng.u8(5..=15);
            let carrier = if delivered { self.rng.u8(1..=10) } else { 0 };
            let order = Order { customer, entered: date, carrier, lines, all_local: 1 };
            self.add(transaction, &keys::of_district(of, number), &order)?;
            transaction.on(ORDER_BY_CUSTOMER).insert(&keys::order_by_customer(of, customer, number), &[])?;
            if !delivered {
                transaction.on(NEW_ORDER).insert(&keys::of_district(of, number), &[])?;
            }
            for line in 1..=lines {
                let rng = &mut self.rng;
                let row = OrderLine {
                    item: rng.u32(1..=items),
                    supply_warehouse: of.warehouse,
                    delivered: if delivered { date } else { 0 },
                    quantity: 5,
                    amount: if delivered { 0 } else { rng.i64(1..=999_999) },
                    district_text: random::letters(rng),
                };
                self.add(transaction, &keys::line(of, number, line), &row)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_batches_hold_everything_once() {
        let settings = Settings { warehouses: 3, items: 250, customers_of_district: 47 };
        let load = TpccLoad::new(&settings, 1);
        let mut rows = BTreeMap::<(usize, u32, u8), Vec<u32>>::new();
        for number in 0..load.batches() {
            let (place, numbers) = match load.batch(number).unwrap() {
                Batch::Items(numbers) => ((0, 0, 0), numbers),
                Batch::Warehouse(number) => ((1, 0, 0), number..number + 1),
                Batch::Stock(warehouse, numbers) => ((2, warehouse, 0), numbers),
                Batch::Customers(of, numbers) => ((3, of.warehouse, of.district), numbers),
                Batch::Orders(of, numbers) => ((4, of.warehouse, of.district), numbers),
            };
            rows.entry(place).or_default().extend(numbers);
        }
        assert_eq!(load.batch(load.batches()), None);
        assert_eq!(rows.len(), 1 + 1 + 3 + 2 * 30);
        for ((what, ..), numbers) in rows {
            let all = [250, 3, 250, 47, 47][what];
            assert_eq!(numbers, (1..=all).collect::<Vec<u32>>());
        }
        assert_eq!(settings.first_undelivered(), 33);
        assert_eq!(Settings::default().first_undelivered(), 2101);
    }
}
