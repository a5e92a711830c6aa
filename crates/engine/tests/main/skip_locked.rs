//! Queues with several consumers, over the first entry that no other transaction has locked.

use crate::common::{options_for, small_options};
use katydid::{
    Access, Database, Durability, EngineKind, Error, Read, Table, Transaction, TransactionOptions,
};
use katydid_device::{SimDevice, Survival};
use std::collections::BTreeSet;
use std::sync::Mutex;

suite! {
    each_entry_of_a_queue_is_consumed_once,
    a_transaction_meets_its_own_entries_and_no_deleted_one,
    a_transaction_that_only_reads_is_refused,
}

fn queue(engine: EngineKind, jobs: u32) -> (Database, Table) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("queue").unwrap();
    database
        .transact(|txn| (0..jobs).try_for_each(|job| txn.put(&table, job.to_be_bytes(), job.to_string())))
        .unwrap();
    (database, table)
}

fn first(txn: &Transaction, table: &Table) -> Option<u32> {
    let (key, value) = txn.first_unlocked(table, ..).unwrap()?;
    let job = u32::from_be_bytes(key.try_into().unwrap());
    assert_eq!(value, job.to_string().into_bytes());
    Some(job)
}

#[test]
fn what_others_hold_is_passed_over_without_a_wait() {
    let (database, table) = queue(EngineKind::Paged, 100);
    let holders: Vec<_> = (0..50)
        .map(|job: u32| {
            let txn = database.begin().unwrap();
            match job % 4 {
                0 => drop(txn.get_for_update(&table, job.to_be_bytes()).unwrap()),
                1 => drop(txn.delete(&table, job.to_be_bytes()).unwrap()),
                2 => txn.put(&table, job.to_be_bytes(), "changed").unwrap(),
                _ => assert_eq!(first(&txn, &table), Some(job)),
            }
            txn
        })
        .collect();
    let uncommitted = database.begin().unwrap();
    uncommitted.put(&table, [0], "uncommitted").unwrap();
    let txn = database.begin().unwrap();
    assert_eq!(first(&txn, &table), Some(50));
    assert_eq!(first(&txn, &table), Some(50), "its own");
    assert_eq!(txn.first_unlocked(&table, ..50_u32.to_be_bytes()).unwrap(), None);
    assert_eq!(database.stat().unwrap().paged().unwrap().lock_waits, 0);
    drop((holders, uncommitted));
    assert_eq!(first(&txn, &table), Some(0), "given back");
}

/// The commit that wrote the entry is lost unless the read waits for it. No key was removed, so the
/// read does not wait for a removal.
#[test]
fn an_entry_whose_commit_is_not_durable_is_waited_for() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), small_options()).unwrap();
    let table = database.table("queue").unwrap();
    database.put(&table, "job", "old").unwrap();
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let writer = database.begin_with(buffered).unwrap();
    writer.put(&table, "job", "new").unwrap();
    writer.commit().unwrap();
    let durable = TransactionOptions { read: Read::Durable, ..TransactionOptions::default() };
    let shown = database.begin_with(durable).unwrap().first_unlocked(&table, ..).unwrap();
    device.freeze();
    let device = device.reopen_with(1, Survival::DropAll);
    let database = Database::open_in(device.directory(), small_options()).unwrap();
    let table = database.open_table("queue").unwrap().unwrap();
    let job = database.get(&table, "job").unwrap();
    assert_eq!(shown.map(|(_, value)| value), job, "a durable read has shown what a crash took back");
}

fn each_entry_of_a_queue_is_consumed_once(engine: EngineKind) {
    const JOBS: u32 = 400;
    let (database, table) = queue(engine, JOBS);
    let done = Mutex::new(Vec::new());
    let consume = |consumer: u32| {
        for round in 0.. {
            let job = database.transact(|txn| {
                let Some(job) = first(txn, &table) else { return Ok(None) };
                txn.delete(&table, job.to_be_bytes())?;
                Ok(Some(job))
            });
            // Now and then a consumer gives its entry back.
            if round % 5 == consumer {
                let txn = database.begin().unwrap();
                if let Ok(Some((key, _))) = txn.first_unlocked(&table, ..) {
                    let _conflict_of_the_memory_engine = txn.delete(&table, key);
                }
                txn.rollback().unwrap();
            }
            match job.unwrap() {
                Some(job) => done.lock().unwrap().push(job),
                None if database.transact(|txn| txn.is_empty(&table)).unwrap() => break,
                // Other consumers hold the last entries, and may give them back.
                None => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for consumer in 0..4 {
            scope.spawn(move || consume(consumer));
        }
    });
    let done = done.into_inner().unwrap();
    assert_eq!(done.len(), JOBS as usize);
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), (0..JOBS).collect());
}

fn a_transaction_meets_its_own_entries_and_no_deleted_one(engine: EngineKind) {
    let (database, table) = queue(engine, 40);
    let txn = database.begin().unwrap();
    for job in 0..39 {
        assert_eq!(first(&txn, &table), Some(job));
        txn.delete(&table, job.to_be_bytes()).unwrap();
    }
    let savepoint = txn.savepoint();
    txn.delete(&table, 39_u32.to_be_bytes()).unwrap();
    assert_eq!(first(&txn, &table), None);
    txn.put(&table, 7_u32.to_be_bytes(), "7").unwrap();
    assert_eq!(first(&txn, &table), Some(7));
    txn.rollback_to(&savepoint).unwrap();
    assert_eq!(first(&txn, &table), Some(39));
}

fn a_transaction_that_only_reads_is_refused(engine: EngineKind) {
    let (database, table) = queue(engine, 1);
    let options = TransactionOptions { access: Access::ReadOnly, ..TransactionOptions::default() };
    let txn = database.begin_with(options).unwrap();
    assert!(matches!(txn.first_unlocked(&table, ..), Err(Error::ReadOnly)));
}
