//! Promises of the public calls, error by error, with both engines. Promises of only one engine
//! have tests of their own (`paged.rs`).

use crate::common::{self, block_on, contents, key, options_for, with_advanced};
use katydid::{
    Access, CommitStamp, Database, Durability, EngineKind, Error, LockRelease, LogKind, Options, Persistence,
    Read, TransactionOptions,
};
use katydid_device::{Directory, MemoryDirectory, SimDevice, Survival};
use std::sync::Arc;
use std::time::Duration;

suite! {
    what_is_put_is_there_after_opening_again,
    dropping_a_transaction_and_rolling_back_leave_nothing,
    savepoints_undo_what_came_after_them,
    insert_refuses_a_key_that_is_there_and_goes_on,
    ranges_go_both_ways_and_meet,
    lengths_out_of_range_are_typed_errors,
    tables_come_and_go,
    a_second_opening_is_refused_until_the_first_is_closed,
    a_closed_database_says_so,
    an_unfinished_transaction_is_undone_by_the_next_opening,
    foreign_directories_are_refused_and_left_alone,
    options_out_of_range_are_named,
    transact_retries_conflicts_and_passes_other_errors_on,
    every_duration_may_be_the_longest_there_is,
    an_error_that_transact_hands_out_rests_on_nothing_that_a_crash_takes_back,
    every_way_to_commit_yields_the_same_order_of_lsns,
    durability_and_durable_reads,
    a_transaction_moves_between_threads,
    a_large_transaction_rolls_back,
    a_large_unfinished_transaction_is_undone_by_the_next_opening,
    a_transaction_begun_to_read_only_writes_nothing_and_goes_on,
    a_transaction_begun_to_read_only_sees_all_that_was_acknowledged,
    a_database_of_another_engine_is_refused_and_left_alone,
}

suite! {
    in_nvram:
    what_is_put_is_there_after_opening_again,
    dropping_a_transaction_and_rolling_back_leave_nothing,
    savepoints_undo_what_came_after_them,
    insert_refuses_a_key_that_is_there_and_goes_on,
    ranges_go_both_ways_and_meet,
    lengths_out_of_range_are_typed_errors,
    tables_come_and_go,
    a_second_opening_is_refused_until_the_first_is_closed,
    a_closed_database_says_so,
    an_unfinished_transaction_is_undone_by_the_next_opening,
    foreign_directories_are_refused_and_left_alone,
    options_out_of_range_are_named,
    transact_retries_conflicts_and_passes_other_errors_on,
    an_error_that_transact_hands_out_rests_on_nothing_that_a_crash_takes_back,
    every_way_to_commit_yields_the_same_order_of_lsns,
    durability_and_durable_reads,
    a_transaction_moves_between_threads,
    a_large_transaction_rolls_back,
    a_large_unfinished_transaction_is_undone_by_the_next_opening,
    a_transaction_begun_to_read_only_writes_nothing_and_goes_on,
    a_transaction_begun_to_read_only_sees_all_that_was_acknowledged,
    a_database_of_another_engine_is_refused_and_left_alone,
}

fn in_memory(engine: EngineKind) -> (Arc<dyn Directory>, Database) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options_for(engine)).expect("open");
    (directory, database)
}

/// Returns whether the log is durable up to the commit that returned `stamp`. The memory engine's
/// stamps say nothing about positions in the log, so with that engine everything must be durable.
fn is_durable(database: &Database, stamp: CommitStamp) -> bool {
    let stat = database.stat().unwrap();
    match stat.paged() {
        Some(_) => CommitStamp::of_commit_at(stat.log.streams[0].durable) >= stamp,
        None => stat.log.streams.iter().all(|stream| stream.durable >= stream.filled),
    }
}

type Row = (Vec<u8>, Vec<u8>);

fn what_is_put_is_there_after_opening_again(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    database.put(&table, "b", vec![7; 100_000]).unwrap();
    assert!(database.delete(&table, "a").unwrap());
    assert!(!database.delete(&table, "a").unwrap());
    drop(table);
    let _kept = common::closed(database);
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert_eq!(database.get(&table, "a").unwrap(), None);
    assert_eq!(database.get(&table, "b").unwrap(), Some(vec![7; 100_000]));
    common::assert_sound(&database.verify(None).unwrap());
}

