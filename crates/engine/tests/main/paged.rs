//! Promises of the paged engine alone: waits for locks, a pinned log, and names of records and
//! pages.

use crate::common::{self, SMALL_PAGES, block_on, contents, key, small_options};
use katydid::{CommitFuture, Database, Error, Options, PagedOptions, Table, Transaction};
use katydid_device::{Directory, MemoryDirectory, SimDevice};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

fn in_memory() -> (Arc<dyn Directory>, Database) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), small_options()).expect("open");
    (directory, database)
}

#[test]
fn sizes_out_of_range_are_named() {
    let bad = |paged: PagedOptions| {
        let options = Options { engine: paged.into(), ..small_options() };
        match Database::open_in(Arc::new(MemoryDirectory::new()), options) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad(PagedOptions { page_bytes: 5000, ..SMALL_PAGES }), "page_bytes");
    assert_eq!(bad(PagedOptions { cache_bytes: 4096, ..SMALL_PAGES }), "cache_bytes");
}

/// Returns an open transaction that another thread has used last. So a wait of this thread for that
/// transaction is not refused as a wait for itself.
fn of_another_thread(
    database: &Database,
    does: impl FnOnce(&Transaction) -> katydid::Result<()> + Send,
) -> Transaction {
    let begin = || {
        let mut txn = database.begin().unwrap();
        does(&mut txn).unwrap();
        txn
    };
    std::thread::scope(|scope| scope.spawn(begin).join().expect("no panic"))
}

#[test]
fn a_drop_waits_for_the_tables_users() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options = Options { lock_wait: Duration::from_millis(20), ..small_options() };
    let database = Database::open_in(directory, options).unwrap();
    let table = database.table("t").unwrap();
    let txn = of_another_thread(&database, |txn| txn.put(&table, "a", "1"));
    assert!(matches!(database.drop_table("t"), Err(Error::Conflict { .. })));
    txn.commit().unwrap();
    assert!(database.drop_table("t").unwrap());
}

