//! Ranges of entries that are going to be changed: ranges for update, and ranges of entries that no
//! other transaction has locked.

use crate::common::{options_for, with_advanced};
use katydid::{ConflictKind, Database, EngineKind, Error, Options, Result, Table, Transaction};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

suite! {
    a_range_for_update_gives_what_a_range_gives,
    a_range_of_unlocked_entries_gives_all_where_none_is_locked,
    consumers_that_pop_take_each_entry_once,
    consumers_that_take_batches_take_each_entry_once,
    a_transaction_that_only_reads_is_refused,
}

const NO_WAIT: Duration = Duration::ZERO;

fn numbers(engine: EngineKind, lock_wait: Duration, count: u32) -> (Database, Table) {
    let options =
        with_advanced(Options { lock_wait, ..options_for(engine) }, |advanced| advanced.retries = u32::MAX);
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("numbers").unwrap();
    let all =
        |txn: &Transaction| (0..count).try_for_each(|n| txn.put(&table, n.to_be_bytes(), n.to_string()));
    database.transact(all).unwrap();
    (database, table)
}

fn number(row: Result<(Vec<u8>, Vec<u8>)>) -> u32 {
    u32::from_be_bytes(row.unwrap().0.try_into().unwrap())
}

fn a_range_for_update_gives_what_a_range_gives(engine: EngineKind) {
    let (database, table) = numbers(engine, NO_WAIT, 300);
    let txn = database.begin().unwrap();
    txn.put(&table, 1000u32.to_be_bytes(), "own").unwrap();
    txn.delete(&table, 7u32.to_be_bytes()).unwrap();
    for keys in [(0u32, 2000u32), (5, 9), (250, 260), (400, 500)] {
        let keys = || keys.0.to_be_bytes()..keys.1.to_be_bytes();
        let rows = |range: katydid::Range<'_>| range.collect::<Result<Vec<_>>>().unwrap();
        let read = rows(txn.range(&table, keys()));
        assert_eq!(rows(txn.range_for_update(&table, keys())), read);
        let mut backwards: Vec<_> = txn.range_for_update(&table, keys()).rev().map(Result::unwrap).collect();
        backwards.reverse();
        assert_eq!(backwards, read);
    }
    // The range changes while the loop walks it: each entry moves behind all others.
    for row in txn.range_for_update(&table, ..10u32.to_be_bytes()) {
        let (key, value) = row.unwrap();
        txn.delete(&table, &key).unwrap();
        txn.put(&table, [b"\xff", &*key].concat(), value).unwrap();
    }
    assert_eq!(txn.count(&table, ..10u32.to_be_bytes()).unwrap(), 0);
    assert_eq!(txn.count(&table, [0xff]..).unwrap(), 9);
}

fn a_range_of_unlocked_entries_gives_all_where_none_is_locked(engine: EngineKind) {
    let (database, table) = numbers(engine, NO_WAIT, 1000);
    let txn = database.begin().unwrap();
    let all: Vec<_> = txn.range_unlocked(&table, ..).map(number).collect();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    // While the range is read, its transaction changes entries that the range has not reached yet.
    // The range then finds the written entry, and does not find the deleted one.
    let mut range = txn.range_unlocked(&table, ..);
    assert_eq!(range.next().map(number), Some(0));
    txn.delete(&table, 1u32.to_be_bytes()).unwrap();
    txn.put(&table, [0, 0, 0, 2, 0], "between").unwrap();
    assert_eq!(range.next().map(number), Some(2));
    assert_eq!(range.next().unwrap().unwrap().1, b"between");
    assert_eq!(range.next().map(number), Some(3));
    assert_eq!(range.by_ref().count(), 996);
    assert!(range.next().is_none(), "it has ended");
}

/// Each consumer takes entries with `take`, in transactions of its own, until nothing is left.
fn consume(
    database: &Database,
    table: &Table,
    entries: u32,
    take: impl Fn(&Transaction) -> Result<Vec<u32>> + Sync,
) {
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let batch = database.transact(&take).unwrap();
                    if batch.is_empty() {
                        break;
                    }
                    taken.lock().unwrap().extend(batch);
                }
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.len(), entries as usize);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), (0..entries).collect());
    assert!(database.begin().unwrap().is_empty(table).unwrap());
    if let Some(paged) = database.stat().unwrap().paged() {
        assert_eq!(paged.deadlocks, 0, "they wait in line");
    }
}

