//! Threads that wait in vain: for a lock that is not released in time, and for themselves.

use crate::common::{self, options_for, with_advanced};
use katydid::{ConflictKind, Database, EngineKind, Error, Options, Table, TransactionOptions};
use std::sync::mpsc;
use std::time::Duration;

suite! {
    a_time_out_is_not_run_again,
    a_conflict_that_the_transaction_did_not_meet_is_passed_on,
    a_call_of_the_database_inside_a_body_is_refused,
    a_body_that_panics_leaves_the_thread_free,
    a_body_may_use_other_databases_and_other_threads,
    a_table_that_the_threads_own_transaction_uses_is_not_dropped,
}

/// A wait this long is a hang: the test does not end.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

fn open(engine: EngineKind, lock_wait: Duration) -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().expect("folder");
    let options = Options { lock_wait, ..options_for(engine) };
    let database = Database::open_with(folder.path(), options).expect("open");
    let table = database.table("t").expect("table");
    database.put(&table, "k", "0").expect("put");
    (folder, database, table)
}

fn a_time_out_is_not_run_again(engine: EngineKind) {
    let (_folder, database, _table) = open(engine, FOR_EVER);
    let mut runs = 0;
    let outcome: Result<(), _> = database.transact(|txn| {
        runs += 1;
        Err(Error::Conflict { victim: txn.id(), holder: None, kind: ConflictKind::Timeout, contested: None })
    });
    let error = outcome.expect_err("the body failed");
    assert!(matches!(error, Error::Conflict { kind: ConflictKind::Timeout, .. }), "{error}");
    assert_eq!(runs, 1);
    // The outcome is the same if the body goes on for a while with a transaction that can only roll
    // back.
    let mut runs = 0;
    let outcome: Result<(), _> = database.transact(|txn| {
        runs += 1;
        let cause =
            Error::Conflict { victim: txn.id(), holder: None, kind: ConflictKind::Timeout, contested: None };
        Err(Error::MustRollBack { cause: cause.into() })
    });
    assert!(outcome.is_err());
    assert_eq!(runs, 1);
}

/// The body runs again after a conflict that the transaction itself met (`transact.rs`), not after
/// an error that looks like one.
fn a_conflict_that_the_transaction_did_not_meet_is_passed_on(engine: EngineKind) {
    let (_folder, database, _table) = open(engine, FOR_EVER);
    for kind in [ConflictKind::Deadlock, ConflictKind::Changed, ConflictKind::Overtaken] {
        let mut runs = 0;
        let outcome: Result<(), _> = database.transact(|txn| {
            runs += 1;
            Err(Error::Conflict { victim: txn.id(), holder: None, kind, contested: None })
        });
        let error = outcome.expect_err("the body failed");
        assert!(matches!(error, Error::Conflict { kind: found, .. } if found == kind), "{error}");
        assert_eq!(runs, 1);
    }
}

/// Runs `work` while another thread holds the lock of `key`.
fn while_another_thread_holds(
    database: &Database,
    table: &Table,
    key: &str,
    work: impl FnOnce(katydid::TxnId),
) {
    std::thread::scope(|scope| {
        let (holding, holds) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let txn = database.begin().expect("begin");
            txn.put(table, key, "held").expect("put");
            holding.send(txn.id()).expect("the test is there");
            let _sender_gone = is_done.recv();
        });
        let holder = holds.recv().expect("the holder is there");
        work(holder);
        drop(done);
    });
}

#[test]
fn a_lock_that_is_not_given_up_is_waited_for_once_and_its_holder_named() {
    let (_folder, database, table) = open(EngineKind::Paged, Duration::from_millis(1));
    while_another_thread_holds(&database, &table, "k", |holder| {
        let mut runs = 0;
        let error = database
            .transact(|txn| {
                runs += 1;
                txn.get(&table, "k")
            })
            .expect_err("it is locked");
        assert_eq!(runs, 1);
        let Error::Conflict { holder: found, kind: ConflictKind::Timeout, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(found, Some(holder));
        assert!(error.to_string().contains(&holder.to_string()), "{error}");
        assert!(error.is_retryable(), "the caller may have more time");
        let waited = database.stat().expect("stat");
        let Some(paged) = waited.paged() else { panic!("a paged database") };
        assert_eq!(paged.lock_waits, 1);
    });
}

fn a_call_of_the_database_inside_a_body_is_refused(engine: EngineKind) {
    let (_folder, database, table) = open(engine, FOR_EVER);
    let check = |outer: katydid::TxnId, outcome: Result<(), Error>| match outcome {
        Err(Error::Nested { outer: found }) => assert_eq!(found, outer),
        other => panic!("{other:?}"),
    };
    let read = database.transact(|txn| {
        txn.put(&table, "k", "1")?;
        let outer = txn.id();
        check(outer, database.get(&table, "k").map(drop));
        check(outer, database.put(&table, "k", "2"));
        check(outer, database.delete(&table, "other").map(drop));
        check(outer, database.clone().transact(|_| Ok(())));
        // The transaction itself is as it was.
        txn.get(&table, "k")
    });
    assert_eq!(read.expect("commit").as_deref(), Some(&b"1"[..]));
    assert_eq!(database.get(&table, "k").expect("after it").as_deref(), Some(&b"1"[..]));
    // The error is not taken for a conflict.
    let mut runs = 0;
    let error = database.transact(|_| {
        runs += 1;
        database.get(&table, "k")
    });
    assert!(matches!(error, Err(Error::Nested { .. })), "{error:?}");
    assert_eq!(runs, 1);
}

fn a_body_that_panics_leaves_the_thread_free(engine: EngineKind) {
    let (_folder, database, table) = open(engine, FOR_EVER);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        database.transact(|_| -> Result<(), Error> { panic!("the body's own") })
    }));
    assert!(panicked.is_err());
    database.put(&table, "k", "after").expect("not nested");
}

