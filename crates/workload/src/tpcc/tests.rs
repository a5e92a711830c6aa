//! TPC-C on the store in memory.

use super::keys::DistrictId;
use super::new_order::NewOrder;
use super::payment::Payment;
use super::tables::*;
use super::terminal::Terminal;
use super::*;
use crate::drive::{Class, Outcome, Plan, Source, Workload, drive};
use crate::memory_store::MemoryStore;
use crate::row::Row;
use crate::store::StoreError;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SMALL: Settings = Settings { warehouses: 2, items: 120, customers_of_district: 31 };

fn run<W: Workload>(store: &MemoryStore, workload: &Arc<W>, plan: &Plan) -> Outcome {
    drive(store, &TABLES, workload, plan, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn state(store: &MemoryStore) -> State {
    // This store refuses some transactions by design, so a refused read is tried once more.
    let read = || State::read(store).map_err(|error| assert!(error.is_retryable(), "{error}"));
    read().or_else(|()| read()).unwrap()
}

fn loaded() -> MemoryStore {
    let store = MemoryStore::default();
    run(&store, &TpccLoad::new(&SMALL, 1), &Plan { threads: 2, in_flight: 3, ..Default::default() });
    store
}

fn rows(store: &MemoryStore, table: usize) -> u64 {
    let prefix = format!("{}/", TABLES[table]);
    let map = store.map.lock().unwrap();
    map.keys().filter(|key| key.starts_with(prefix.as_bytes())).count() as u64
}

#[test]
fn the_population_is_the_standards_and_the_same_for_a_seed() {
    let store = loaded();
    let of = |table| rows(&store, table);
    assert_eq!((of(WAREHOUSE), of(DISTRICT), of(ITEM), of(STOCK)), (2, 20, 120, 240));
    assert_eq!((of(CUSTOMER), of(CUSTOMER_BY_NAME), of(HISTORY)), (620, 620, 620));
    assert_eq!((of(ORDERS), of(ORDER_BY_CUSTOMER), of(NEW_ORDER)), (620, 620, 20 * 10));
    assert!((620 * 5..620 * 15).contains(&of(ORDER_LINE)));
    let state = state(&store);
    state.check(&SMALL).unwrap();
    assert_eq!(state.orders(), SMALL.orders());
    let again = MemoryStore { conflict_every: 5, refuse_every: 3, ..Default::default() };
    let load = TpccLoad::new(&SMALL, 1);
    let outcome = run(&again, &load, &Plan { in_flight: 10, ..Default::default() });
    assert_eq!(Some(outcome.transactions), load.transactions());
    // Compares keys and rows. In tables whose rows contain dates, which differ, it compares the
    // keys alone.
    for (table, name) in TABLES.iter().enumerate() {
        let of = |store: &MemoryStore| {
            let prefix = format!("{name}/");
            let map = store.map.lock().unwrap();
            let rows = map.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()));
            rows.map(|(key, row)| (key.clone(), row.clone())).collect::<Vec<_>>()
        };
        let dated = [ORDERS, ORDER_LINE, HISTORY, CUSTOMER].contains(&table);
        let (first, second) = (of(&store), of(&again));
        assert!(first.iter().map(|(key, _)| key).eq(second.iter().map(|(key, _)| key)), "{name}");
        assert!(dated || first == second, "{name}");
    }
}

#[test]
fn conditions_hold_with_every_plan_and_every_acknowledged_order_is_there() {
    for mix in [Mix::Standard, Mix::Pair] {
        for (threads, in_flight) in [(1, 1), (4, 1), (3, 20)] {
            let store = MemoryStore { conflict_every: 7, refuse_every: 11, ..loaded_without_conflicts() };
            let mut orders = SMALL.orders();
            for number in 0..2 {
                let plan = Plan { threads, in_flight, transactions: Some(1500), ..Default::default() };
                let tpcc = TpccRun::new(&SMALL, mix, number);
                let outcome = run(&store, &tpcc, &plan);
                assert!(outcome.conflicts > 0 && outcome.rolled_back > 0, "{outcome:?}");
                assert_eq!(outcome.transactions + outcome.rolled_back, 1500);
                let of = Kind::ALL.map(|kind| tpcc.acknowledged(kind));
                assert_eq!(of.iter().sum::<u64>(), outcome.transactions);
                assert_eq!(outcome.latencies.reads.len(), of[2] + of[4]);
                orders += of[0];
                let state = state(&store);
                state.check(&SMALL).unwrap();
                assert_eq!(state.orders(), orders, "{mix:?}, {threads} threads, {in_flight} in flight");
                assert_eq!(rows(&store, ORDERS), rows(&store, ORDER_BY_CUSTOMER));
            }
        }
    }
}

fn loaded_without_conflicts() -> MemoryStore {
    MemoryStore { map: loaded().map.into_inner().unwrap().into(), ..Default::default() }
}

/// Loads a database, applies `change`, and returns the condition that no longer holds.
fn damaged(change: impl FnOnce(&mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>)) -> Condition {
    let store = loaded();
    run(
        &store,
        &TpccRun::new(&SMALL, Mix::Standard, 0),
        &Plan { transactions: Some(300), ..Default::default() },
    );
    state(&store).check(&SMALL).unwrap();
    change(&mut store.map.lock().unwrap());
    state(&store).check(&SMALL).unwrap_err()
}

fn key(table: usize, key: &[u8]) -> Vec<u8> {
    [TABLES[table].as_bytes(), b"/", key].concat()
}