fn consumers_that_pop_take_each_entry_once(engine: EngineKind) {
    let (database, table) = numbers(engine, Duration::from_secs(60), 300);
    consume(&database, &table, 300, |txn| {
        Ok(txn.pop_first(&table)?.map(|row| number(Ok(row))).into_iter().collect())
    });
}

fn consumers_that_take_batches_take_each_entry_once(engine: EngineKind) {
    let (database, table) = numbers(engine, Duration::from_secs(60), 400);
    consume(&database, &table, 400, |txn| {
        let batch: Vec<_> = txn.range_for_update(&table, ..).limit(10).collect::<Result<_>>()?;
        batch.iter().try_for_each(|(key, _)| txn.delete(&table, key).map(drop))?;
        Ok(batch.into_iter().map(|row| number(Ok(row))).collect())
    });
}

#[test]
fn what_is_read_for_update_is_not_changed_by_others() {
    let (database, table) = numbers(EngineKind::Paged, NO_WAIT, 10);
    let txn = database.begin().unwrap();
    assert_eq!(txn.range_for_update(&table, ..).limit(3).count(), 3);
    let other = std::thread::scope(|scope| {
        let refused = scope.spawn(|| database.put(&table, 1u32.to_be_bytes(), "other"));
        refused.join().expect("no panic").unwrap_err()
    });
    assert!(matches!(other, Error::Conflict { kind: ConflictKind::Timeout, .. }), "{other}");
    // Readers may read the range; a second reader for update waits before it has locked anything.
    let reader = database.begin().unwrap();
    assert_eq!(reader.range(&table, ..).limit(3).count(), 3);
    reader.rollback().unwrap();
    let second = database.begin().unwrap();
    assert!(second.range_for_update(&table, ..).limit(3).next().unwrap().is_err());
    second.rollback().unwrap();
    txn.put(&table, 0u32.to_be_bytes(), "changed").unwrap();
    txn.put(&table, [0, 0, 0, 0, 0], "in the range").unwrap();
    txn.commit().unwrap();
}

#[test]
fn locked_entries_are_passed_over_once() {
    const LOCKED: u32 = 3000;
    let (database, table) = numbers(EngineKind::Paged, NO_WAIT, LOCKED + 20);
    let holder = database.begin().unwrap();
    let held = holder.range_unlocked(&table, ..).take(LOCKED as usize).map(number).last();
    assert_eq!(held, Some(LOCKED - 1));
    let txn = database.begin().unwrap();
    let mut range = txn.range_unlocked(&table, ..);
    assert_eq!(range.next().map(number), Some(LOCKED));
    // The entries that the range has skipped become unlocked, but the range does not return to
    // them.
    holder.rollback().unwrap();
    for expected in LOCKED + 1..LOCKED + 20 {
        assert_eq!(range.next().map(number), Some(expected));
        txn.delete(&table, expected.to_be_bytes()).unwrap();
    }
    assert!(range.next().is_none());
    // A new range begins at its own lower bound, and so finds one of these entries.
    assert_eq!(txn.range_unlocked(&table, (LOCKED - 1).to_be_bytes()..).map(number).next(), Some(LOCKED - 1));
    assert_eq!(database.stat().unwrap().paged().unwrap().lock_waits, 0);
}

fn a_transaction_that_only_reads_is_refused(engine: EngineKind) {
    let (database, table) = numbers(engine, NO_WAIT, 2);
    let txn = database.begin_read_only().unwrap();
    assert!(matches!(txn.range_for_update(&table, ..).next(), Some(Err(Error::ReadOnly))));
    assert!(matches!(txn.range_unlocked(&table, ..).next(), Some(Err(Error::ReadOnly))));
    assert!(matches!(txn.pop_first(&table), Err(Error::ReadOnly)));
}
