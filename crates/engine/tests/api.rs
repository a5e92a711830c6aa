//! What the public calls promise, error by error.

mod common;

use common::{block_on, contents, key, small_options};
use katydid::{Database, Durability, Error, LockRelease, Options, Read, TransactionOptions};
use katydid_device::{Directory, MemoryDirectory};
use std::sync::Arc;
use std::time::Duration;

fn memory() -> (Arc<dyn Directory>, Database) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), small_options()).expect("open");
    (directory, database)
}

type Row = (Vec<u8>, Vec<u8>);

#[test]
fn what_is_put_is_there_after_opening_again() {
    let (directory, database) = memory();
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    database.put(&table, "b", vec![7; 100_000]).unwrap();
    assert!(database.delete(&table, "a").unwrap());
    assert!(!database.delete(&table, "a").unwrap());
    drop(table);
    database.close().unwrap();
    let database = Database::open_in(directory, small_options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert_eq!(database.get(&table, "a").unwrap(), None);
    assert_eq!(database.get(&table, "b").unwrap(), Some(vec![7; 100_000]));
    common::assert_sound(&database.verify(None).unwrap());
}

#[test]
fn dropping_a_transaction_and_rolling_back_leave_nothing() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    database.put(&table, key(1), "before").unwrap();
    let mut txn = database.begin().unwrap();
    txn.put(&table, key(1), "changed").unwrap();
    txn.put(&table, key(2), vec![1; 50_000]).unwrap();
    txn.delete(&table, key(1)).unwrap();
    drop(txn);
    let mut txn = database.begin().unwrap();
    txn.put(&table, key(3), "changed").unwrap();
    txn.rollback().unwrap();
    let all = contents(&database, &table);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(key(1), b"before".to_vec())]);
    common::assert_sound(&database.verify(None).unwrap());
}

#[test]
fn savepoints_undo_what_came_after_them() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
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
    let mut other = database.begin().unwrap();
    assert!(matches!(other.rollback_to(&first), Err(Error::Savepoint)));
}

#[test]
fn insert_refuses_a_key_that_is_there_and_goes_on() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
    txn.insert(&table, "a", "1").unwrap();
    assert!(matches!(txn.insert(&table, "a", "2"), Err(Error::KeyExists)));
    assert!(matches!(txn.insert(&table, "a", vec![0; 100_000]), Err(Error::KeyExists)));
    txn.put(&table, "b", "3").unwrap();
    txn.commit().unwrap();
    assert_eq!(contents(&database, &table).len(), 2);
}

#[test]
fn ranges_go_both_ways_and_meet() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    database
        .transact(|txn| {
            for number in 0..500 {
                txn.put(&table, key(number), number.to_string())?;
            }
            Ok(())
        })
        .unwrap();
    let mut txn = database.begin().unwrap();
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
    assert_eq!(txn.range(&table, key(5)..key(5)).count(), 0);
    assert_eq!(txn.range(&table, key(6)..key(5)).count(), 0);
    assert_eq!(txn.range::<&[u8]>(&table, ..).count(), 500);
}

#[test]
fn lengths_out_of_range_are_typed_errors() {
    let (_, database) = memory();
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

#[test]
fn tables_come_and_go() {
    let (directory, database) = memory();
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
    database.close().unwrap();
    let database = Database::open_in(directory, small_options()).unwrap();
    assert_eq!(database.tables().unwrap(), ["a", "b"]);
    let other = memory().1;
    assert!(matches!(other.put(&a, "k", "v"), Err(Error::ForeignTable { .. })));
}

#[test]
fn a_drop_waits_for_the_tables_users() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options = Options { lock_wait: Duration::from_millis(20), ..small_options() };
    let database = Database::open_in(directory, options).unwrap();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
    txn.put(&table, "a", "1").unwrap();
    assert!(matches!(database.drop_table("t"), Err(Error::Conflict { .. })));
    txn.commit().unwrap();
    assert!(database.drop_table("t").unwrap());
}

#[test]
fn a_second_opening_is_refused_until_the_first_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_with(folder.path(), small_options()).unwrap();
    match Database::open_with(folder.path(), small_options()) {
        Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    database.close().unwrap();
    Database::open_with(folder.path(), small_options()).unwrap();
}

#[test]
fn a_closed_database_says_so() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
    txn.put(&table, "a", "1").unwrap();
    database.close().unwrap();
    database.close().unwrap();
    assert!(matches!(database.begin(), Err(Error::Closed)));
    assert!(matches!(txn.get(&table, "a"), Err(Error::Closed)));
    assert!(txn.commit().is_err());
    assert!(matches!(database.stat(), Err(Error::Closed)));
    assert!(matches!(database.checkpoint(), Err(Error::Closed)));
}

