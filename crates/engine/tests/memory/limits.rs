//! A call that meets a limit of the memory engine, or waits in vain, gets an error that says why. A
//! call that waits without a limit returns when the cause of the wait is gone.

use super::common::options_for;
use katydid::{ConflictKind, Database, EngineKind, Error, Options, TxnId};
use katydid_device::MemoryDirectory;
use std::sync::Arc;
use std::time::Duration;

/// Maximum that [`Database::begin`] documents.
const OPEN_MAX: usize = 4095;

fn open(lock_wait: Duration) -> Database {
    let options = Options { lock_wait, ..options_for(EngineKind::Memory) };
    Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap()
}

#[test]
fn one_transaction_too_many_is_an_error_that_names_the_limit_until_one_of_them_ends() {
    let database = open(Duration::from_millis(1));
    let mut open: Vec<_> = (0..OPEN_MAX).map(|_| database.begin().unwrap()).collect();
    for refused in [database.begin(), database.begin_read_only()] {
        let refused = refused.map(drop).unwrap_err();
        assert!(matches!(refused, Error::TooManyTransactions { limit: OPEN_MAX }), "{refused}");
        assert!(!refused.is_retryable(), "a retry would wait as long again, a hundred times");
        assert_eq!(refused.to_string(), "4095 transactions are open, and there cannot be more");
    }
    assert_eq!(database.stat().unwrap().conflicts, 0, "no transaction was in conflict with another one");
    drop(open.pop());
    database.begin_read_only().unwrap().commit().unwrap();
}

#[test]
fn who_waits_without_limit_for_a_place_gets_it_when_a_transaction_ends() {
    let database = open(Duration::MAX);
    let mut open: Vec<_> = (0..OPEN_MAX).map(|_| database.begin().unwrap()).collect();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| database.begin().map(|txn| drop(txn.commit())));
        drop(open.pop());
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_table_that_is_not_dropped_in_time_is_a_conflict_of_a_transaction_with_a_number() {
    let database = open(Duration::from_millis(1));
    let table = database.table("t").unwrap();
    let user = database.begin().unwrap();
    user.put(&table, "k", "v").unwrap();
    match std::thread::scope(|scope| scope.spawn(|| database.drop_table("t")).join().unwrap()) {
        Err(Error::Conflict { victim, kind: ConflictKind::Timeout, .. }) => {
            assert!(victim > user.id() && victim != TxnId::NONE, "{victim}");
        }
        other => panic!("{other:?}"),
    }
    user.commit().unwrap();
    assert!(database.drop_table("t").unwrap());
}

#[test]
fn what_was_rolled_back_to_a_savepoint_takes_no_memory() {
    let (database, table) = super::open(super::MIB);
    let txn = database.begin().unwrap();
    txn.put(&table, "kept", "first").unwrap();
    for round in 0..100_u8 {
        let savepoint = txn.savepoint();
        txn.put(&table, [round], [round; 50_000]).unwrap();
        txn.put(&table, [round], [round; 60_000]).unwrap();
        txn.put(&table, "kept", [round; 50_000]).unwrap();
        assert!(txn.delete(&table, "kept").unwrap());
        txn.rollback_to(&savepoint).unwrap();
    }
    txn.commit().unwrap();
    let (other, same) = super::open(super::MIB);
    other.put(&same, "kept", "first").unwrap();
    assert_eq!(super::used(&database), super::used(&other));
    assert_eq!(database.get(&table, "kept").unwrap().as_deref(), Some(&b"first"[..]));
}