fn dropping_a_transaction_and_rolling_back_leave_nothing(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, key(1), "before").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, key(1), "changed").unwrap();
    txn.put(&table, key(2), vec![1; 50_000]).unwrap();
    txn.delete(&table, key(1)).unwrap();
    drop(txn);
    let txn = database.begin().unwrap();
    txn.put(&table, key(3), "changed").unwrap();
    txn.rollback().unwrap();
    let all = contents(&database, &table);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(key(1), b"before".to_vec())]);
    common::assert_sound(&database.verify(None).unwrap());
}

fn savepoints_undo_what_came_after_them(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "a", "1").unwrap();
    let first = txn.savepoint();
    txn.put(&table, "a", "2").unwrap();
    let second = txn.savepoint();
    txn.put(&table, "b", "3").unwrap();
    txn.rollback_to(&second).unwrap();
    assert_eq!(txn.get(&table, "b").unwrap(), None);
    txn.put(&table, "c", "4").unwrap();
    txn.rollback_to(&first).unwrap();
    txn.rollback_to(&first).unwrap();
    assert!(matches!(txn.rollback_to(&second), Err(Error::Savepoint)));
    assert_eq!(txn.get(&table, "a").unwrap(), Some(b"1".to_vec()));
    txn.put(&table, "d", "5").unwrap();
    txn.commit().unwrap();
    let keys: Vec<_> = contents(&database, &table).into_keys().collect();
    assert_eq!(keys, [b"a", b"d"]);
    let other = database.begin().unwrap();
    assert!(matches!(other.rollback_to(&first), Err(Error::Savepoint)));
}

fn insert_refuses_a_key_that_is_there_and_goes_on(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.insert(&table, "a", "1").unwrap();
    assert!(matches!(txn.insert(&table, "a", "2"), Err(Error::KeyExists { .. })));
    assert!(matches!(txn.insert(&table, "a", vec![0; 100_000]), Err(Error::KeyExists { .. })));
    txn.put(&table, "b", "3").unwrap();
    txn.commit().unwrap();
    assert_eq!(contents(&database, &table).len(), 2);
}