#[test]
fn a_conflict_names_both_and_leaves_only_rollback() {
    let options = Options { lock_wait: Duration::from_millis(20), ..small_options() };
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    let first = of_another_thread(&database, |txn| txn.put(&table, "a", "1"));
    let second = database.begin().unwrap();
    second.put(&table, "b", "1").unwrap();
    match second.get(&table, "a") {
        Err(Error::Conflict { victim, holder, kind, .. }) => {
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
    let (_, database) = in_memory();
    let table = database.table("t").unwrap();
    let barrier = std::sync::Barrier::new(2);
    let lost: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = [("a", "b"), ("b", "a")]
            .into_iter()
            .map(|(first, second)| {
                let (database, table, barrier) = (&database, &table, &barrier);
                scope.spawn(move || {
                    let txn = database.begin().unwrap();
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
fn a_log_that_may_not_grow_says_what_pins_it() {
    let mut options = small_options();
    options.advanced.checkpoint_bytes = 64 << 10;
    options.advanced.log_soft_bytes = 128 << 10;
    options.advanced.log_hard_bytes = 512 << 10;
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    let old = database.begin().unwrap();
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
    let (directory, database) = in_memory();
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "apple", "1").unwrap();
    txn.rollback().unwrap();
    database.put(&table, "pear", "2").unwrap();
    let mut kinds = Vec::new();
    katydid::dump_log_in(directory.as_ref(), |entry| {
        kinds.push(entry.kind);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    for kind in ["chain-write", "leaf-insert", "compensation", "end", "commit", "checkpoint-end"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert!(!kinds.contains(&"malformed"));
    database.close().unwrap();
    let end = katydid::dump_log_in(directory.as_ref(), |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(end.starts_with("closed"), "{end}");
    let report = Database::verify_in(directory.clone(), None).unwrap();
    assert!(report.clean && report.is_sound() && report.keys == 1, "{report:?}");
}

/// A thread first tries the leaf that it changed last. In this test that leaf has since been split,
/// merged away, and given to another table.
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
        let txn = database.begin().unwrap();
        txn.range(table, ..).map(|row| row.unwrap().0).collect::<Vec<_>>()
    };
    let expected = |step: usize| (0..1500).step_by(step).map(|n| key(n).into_bytes()).collect::<Vec<_>>();
    fill(&a, 1);
    assert_eq!(keys(&a), expected(1));
    for number in 0..1500 {
        assert!(database.delete(&a, key(number)).unwrap());
    }
    // Table `b` takes the pages that `a` has freed.
    fill(&b, 2);
    fill(&a, 3);
    assert_eq!((keys(&a), keys(&b)), (expected(3), expected(2)));
    common::assert_sound(&database.verify(None).unwrap());
}

/// Commits a transaction that reads some keys. Returns the future of the commit, and whether the
/// commit has to wait for the device.
fn read_waits(database: &Database, table: &Table, keys: std::ops::Range<u64>) -> (CommitFuture, bool) {
    let txn = database.begin().unwrap();
    txn.range(table, key(keys.start)..key(keys.end)).for_each(|entry| drop(entry.unwrap()));
    let mut commit = txn.commit_async();
    let waits = Pin::new(&mut commit).poll(&mut Context::from_waker(Waker::noop())).is_pending();
    (commit, waits)
}

/// Locks are released before commits are durable: a reader that has seen such a commit waits for
/// it, a reader of other keys does not.
#[test]
fn a_range_waits_for_the_commits_it_has_read_and_hardly_for_others() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), small_options()).unwrap();
    let table = database.table("t").unwrap();
    for number in (0..400).filter(|number| *number != 105) {
        database.put(&table, key(number), "durable").unwrap();
    }
    device.stall_writes(true);
    let mut commits = Vec::new();
    let mut write = |number: u64, value: Option<&str>| {
        let txn = database.begin().unwrap();
        match value {
            Some(value) => txn.put(&table, key(number), value).unwrap(),
            None => assert!(txn.delete(&table, key(number)).unwrap()),
        }
        commits.push(txn.commit_async());
    };
    write(100, Some("changed"));
    write(105, Some("new"));
    let mut reads = Vec::new();
    for seen in [90..101, 100..101, 100..110, 103..107] {
        let (commit, waits) = read_waits(&database, &table, seen.clone());
        assert!(waits, "a read of {seen:?} was acknowledged before the values were durable");
        reads.push(commit);
    }
    // A few of these reads may wait, because a key may share a bucket with a key that was written.
    let others = (20..40).filter(|part| !read_waits(&database, &table, part * 10..part * 10 + 10).1);
    assert!(others.count() > 15, "ranges of keys that nobody has written wait");
    write(200, None);
    let (commit, waits) = read_waits(&database, &table, 195..205);
    assert!(waits, "a read of a deleted key was acknowledged before the deletion was durable");
    reads.push(commit);
    device.stall_writes(false);
    for commit in commits.into_iter().chain(reads) {
        block_on(commit).unwrap();
    }
    assert!(!read_waits(&database, &table, 0..400).1, "everything is durable");
}

#[test]
fn a_range_that_cannot_be_deleted_for_lack_of_log_stays_whole() {
    let mut options = small_options();
    options.advanced.checkpoint_bytes = 64 << 10;
    options.advanced.log_soft_bytes = 128 << 10;
    options.advanced.log_hard_bytes = 512 << 10;
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..3000 {
        database.put(&table, key(number), vec![1; 200]).unwrap();
    }
    let txn = database.begin().unwrap();
    txn.put(&table, "own", "kept").unwrap();
    let refused = txn.clear(&table).unwrap_err();
    assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
    assert_eq!(txn.count(&table, ..).unwrap(), 3001);
    txn.commit().unwrap();
    assert_eq!(contents(&database, &table).len(), 3001);
}

#[test]
fn whether_a_key_has_a_value_is_known_without_reading_the_value() {
    let (directory, database) = in_memory();
    let table = database.table("t").unwrap();
    let value = vec![7; 200_000];
    database.put(&table, "long", &value).unwrap();
    drop(table);
    let _kept = common::closed(database);
    let database = Database::open_in(directory, small_options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let misses = || database.stat().unwrap().paged().unwrap().cache_misses;
    let before = misses();
    assert!(database.contains(&table, "long").unwrap());
    assert!(!database.contains(&table, "lone").unwrap());
    let without_value = misses() - before;
    assert_eq!(database.get(&table, "long").unwrap(), Some(value));
    let with_value = misses() - before - without_value;
    assert!(without_value < 5 && with_value > 40, "{without_value} pages, and {with_value} of the value");
}