#[test]
fn an_unfinished_transaction_is_undone_by_the_next_opening() {
    let (directory, database) = memory();
    let table = database.table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    let mut txn = database.begin().unwrap();
    txn.put(&table, "a", "2").unwrap();
    txn.put(&table, "b", vec![1; 30_000]).unwrap();
    database.close().unwrap();
    drop(txn);
    let database = Database::open_in(directory, small_options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let all: Vec<_> = contents(&database, &table).into_iter().collect();
    assert_eq!(all, [(b"a".to_vec(), b"1".to_vec())]);
    common::assert_sound(&database.verify(None).unwrap());
}

#[test]
fn foreign_directories_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    match Database::open(folder.path()) {
        Err(Error::Foreign { what: katydid::Foreign::File(name), .. }) => assert_eq!(name, "notes.txt"),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left there");
    let none = tempfile::tempdir().unwrap();
    let options = Options { create: false, ..small_options() };
    assert!(matches!(Database::open_with(none.path(), options.clone()), Err(Error::NotFound { .. })));
    let missing = none.path().join("missing");
    assert!(matches!(Database::open_with(missing, options), Err(Error::NotFound { .. })));
    assert!(matches!(Database::verify_path(none.path(), None), Err(Error::NotFound { .. })));
}

#[test]
fn options_out_of_range_are_named() {
    let bad = |change: fn(&mut Options)| {
        let mut options = small_options();
        change(&mut options);
        match Database::open_in(Arc::new(MemoryDirectory::new()), options) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad(|o| o.page_bytes = 5000), "page_bytes");
    assert_eq!(bad(|o| o.cache_bytes = 4096), "cache_bytes");
    assert_eq!(bad(|o| o.checkpoint_bytes = 1), "checkpoint_bytes");
    assert_eq!(bad(|o| o.log_soft_bytes = 1), "log_soft_bytes");
    assert_eq!(bad(|o| o.log_hard_bytes = 1), "log_hard_bytes");
    assert_eq!(bad(|o| o.log.ring_bytes = 1), "ring_bytes");
}

#[test]
fn a_conflict_names_both_and_leaves_only_rollback() {
    let options = Options { lock_wait: Duration::from_millis(20), ..small_options() };
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    let mut first = database.begin().unwrap();
    first.put(&table, "a", "1").unwrap();
    let mut second = database.begin().unwrap();
    second.put(&table, "b", "1").unwrap();
    match second.get(&table, "a") {
        Err(Error::Conflict { victim, holder, kind }) => {
            assert_eq!((victim, holder), (second.id(), Some(first.id())));
            assert_eq!(kind, katydid::ConflictKind::Timeout);
        }
        other => panic!("{other:?}"),
    }
    let error = second.put(&table, "c", "1").unwrap_err();
    assert!(matches!(error, Error::MustRollBack { .. }) && error.is_retryable());
    assert!(second.commit().unwrap_err().is_retryable());
    first.commit().unwrap();
    assert_eq!(contents(&database, &table).len(), 1);
}

#[test]
fn a_deadlock_has_one_victim() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    let barrier = std::sync::Barrier::new(2);
    let lost: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = [("a", "b"), ("b", "a")]
            .into_iter()
            .map(|(first, second)| {
                let (database, table, barrier) = (&database, &table, &barrier);
                scope.spawn(move || {
                    let mut txn = database.begin().unwrap();
                    txn.put(table, first, "1").unwrap();
                    barrier.wait();
                    match txn.put(table, second, "1") {
                        Ok(()) => {
                            txn.commit().unwrap();
                            0
                        }
                        Err(error) => {
                            assert!(error.is_retryable());
                            1
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(lost, 1);
}

#[test]
fn transact_retries_conflicts_and_passes_other_errors_on() {
    let (_, database) = memory();
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
    assert!(matches!(refused, Err(Error::KeyExists)));
    assert_eq!(database.get(&table, "n").unwrap(), Some(200u64.to_le_bytes().to_vec()));
}

#[test]
fn every_way_to_commit_yields_the_same_order_of_lsns() {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let options = Options { lock_release, ..small_options() };
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
        let table = database.table("t").unwrap();
        let number = std::cell::Cell::new(0);
        let write = || {
            let mut txn = database.begin().unwrap();
            number.set(number.get() + 1);
            // Putting what is there already would write nothing.
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
        // A callback that is never polled must not keep the locks.
        write().commit_with(&session, |_| ());
        let fourth = write().commit().unwrap();
        assert!(third < fourth);
        assert_eq!(session.pending(), 1);
        assert_eq!(session.poll(), 1);
    }
}

#[test]
fn durability_and_durable_reads() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    for durability in [Durability::Buffered, Durability::Written, Durability::Durable] {
        let mut txn = database
            .begin_with(TransactionOptions { durability, read: Read::Durable, ..Default::default() })
            .unwrap();
        txn.put(&table, "a", "1").unwrap();
        let end = txn.commit().unwrap();
        if durability == Durability::Durable {
            assert!(database.stat().unwrap().log.streams[0].durable >= end);
        }
        let mut reader =
            database.begin_with(TransactionOptions { read: Read::Durable, ..Default::default() }).unwrap();
        reader.get(&table, "a").unwrap();
        assert!(database.stat().unwrap().log.streams[0].durable >= end);
    }
}

#[test]
fn a_transaction_moves_between_threads() {
    let (_, database) = memory();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
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

#[test]
fn a_large_transaction_rolls_back_from_the_log() {
    let (directory, database) = memory();
    let table = database.table("t").unwrap();
    for number in 0..200 {
        database.put(&table, key(number), "old").unwrap();
    }
    let mut txn = database.begin().unwrap();
    for number in 0..3000 {
        txn.put(&table, key(number), vec![b'x'; 100]).unwrap();
    }
    txn.rollback().unwrap();
    assert_eq!(contents(&database, &table).len(), 200);
    common::assert_sound(&database.verify(None).unwrap());
    drop((table, database));
    let database = Database::open_in(directory, small_options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert!(contents(&database, &table).values().all(|value| value == b"old"));
}

#[test]
fn a_large_unfinished_transaction_is_undone_by_the_next_opening() {
    let (directory, database) = memory();
    let table = database.table("t").unwrap();
    for number in 0..500 {
        database.put(&table, key(number), "old").unwrap();
    }
    let mut txn = database.begin().unwrap();
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
    let database = Database::open_in(directory, small_options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let rows = contents(&database, &table);
    assert_eq!(rows.len(), 560);
    assert!(rows.values().all(|value| value == b"old" || value == b"kept"));
    common::assert_sound(&database.verify(None).unwrap());
}

#[test]
fn a_log_that_may_not_grow_says_what_pins_it() {
    let mut options = small_options();
    options.checkpoint_bytes = 64 << 10;
    options.log_soft_bytes = 128 << 10;
    options.log_hard_bytes = 512 << 10;
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    let mut old = database.begin().unwrap();
    old.put(&table, "pin", "1").unwrap();
    let refused = (0..10_000).find_map(|number| database.put(&table, key(number), vec![1; 200]).err());
    match refused {
        Some(Error::LogFull { pinned_by: katydid::Pin::Transaction(txn, _), used, limit }) => {
            assert_eq!((txn, limit), (old.id(), 512 << 10));
            assert!(used > limit);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(database.stat().unwrap().log.pinned_by, katydid::Pin::Transaction(..)));
    old.rollback().unwrap();
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    database.put(&table, "more", "1").unwrap();
}

#[test]
fn the_dump_of_the_log_names_every_record() {
    let (directory, database) = memory();
    let table = database.table("t").unwrap();
    let mut txn = database.begin().unwrap();
    txn.put(&table, "apple", "1").unwrap();
    txn.rollback().unwrap();
    database.put(&table, "pear", "2").unwrap();
    let mut kinds = Vec::new();
    katydid::dump_log_in(directory.as_ref(), None, |entry| {
        kinds.push(entry.kind);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    for kind in ["chain-write", "leaf-insert", "compensation", "end", "commit", "checkpoint-end"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert!(!kinds.contains(&"malformed"));
    database.close().unwrap();
    let end =
        katydid::dump_log_in(directory.as_ref(), None, |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(end.starts_with("closed"), "{end}");
    let report = Database::verify_in(directory.as_ref(), None).unwrap();
    assert!(report.clean && report.is_sound() && report.keys == 1, "{report:?}");
}

/// A thread tries the leaf it changed last: which was split, merged away, and given to another table meanwhile.
#[test]
fn a_thread_that_comes_back_to_a_changed_tree_writes_to_the_right_leaf() {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), small_options()).unwrap();
    let (a, b) = (database.table("a").unwrap(), database.table("b").unwrap());
    let key = |number: u32| format!("key{number:05}");
    let fill = |table: &katydid::Table, step: usize| {
        for number in (0..1500).step_by(step) {
            database.put(table, key(number), vec![b'v'; 40]).unwrap();
        }
    };
    let keys = |table: &katydid::Table| {
        let mut txn = database.begin().unwrap();
        txn.range::<&str>(table, ..).map(|row| row.unwrap().0).collect::<Vec<_>>()
    };
    let expected = |step: usize| (0..1500).step_by(step).map(|n| key(n).into_bytes()).collect::<Vec<_>>();
    fill(&a, 1);
    assert_eq!(keys(&a), expected(1));
    for number in 0..1500 {
        assert!(database.delete(&a, key(number)).unwrap());
    }
    // Takes the pages that the other table gave back.
    fill(&b, 2);
    fill(&a, 3);
    assert_eq!((keys(&a), keys(&b)), (expected(3), expected(2)));
    common::assert_sound(&database.verify(None).unwrap());
}