fn ranges_go_both_ways_and_meet(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database
        .transact(|txn| {
            for number in 0..500 {
                txn.put(&table, key(number), number.to_string())?;
            }
            Ok(())
        })
        .unwrap();
    let txn = database.begin().unwrap();
    let keys = |rows: Vec<Result<Row, Error>>| -> Vec<Vec<u8>> {
        rows.into_iter().map(|row| row.unwrap().0).collect()
    };
    let expected: Vec<_> = (100..200).map(key).collect();
    assert_eq!(keys(txn.range(&table, key(100)..key(200)).collect()), expected);
    let mut back = keys(txn.range(&table, key(100)..=key(199)).rev().collect());
    back.reverse();
    assert_eq!(back, expected);
    let mut range = txn.range(&table, key(100)..key(200));
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for turn in 0.. {
        let row = if turn % 3 == 0 { range.next_back() } else { range.next() };
        let Some(row) = row else { break };
        if turn % 3 == 0 { back.push(row.unwrap().0) } else { front.push(row.unwrap().0) }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
    front.extend(back.into_iter().rev());
    assert_eq!(front, expected);
    let mut range = txn.range(&table, key(100)..).limit(300).limit(60);
    let mut ends = (100, 499);
    for turn in 0..60 {
        let (row, expected) =
            if turn % 3 == 0 { (range.next_back(), &mut ends.1) } else { (range.next(), &mut ends.0) };
        assert_eq!(row.unwrap().unwrap().0, key(*expected));
        if turn % 3 == 0 { *expected -= 1 } else { *expected += 1 }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
    assert_eq!(txn.range(&table, key(490)..).limit(60).count(), 10);
    assert_eq!(txn.range(&table, key(490)..).limit(0).count(), 0);
    assert_eq!(txn.range(&table, key(5)..key(5)).count(), 0);
    assert_eq!(txn.range(&table, key(6)..key(5)).count(), 0);
    assert_eq!(txn.range(&table, ..).count(), 500);
}

fn lengths_out_of_range_are_typed_errors(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let long = vec![b'k'; katydid::KEY_BYTES_MAX + 1];
    assert!(matches!(database.put(&table, &long, ""), Err(Error::KeyTooLong { length: 1025, .. })));
    assert!(matches!(database.get(&table, &long), Err(Error::KeyTooLong { .. })));
    let value = vec![0; katydid::VALUE_BYTES_MAX + 1];
    assert!(matches!(database.put(&table, "k", &value), Err(Error::ValueTooLong { .. })));
    database.put(&table, "", "the empty key is one").unwrap();
    assert!(database.get(&table, "").unwrap().is_some());
    assert!(matches!(database.table(""), Err(Error::TableName { length: 0 })));
    assert!(matches!(database.table(&"n".repeat(256)), Err(Error::TableName { length: 256 })));
}

fn tables_come_and_go(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    assert_eq!(database.tables().unwrap(), Vec::<String>::new());
    let b = database.table("b").unwrap();
    let a = database.table("a").unwrap();
    assert_eq!(database.tables().unwrap(), ["a", "b"]);
    for number in 0..300 {
        database.put(&b, key(number), vec![1; 500]).unwrap();
    }
    database.put(&b, "long", vec![1; 50_000]).unwrap();
    assert!(database.drop_table("b").unwrap());
    assert!(!database.drop_table("b").unwrap());
    assert!(matches!(database.put(&b, "k", "v"), Err(Error::TableDropped { .. })));
    assert!(database.open_table("b").unwrap().is_none());
    common::assert_sound(&database.verify(None).unwrap());
    let again = database.table("b").unwrap();
    assert!(again.id() > b.id() && b.id() < a.id() || again.id() > a.id());
    assert_eq!(contents(&database, &again).len(), 0);
    let _kept = common::closed(database);
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    assert_eq!(database.tables().unwrap(), ["a", "b"]);
    let other = in_memory(engine).1;
    assert!(matches!(other.put(&a, "k", "v"), Err(Error::ForeignTable { .. })));
}

fn a_second_opening_is_refused_until_the_first_is_closed(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_with(folder.path(), options_for(engine)).unwrap();
    match Database::open_with(folder.path(), options_for(engine)) {
        Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    let _kept = common::closed(database);
    Database::open_with(folder.path(), options_for(engine)).unwrap();
}

fn a_closed_database_says_so(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "a", "1").unwrap();
    database.close().unwrap();
    database.close().unwrap();
    assert!(matches!(database.begin(), Err(Error::Closed)));
    assert!(matches!(txn.get(&table, "a"), Err(Error::Closed)));
    assert!(txn.commit().is_err());
    assert!(matches!(database.stat(), Err(Error::Closed)));
    assert!(matches!(database.checkpoint(), Err(Error::Closed)));
}

fn an_unfinished_transaction_is_undone_by_the_next_opening(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "a", "2").unwrap();
    txn.put(&table, "b", vec![1; 30_000]).unwrap();
    let _kept = common::closed(database);
    drop(txn);
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let all: Vec<_> = contents(&database, &table).into_iter().collect();
    assert_eq!(all, [(b"a".to_vec(), b"1".to_vec())]);
    common::assert_sound(&database.verify(None).unwrap());
}

fn foreign_directories_are_refused_and_left_alone(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    match Database::open_with(folder.path(), options_for(engine)) {
        Err(Error::Foreign { what: katydid::Foreign::File(name), .. }) => assert_eq!(name, "notes.txt"),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left there");
    let none = tempfile::tempdir().unwrap();
    let options = Options { create: false, ..options_for(engine) };
    assert!(matches!(Database::open_with(none.path(), options.clone()), Err(Error::NotFound { .. })));
    let missing = none.path().join("missing");
    assert!(matches!(Database::open_with(missing, options), Err(Error::NotFound { .. })));
    assert!(matches!(Database::verify_path(none.path(), None), Err(Error::NotFound { .. })));
}

fn options_out_of_range_are_named(engine: EngineKind) {
    let bad = |change: fn(&mut Options)| {
        let mut options = options_for(engine);
        change(&mut options);
        match Database::open_in(Arc::new(MemoryDirectory::new()), options) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad(|o| o.advanced.checkpoint_bytes = 1), "checkpoint_bytes");
    assert_eq!(bad(|o| o.advanced.log_soft_bytes = 1), "log_soft_bytes");
    assert_eq!(bad(|o| o.advanced.log_hard_bytes = 1), "log_hard_bytes");
    assert_eq!(
        bad(|o| o.advanced.log.medium = katydid::FileOptions { ring_bytes: 1, ..Default::default() }.into()),
        "ring_bytes"
    );
}

fn transact_retries_conflicts_and_passes_other_errors_on(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, "n", 0u64.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    database
                        .transact(|txn| {
                            let found = txn.get(&table, "n")?.unwrap();
                            let number = u64::from_le_bytes(found.try_into().unwrap());
                            txn.put(&table, "n", (number + 1).to_le_bytes())
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(database.get(&table, "n").unwrap(), Some(200u64.to_le_bytes().to_vec()));
    let refused = database.transact(|txn| {
        txn.put(&table, "n", "gone")?;
        txn.insert(&table, "n", "x")
    });
    assert!(matches!(refused, Err(Error::KeyExists { .. })));
    assert_eq!(database.get(&table, "n").unwrap(), Some(200u64.to_le_bytes().to_vec()));
}

fn every_duration_may_be_the_longest_there_is(engine: EngineKind) {
    // These are all options with a duration. A new one has to be added here.
    let mut options = Options { lock_wait: Duration::MAX, ..options_for(engine) };
    options.advanced.log.stall_after = Duration::MAX;
    options.advanced.slow_transaction = Duration::MAX;
    options.validate().unwrap();
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    for round in 0..2u64 {
        let database = Database::open_in(directory.clone(), options.clone()).unwrap();
        let table = database.table("t").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    for number in 0..50 {
                        // All threads want the same keys, so that some wait.
                        let put = database.transact(|txn| {
                            txn.get_for_update(table, key(number % 3))?;
                            txn.put(table, key(number % 3), key(thread))?;
                            txn.put(table, key(100 + thread), key(number))
                        });
                        assert!(put.is_ok() || put.is_err_and(|error| error.is_retryable()));
                    }
                });
            }
        });
        assert_eq!(database.get(&table, key(103)).unwrap(), Some(key(49)));
        let user = database.begin().unwrap();
        user.put(&table, "user", [round as u8]).unwrap();
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| database.drop_table("t"));
            user.commit().unwrap();
            assert!(dropper.join().unwrap().unwrap());
        });
        let reader = database.begin_read_only().unwrap();
        reader.commit().unwrap();
        database.checkpoint().unwrap();
        drop(table);
        database.close().unwrap();
    }
    // A thread waits out the latency at each persist, so the latency has a limit, which the error
    // names.
    let log = LogKind::ALL.into_iter().find(|kind| kind.in_nvram()).unwrap();
    let mut options = common::with_log(options, log);
    options.advanced.log.medium.memory_mut().unwrap().want = Persistence::Emulated { latency: Duration::MAX };
    let refused = options.validate().unwrap_err();
    assert!(matches!(refused, Error::Option { option: "nvram.want", .. }), "{refused}");
}