fn a_body_may_use_other_databases_and_other_threads(engine: EngineKind) {
    let (_folder, database, table) = open(engine, FOR_EVER);
    let (_other_folder, other, other_table) = open(engine, FOR_EVER);
    let done = database.transact(|txn| {
        txn.put(&table, "k", "1")?;
        other.put(&other_table, "k", "1")?;
        // The body uses another transaction than its own, on purpose.
        let own = database.begin()?;
        own.put(&table, "elsewhere", "1")?;
        own.commit()?;
        std::thread::scope(|scope| {
            scope.spawn(|| database.put(&table, "thread", "1")).join().expect("no panic")
        })
    });
    done.expect("commit");
    assert!(database.get(&table, "thread").expect("get").is_some());
}

/// Asserts that `outcome` is the error that names `holder`.
fn assert_own<T>(outcome: Result<T, Error>, holder: katydid::TxnId) {
    match outcome {
        Err(error @ Error::WaitsForItself { holder: found, .. }) => {
            assert_eq!(found, holder);
            assert!(!error.is_retryable(), "running it again does not help");
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("granted"),
    }
}

fn a_table_that_the_threads_own_transaction_uses_is_not_dropped(engine: EngineKind) {
    let (_folder, database, table) = open(engine, FOR_EVER);
    let own = database.begin().expect("begin");
    own.get(&table, "k").expect("get");
    assert_own(database.drop_table("t"), own.id());
    // The transaction goes on as before.
    own.put(&table, "k", "1").expect("put");
    own.commit().expect("commit");
    assert!(database.drop_table("t").expect("drop"));
}

#[test]
fn a_wait_for_the_threads_own_transaction_is_refused() {
    let (_folder, database, table) = open(EngineKind::Paged, FOR_EVER);
    let own = database.begin().expect("begin");
    own.put(&table, "k", "1").expect("put");
    let id = own.id();
    assert_own(database.get(&table, "k"), id);
    assert_own(database.put(&table, "k", "2"), id);
    assert_own(database.verify(None), id);
    assert_own(database.drop_table("t"), id);
    // The error also comes in a transaction of the caller, which can then only roll back.
    let other = database.begin().expect("begin");
    assert_own(other.get(&table, "k"), id);
    assert!(matches!(other.get(&table, "k"), Err(Error::MustRollBack { .. })));
    other.rollback().expect("rollback");
    own.commit().expect("commit");
    database.put(&table, "k", "3").expect("the lock is free");
    assert!(database.verify(None).expect("verify").is_sound());

    // This transaction has written nothing and has read a range.
    let reader = database.begin().expect("begin");
    assert_eq!(reader.range(&table, "a".."z").count(), 1);
    assert_own(database.put(&table, "new", "1"), reader.id());
    assert_own(database.verify(None), reader.id());
    reader.commit().expect("commit");
    // A transaction that was begun to read only makes no other transaction wait.
    let view = database.begin_read_only().expect("begin");
    assert_eq!(view.range(&table, "a".."z").count(), 1);
    database.put(&table, "new", "1").expect("put");
    assert!(database.verify(None).expect("verify").is_sound());
    assert!(database.drop_table("t").expect("drop"));
    view.commit().expect("commit");
}

#[test]
fn a_wait_for_another_thread_that_waits_for_this_one_is_refused() {
    let (_folder, database, table) = open(EngineKind::Paged, FOR_EVER);
    let own = database.begin().expect("begin");
    own.put(&table, "mine", "1").expect("put");
    std::thread::scope(|scope| {
        let (holding, holds) = mpsc::channel();
        let (database, table) = (&database, &table);
        let other = scope.spawn(move || {
            let txn = database.begin()?;
            txn.put(table, "theirs", "1")?;
            holding.send(()).expect("the test is there");
            txn.put(table, "mine", "1")?;
            txn.commit()
        });
        holds.recv().expect("the other thread is there");
        assert_own(database.put(table, "theirs", "2"), own.id());
        own.commit().expect("commit");
        other.join().expect("no panic").expect("it waited for nothing else");
    });
}

#[test]
fn a_commit_that_is_not_durable_yet_is_waited_for() {
    // The database releases the commit's locks when the commit is durable, so the thread does not
    // wait for itself.
    let folder = tempfile::tempdir().expect("folder");
    let options =
        with_advanced(Options { lock_wait: FOR_EVER, ..options_for(EngineKind::Paged) }, |advanced| {
            advanced.lock_release = katydid::LockRelease::AfterDurable
        });
    let database = Database::open_with(folder.path(), options).expect("open");
    let table = database.table("t").expect("table");
    for number in 0..20 {
        let txn = database.begin_with(TransactionOptions::default()).expect("begin");
        txn.put(&table, "k", number.to_string()).expect("put");
        let commit = txn.commit_async();
        database.put(&table, "k", "after").expect("waits for the other's sync");
        common::block_on(commit).expect("durable");
    }
}