fn edit<R: Row>(
    map: &mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
    at: &[u8],
    edit: impl FnOnce(&mut R),
) {
    let bytes = map.get_mut(&key(R::TABLE, at)).unwrap();
    let mut row = R::read(bytes).unwrap();
    edit(&mut row);
    bytes.clear();
    row.write(bytes);
}

const SECOND: DistrictId = DistrictId { warehouse: 2, district: 3 };

#[test]
fn each_condition_notices_a_damage_and_names_the_place() {
    let lost_payment = damaged(|map| {
        edit(map, &keys::district(SECOND), |district: &mut rows::District| district.ytd -= 5);
    });
    assert!(
        matches!(lost_payment, Condition::Paid { warehouse: 2, paid, districts } if paid == districts + 5)
    );
    let lost_number = damaged(|map| {
        edit(map, &keys::district(SECOND), |district: &mut rows::District| district.next_order -= 1);
    });
    assert!(
        matches!(lost_number, Condition::NextOrder { warehouse: 2, district: 3, next, latest } if next == latest),
        "{lost_number}"
    );
    let first_of = |table| key(table, &keys::district(SECOND));
    let lost_new_order = damaged(|map| {
        let second = map.range(first_of(NEW_ORDER)..).nth(1).unwrap().0.clone();
        map.remove(&second);
    });
    assert!(
        matches!(lost_new_order, Condition::NewOrders { warehouse: 2, district: 3, found, span } if found + 1 == span),
        "{lost_new_order}"
    );
    let lost_line = damaged(|map| {
        let line = map.range(first_of(ORDER_LINE)..).next().unwrap().0.clone();
        map.remove(&line);
    });
    assert!(
        matches!(lost_line, Condition::Lines { warehouse: 2, district: 3, orders, found } if orders == found + 1),
        "{lost_line}"
    );
    let lost_district = damaged(|map| {
        map.retain(|key, _| {
            !["district", "orders", "new_order", "order_line"]
                .iter()
                .any(|table| key.starts_with(&[table.as_bytes(), b"/", &keys::district(SECOND)].concat()))
        });
    });
    assert_eq!(lost_district, Condition::Missing { what: "districts", found: 19, loaded: 20 });
    assert_eq!(lost_district.to_string(), "there are 19 districts, but 20 were loaded");
}

#[test]
fn a_row_that_is_cut_or_missing_ends_the_run_and_is_named() {
    let store = loaded();
    store.map.lock().unwrap().get_mut(&key(DISTRICT, &keys::district(SECOND))).unwrap().pop();
    let error = State::read(&store).unwrap_err().to_string();
    assert_eq!(error, "inconsistent: \\x00\\x00\\x00\\x02\\x03 of district is no row");
    store.map.lock().unwrap().remove(&key(WAREHOUSE, &keys::number(1)));
    let tpcc = TpccRun::new(&SMALL, Mix::Pair, 0);
    let plan = Plan { transactions: Some(10), ..Default::default() };
    let error = drive(&store, &TABLES, &tpcc, &plan, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("of warehouse is missing"), "{error}");
}

#[test]
fn requests_are_drawn_as_the_standard_says() {
    const DRAWS: u64 = 100_000;
    for (mix, expected) in [(Mix::Standard, [45, 43, 4, 4, 4]), (Mix::Pair, [50, 50, 0, 0, 0])] {
        let mut source = TpccRun::new(&SMALL, mix, 0).source(3, Rng::with_seed(5));
        let mut drawn = [0_u64; 5];
        for _ in 0..DRAWS {
            let planned = source.plan().unwrap();
            drawn[planned.ticket.unwrap() as usize] += 1;
            assert_eq!(planned.class == Class::Read, matches!(planned.ticket, Some(2 | 4)));
        }
        for (drawn, expected) in drawn.into_iter().zip(expected) {
            assert!(drawn.abs_diff(expected * DRAWS / 100) <= DRAWS / 200, "{drawn} of {DRAWS}, {mix:?}");
        }
    }
    for (warehouses, remote_lines, remote_payments) in [(1, 0.0, 0.0), (4, 0.01, 0.15)] {
        let settings = Settings { warehouses, ..SMALL };
        let mut terminal = Terminal { settings, warehouse: 1, rng: Rng::with_seed(9) };
        let (mut lines, mut remote, mut payments, mut unused) = (0.0, 0.0, 0.0, 0.0);
        for number in 0..DRAWS {
            let order = NewOrder::plan(&mut terminal);
            assert!((5..=15).contains(&order.lines().len()));
            for (item, supply) in order.lines() {
                lines += 1.0;
                remote += f64::from(supply != 1);
                unused += f64::from(item > settings.items);
            }
            payments += f64::from(Payment::plan(&mut terminal, number).is_remote());
        }
        let draws = DRAWS as f64;
        assert!((remote / lines - remote_lines).abs() < 0.001, "{remote} of {lines} lines are remote");
        assert!(
            (payments / draws - remote_payments).abs() < 0.005,
            "{payments} of {draws} payments are remote"
        );
        assert!((unused / draws - 0.01).abs() < 0.001, "{unused} of {draws} orders roll back");
    }
}

#[test]
fn a_condition_is_an_inconsistency_of_the_store() {
    let condition = Condition::Lines { warehouse: 1, district: 2, orders: 3, found: 4 };
    let error = StoreError::from(condition).to_string();
    assert_eq!(
        error,
        "inconsistent: condition 4: the orders of district 2 of warehouse 1 have 3 lines, but there are 4"
    );
}