fn an_error_that_transact_hands_out_rests_on_nothing_that_a_crash_takes_back(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let writer = database.begin_with(buffered).unwrap();
    writer.put(&table, "k", "not durable yet").unwrap();
    writer.commit().unwrap();
    let outcome = database.transact(|txn| {
        txn.put(&table, "other", "rolled back")?;
        txn.insert(&table, "k", "mine")
    });
    assert!(matches!(outcome, Err(Error::KeyExists { .. })), "{outcome:?}");
    let device = device.reopen_with(1, Survival::DropAll);
    drop((table, database));
    let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert!(database.get(&table, "k").unwrap().is_some(), "it was said to exist");
    assert_eq!(database.get(&table, "other").unwrap(), None);
}

fn every_way_to_commit_yields_the_same_order_of_lsns(engine: EngineKind) {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let options = with_advanced(options_for(engine), |advanced| advanced.lock_release = lock_release);
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
        let table = database.table("t").unwrap();
        let number = std::cell::Cell::new(0);
        let write = || {
            let txn = database.begin().unwrap();
            number.set(number.get() + 1);
            // The value changes each time, because putting the present value would write nothing.
            txn.put(&table, "a", number.get().to_string()).unwrap();
            txn
        };
        let first = write().commit().unwrap();
        let second = block_on(write().commit_async()).unwrap();
        drop(write().commit_async());
        let session = database.session();
        let (sender, receiver) = std::sync::mpsc::channel();
        write().commit_with(&session, move |result| sender.send(result.unwrap()).unwrap());
        session.drain().unwrap();
        let third = receiver.recv().unwrap();
        assert!(first < second && second < third);
        // A commit whose callback is never polled must not keep its locks.
        write().commit_with(&session, |_| ());
        let fourth = write().commit().unwrap();
        assert!(third < fourth);
        assert_eq!(session.pending(), 1);
        assert_eq!(session.poll(), 1);
    }
}

