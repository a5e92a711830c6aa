//! Transactions in `stat`: the open ones with the lines that began them, and the latencies of
//! commits.

use crate::common::{block_on, options_for};
use katydid::{Database, Durability, EngineKind, Options, TransactionOptions};
use std::time::Duration;

suite! {
    open_transactions_are_listed_with_the_line_that_began_them,
    commits_of_every_kind_are_measured,
}

fn open_transactions_are_listed_with_the_line_that_began_them(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let open = || {
        let open = database.stat().unwrap().transactions_open;
        open.iter().map(|open| (open.txn, open.origin.line())).collect::<Vec<_>>()
    };
    assert_eq!(open(), []);
    let (first, first_line) = (database.begin().unwrap(), line!());
    let (reader, reader_line) = (database.begin_read_only().unwrap(), line!());
    assert_eq!(open(), [(first.id(), first_line), (reader.id(), reader_line)]);
    let stat = database.stat().unwrap();
    assert!(stat.transactions_open[0].origin.file().ends_with("observed.rs"));
    assert!(stat.transactions_open[0].age >= stat.transactions_open[1].age);
    first.put(&table, "k", "v").unwrap();
    first.commit().unwrap();
    assert_eq!(open(), [(reader.id(), reader_line)]);
    drop(reader);
    let mut inside = Vec::new();
    let body_line = line!() + 1;
    database.transact(|txn| txn.put(&table, "k", "w").map(|()| inside = open())).unwrap();
    assert_eq!(inside.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [body_line]);
    // Transactions end on another thread, by an error, and by a drop with changes.
    let moved = database.begin().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || moved.rollback().unwrap());
    });
    database.transact(|txn| txn.insert(&table, "k", "x")).expect_err("it is there");
    let dropped = database.begin().unwrap();
    dropped.put(&table, "l", "v").unwrap();
    drop(dropped);
    assert_eq!(open(), []);
}

fn commits_of_every_kind_are_measured(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let count = || database.stat().unwrap().commit_latency.count;
    let before = count();
    database.put(&table, "a", "1").unwrap();
    assert_eq!(count(), before + 1);
    let begun = |key: &str| {
        let txn = database.begin().unwrap();
        txn.put(&table, key, "2").unwrap();
        txn
    };
    let session = database.session();
    begun("b").commit_with(&session, |outcome| assert!(outcome.is_ok()));
    session.drain().unwrap();
    assert_eq!(count(), before + 2);
    block_on(begun("c").commit_async()).unwrap();
    assert_eq!(count(), before + 3);
    // Commits without changes, commits that wait for nothing, and transactions that roll back are
    // not counted.
    let options = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let buffered = database.begin_with(options).unwrap();
    buffered.put(&table, "e", "3").unwrap();
    buffered.commit().unwrap();
    database.get(&table, "a").unwrap();
    database.begin().unwrap().commit().unwrap();
    begun("d").rollback().unwrap();
    let latency = database.stat().unwrap().commit_latency;
    assert_eq!(latency.count, before + 3);
    assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.p999 && latency.p999 <= latency.max);
    assert!(latency.max > Duration::ZERO || latency.p50 == Duration::ZERO);
}

/// The test is for the paged engine only, in which an open transaction makes another one wait for a
/// lock. In the memory engine a transaction waits only for a commit under way; `memory/store/tests`
/// covers such waits.
#[test]
fn a_wait_for_a_lock_is_listed_with_what_it_waits_for_and_then_counted() {
    let database = Database::in_memory_with(options_for(EngineKind::Paged)).unwrap();
    let table = database.table("t").unwrap();
    let (holder, waiter) = (database.begin().unwrap(), database.begin().unwrap());
    holder.put(&table, "k", "1").unwrap();
    let (held, waits) = (holder.id(), waiter.id());
    let stat = database.stat().unwrap();
    assert_eq!((stat.waiting, stat.wait_time.count), (vec![], 0));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.put(&table, "k", "2").unwrap();
            waiter.commit().unwrap();
        });
        let wait = loop {
            let mut stat = database.stat().unwrap();
            assert_eq!(stat.wait_time.count, 0, "it is not over");
            match stat.waiting.pop() {
                Some(wait) => break wait,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((wait.txn, &wait.blockers[..]), (waits, &[held][..]));
        assert_eq!(wait.wanted.to_string(), r#"key "k" of table "t""#);
        assert!(wait.wanted.holder_open.is_some());
        holder.commit().unwrap();
        waiting.join().unwrap();
    });
    let stat = database.stat().unwrap();
    assert_eq!((&stat.waiting, stat.wait_time.count), (&vec![], 1));
    assert_eq!(stat.paged().unwrap().lock_waits, 1);
}

#[test]
fn a_wait_in_vain_is_counted() {
    let lock_wait = Duration::from_millis(1);
    let options = Options { lock_wait, ..options_for(EngineKind::Paged) };
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    let (holder, in_vain) = (database.begin().unwrap(), database.begin().unwrap());
    holder.put(&table, "k", "1").unwrap();
    in_vain.put(&table, "k", "2").unwrap_err();
    let stat = database.stat().unwrap();
    assert_eq!((stat.waiting, stat.wait_time.count), (vec![], 1));
    assert!(stat.wait_time.max >= lock_wait, "{:?}", stat.wait_time);
}