fn durability_and_durable_reads(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    for durability in [Durability::Buffered, Durability::Written, Durability::Durable] {
        let txn = database
            .begin_with(TransactionOptions { durability, read: Read::Durable, ..Default::default() })
            .unwrap();
        txn.put(&table, "a", "1").unwrap();
        let stamp = txn.commit().unwrap();
        if durability == Durability::Durable {
            assert!(is_durable(&database, stamp));
        }
        let reader =
            database.begin_with(TransactionOptions { read: Read::Durable, ..Default::default() }).unwrap();
        reader.get(&table, "a").unwrap();
        assert!(is_durable(&database, stamp));
    }
}

fn a_transaction_moves_between_threads(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "a", "1").unwrap();
    let other = table.clone();
    let txn = std::thread::spawn(move || {
        txn.put(&other, "b", "2").unwrap();
        txn
    })
    .join()
    .unwrap();
    txn.commit().unwrap();
    assert_eq!(contents(&database, &table).len(), 2);
}

fn a_large_transaction_rolls_back(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    for number in 0..200 {
        database.put(&table, key(number), "old").unwrap();
    }
    let txn = database.begin().unwrap();
    for number in 0..3000 {
        txn.put(&table, key(number), vec![b'x'; 100]).unwrap();
    }
    txn.rollback().unwrap();
    assert_eq!(contents(&database, &table).len(), 200);
    common::assert_sound(&database.verify(None).unwrap());
    drop((table, database));
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert!(contents(&database, &table).values().all(|value| value == b"old"));
}

fn a_large_unfinished_transaction_is_undone_by_the_next_opening(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    for number in 0..500 {
        database.put(&table, key(number), "old").unwrap();
    }
    let txn = database.begin().unwrap();
    for number in 0..6000 {
        txn.put(&table, key(number * 7 % 6000), vec![b'x'; 100]).unwrap();
        if number % 100 == 0 {
            database.put(&table, format!("between-{number}"), "kept").unwrap();
        }
        if number == 3000 {
            database.checkpoint().unwrap();
        }
    }
    database.close().unwrap();
    drop((txn, table, database));
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let rows = contents(&database, &table);
    assert_eq!(rows.len(), 560);
    assert!(rows.values().all(|value| value == b"old" || value == b"kept"));
    common::assert_sound(&database.verify(None).unwrap());
}

fn a_transaction_begun_to_read_only_writes_nothing_and_goes_on(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    let reading = TransactionOptions { access: Access::ReadOnly, ..Default::default() };
    let txn = database.begin_with(reading).unwrap();
    assert!(matches!(txn.put(&table, "a", "2"), Err(Error::ReadOnly)));
    assert!(matches!(txn.put_all(&table, [("a", "2")]), Err(Error::ReadOnly)));
    assert!(matches!(txn.insert(&table, "b", "2"), Err(Error::ReadOnly)));
    assert!(matches!(txn.delete(&table, "a"), Err(Error::ReadOnly)));
    assert!(matches!(txn.get_for_update(&table, "a"), Err(Error::ReadOnly)));
    assert!(matches!(txn.update(&table, "a", |_| panic!("no value")), Err(Error::ReadOnly)));
    assert!(matches!(txn.compare_and_swap(&table, "a", None, None), Err(Error::ReadOnly)));
    assert!(matches!(txn.pop_first(&table), Err(Error::ReadOnly)));
    assert!(matches!(txn.delete_range(&table, "x".."y"), Err(Error::ReadOnly)));
    assert!(matches!(txn.clear(&table), Err(Error::ReadOnly)));
    assert!(txn.contains(&table, "a").unwrap());
    assert_eq!(txn.get(&table, "a").unwrap(), Some(b"1".to_vec()));
    let savepoint = txn.savepoint();
    assert_eq!(txn.range(&table, ..).count(), 1);
    txn.rollback_to(&savepoint).unwrap();
    txn.commit().unwrap();
    let rows: Vec<_> = contents(&database, &table).into_iter().collect();
    assert_eq!(rows, [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(database.stat().unwrap().rollbacks, 0);
}

fn a_transaction_begun_to_read_only_sees_all_that_was_acknowledged(engine: EngineKind) {
    let (_, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    let reading = TransactionOptions { access: Access::ReadOnly, ..Default::default() };
    let session = database.session();
    for number in 0..20u32 {
        database.put(&table, "n", number.to_string()).unwrap();
        let txn = database.begin_with(reading).unwrap();
        assert_eq!(txn.get(&table, "n").unwrap(), Some(number.to_string().into_bytes()));
        match number % 3 {
            0 => drop(txn.commit().unwrap()),
            1 => drop(block_on(txn.commit_async()).unwrap()),
            _ => txn.commit_with(&session, |result| assert!(result.is_ok())),
        }
    }
    session.drain().unwrap();
}

fn a_database_of_another_engine_is_refused_and_left_alone(engine: EngineKind) {
    let (directory, database) = in_memory(engine);
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    drop(table);
    database.close().unwrap();
    drop(database);
    let before = common::files(directory.as_ref());
    let other = match engine {
        EngineKind::Paged => EngineKind::Memory,
        _ => EngineKind::Paged,
    };
    for create in [true, false] {
        match Database::open_in(directory.clone(), Options { create, ..options_for(other) }) {
            Err(Error::OtherEngine { found, wanted, .. }) => assert_eq!((found, wanted), (engine, other)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(common::files(directory.as_ref()), before);
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert_eq!(database.get(&table, "a").unwrap(), Some(b"1".to_vec()));
}

/// A program that depends on this crate alone can name the types that the interface takes and
/// returns: directories, a group, the causes of failures.
#[test]
fn an_application_needs_no_other_crate_to_name_what_it_is_given() {
    let mut options = options_for(EngineKind::Paged);
    let group = katydid::Group { commits: 2, ..katydid::Group::default() };
    let sync = katydid::SyncDesign::pipelined(group);
    options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions { sync, ..files });
    let memory: Arc<dyn katydid::Directory> = Arc::new(katydid::MemoryDirectory::new());
    let set = katydid::StripedDirectory::open(vec![memory], katydid::StripedDirectory::UNIT_BYTES);
    let database = Database::open_in(Arc::new(set.expect("one directory")), options).expect("open");
    database.close().expect("close");

    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = Database::open(file.path()).expect_err("it is a file");
    assert!(
        matches!(
            error,
            Error::Device(katydid::DeviceError {
                verb: katydid::Verb::Open,
                cause: katydid::Cause::AlreadyExists | katydid::Cause::Io(_),
                ..
            })
        ),
        "{error:?}"
    );
}
