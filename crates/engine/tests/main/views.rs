//! Read views: transactions that only read, while other transactions write the same rows.

use crate::common::{block_on, key, options_for, small_options, with_advanced};
use katydid::testing::Background;
use katydid::{
    Access, Database, Durability, EngineKind, Error, LockRelease, Options, Prefix, Read, Result, Table,
    Transaction, TransactionOptions,
};
use katydid_device::{SimDevice, Survival};
use std::collections::BTreeMap;

suite! {
    a_view_stays_as_it_began_and_keeps_no_writer_waiting,
    long_values_stay_what_they_were,
    a_view_moves_between_threads,
    what_a_view_was_shown_survives_once_it_has_committed,
    a_durable_view_shows_nothing_that_a_crash_takes_back,
    a_view_sees_a_commit_whose_future_was_ready,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn filled(options: Options, rows: u64) -> (Database, Table) {
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("t").unwrap();
    database
        .transact(|txn| (0..rows).try_for_each(|number| txn.put(&table, key(number), number.to_string())))
        .unwrap();
    (database, table)
}

/// Returns the rows that the view shows. Ranges in both directions and point reads must agree on
/// them.
fn shown(view: &Transaction, table: &Table, keys: u64) -> Rows {
    let up: Vec<_> = view.range(table, ..).collect::<Result<_>>().unwrap();
    assert!(up.is_sorted_by(|(one, _), (next, _)| one < next), "each key once");
    let mut down: Vec<_> = view.range(table, ..).rev().collect::<Result<_>>().unwrap();
    down.reverse();
    assert_eq!(up, down);
    let up = Rows::from_iter(up);
    for key in (0..keys).map(key) {
        assert_eq!(view.get(table, &key).unwrap().as_ref(), up.get(&key));
        assert_eq!(view.contains(table, &key).unwrap(), up.contains_key(&key));
    }
    up
}

/// Writes to every part of a table in several transactions, so that leaves split, and calls `look`
/// after each transaction. Then deletes most keys, so that leaves merge.
fn churn(database: &Database, table: &Table, keys: u64, look: impl Fn()) {
    for round in 0..3_u64 {
        database
            .transact(|txn| {
                for number in 0..keys {
                    match (number + round) % 3 {
                        0 => drop(txn.delete(table, key(number))?),
                        1 => txn.put(table, key(number), vec![round as u8; 300])?,
                        _ => txn.put(table, format!("key-{number:06}-{round}"), "between")?,
                    }
                }
                Ok(())
            })
            .unwrap();
        look();
    }
    database.transact(|txn| txn.delete_range(table, key(10)..)).unwrap();
}

fn a_view_stays_as_it_began_and_keeps_no_writer_waiting(engine: EngineKind) {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let (database, table) =
            filled(with_advanced(options_for(engine), |advanced| advanced.lock_release = lock_release), 400);
        // These transactions have written before the view begins, and end later: one commits, one
        // rolls back.
        let open = database.begin().unwrap();
        open.put(&table, key(7), "not committed").unwrap();
        open.delete(&table, key(8)).unwrap();
        open.put(&table, "key-000007a", "not committed").unwrap();
        let vain = database.begin().unwrap();
        vain.put(&table, key(3), "in vain").unwrap();
        vain.delete(&table, key(4)).unwrap();

        let view = database.begin_read_only().unwrap();
        let expected: Rows = (0..400).map(|number| (key(number), number.to_string().into_bytes())).collect();
        assert_eq!(shown(&view, &table, 400), expected);
        let savepoint = open.savepoint();
        open.put(&table, key(9), "taken back").unwrap();
        open.rollback_to(&savepoint).unwrap();
        open.put(&table, key(9), "not committed").unwrap();
        assert_eq!(shown(&view, &table, 400), expected);
        open.commit().unwrap();
        assert_eq!(shown(&view, &table, 400), expected);
        vain.rollback().unwrap();
        assert_eq!(shown(&view, &table, 400), expected);
        let second = database.begin_read_only().unwrap();
        assert_eq!(second.get(&table, key(7)).unwrap().unwrap(), b"not committed");
        let in_second = shown(&second, &table, 400);

        // This range has returned its first and its last row when the rows in between change,
        // appear and disappear.
        let mut range = view.range(&table, key(100)..key(300));
        let first = range.next().unwrap().unwrap().0;
        let last = range.next_back().unwrap().unwrap().0;
        assert_eq!((first, last), (key(100), key(299)));
        churn(&database, &table, 400, || assert_eq!(shown(&view, &table, 400), expected));
        database.checkpoint().unwrap();
        assert_eq!(
            range.map(|row| row.unwrap().0).collect::<Vec<_>>(),
            (101..299).map(key).collect::<Vec<_>>()
        );
        assert_eq!(shown(&view, &table, 400), expected);
        assert_eq!(view.range(&table, Prefix("key-0001")).count(), 100);
        assert_eq!(shown(&second, &table, 400), in_second);
        view.commit().unwrap();
        assert_eq!(shown(&second, &table, 400), in_second);
        second.rollback().unwrap();
        assert_eq!(
            database.begin_read_only().unwrap().range(&table, ..).count(),
            database.begin().unwrap().range(&table, ..).count()
        );
        if let Some(paged) = database.stat().unwrap().paged() {
            assert_eq!((paged.lock_waits, paged.views, paged.view_bytes), (0, 0, 0));
        }
        assert!(database.verify(None).unwrap().is_sound());
    }
}

fn long_values_stay_what_they_were(engine: EngineKind) {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let database = Database::in_memory_with(with_advanced(options_for(engine), |advanced| {
            advanced.lock_release = lock_release
        }))
        .unwrap();
        let table = database.table("t").unwrap();
        let long = |byte: u8| vec![byte; 50_000];
        for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            database.put(&table, name, long(byte)).unwrap();
        }
        let open = database.begin().unwrap();
        open.put(&table, "a", long(10)).unwrap();
        open.put(&table, "b", "short").unwrap();
        open.put(&table, "a", long(11)).unwrap();
        let view = database.begin_read_only().unwrap();
        let check = || {
            let rows: Vec<_> = view.range(&table, ..).map(|row| row.unwrap()).collect();
            let expected = [("a", 1), ("b", 2), ("c", 3)].map(|(name, byte)| (Vec::from(name), long(byte)));
            assert!(rows == expected);
            assert!(
                ["a", "b", "c"]
                    .iter()
                    .zip(1..)
                    .all(|(name, byte)| view.get(&table, name).unwrap() == Some(long(byte)))
            );
        };
        check();
        // This range has fetched the page numbers of long values, and reads the values after these
        // pages have got other contents.
        let mut range = view.range(&table, ..);
        assert!(range.next().unwrap().unwrap().1 == long(1));
        open.commit().unwrap();
        database.delete(&table, "c").unwrap();
        for byte in 20..24 {
            database.put(&table, [byte], long(byte)).unwrap();
        }
        assert!(range.next().unwrap().unwrap().1 == long(2));
        assert!(range.next().unwrap().unwrap().1 == long(3));
        assert!(range.next().is_none());
        check();
        drop(view);
        assert!(database.get(&table, "a").unwrap() == Some(long(11)));

        // A change of a long value is rolled back. The value's pages stay in use until another
        // transaction frees them.
        database.put(&table, "d", long(4)).unwrap();
        let before = database.begin_read_only().unwrap();
        let vain = database.begin().unwrap();
        vain.put(&table, "e", "short").unwrap();
        let savepoint = vain.savepoint();
        vain.put(&table, "d", "in vain").unwrap();
        vain.rollback_to(&savepoint).unwrap();
        vain.commit().unwrap();
        assert!(before.get(&table, "d").unwrap() == Some(long(4)));
        database.put(&table, "d", "short").unwrap();
        database.put(&table, "f", long(5)).unwrap();
        assert!(before.get(&table, "d").unwrap() == Some(long(4)));
        assert!(before.range(&table, "d".."e").next().unwrap().unwrap().1 == long(4));
        drop(before);
        assert!(database.verify(None).unwrap().is_sound());
    }
}

fn a_view_moves_between_threads(engine: EngineKind) {
    let (database, table) = filled(options_for(engine), 10);
    let view = database.begin_read_only().unwrap();
    database.put(&table, key(1), "new").unwrap();
    let (view, value) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let value = view.get(&table, key(1)).unwrap();
            (view, value)
        });
        reader.join().unwrap()
    });
    assert_eq!(value.unwrap(), b"1");
    database.delete(&table, key(2)).unwrap();
    assert_eq!(view.get(&table, key(2)).unwrap().unwrap(), b"2");
}

/// Makes two buffered commits, one that puts a key and one that deletes a key, and runs `look`.
/// Returns whether the put and the deletion have survived a crash that keeps only durable bytes.
fn after_a_crash(engine: EngineKind, look: impl FnOnce(&Database, &Table)) -> [bool; 2] {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "deleted", "durable").unwrap();
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    for write in [
        |txn: &Transaction, table: &Table| txn.put(table, "new", "1"),
        |txn: &Transaction, table: &Table| txn.delete(table, "deleted").map(drop),
    ] {
        let txn = database.begin_with(buffered).unwrap();
        write(&txn, &table).unwrap();
        txn.commit().unwrap();
    }
    look(&database, &table);
    device.freeze();
    drop((table, database));
    let database =
        Database::open_in(device.reopen_with(1, Survival::DropAll).directory(), options_for(engine)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    [database.contains(&table, "new").unwrap(), !database.contains(&table, "deleted").unwrap()]
}

fn what_a_view_was_shown_survives_once_it_has_committed(engine: EngineKind) {
    assert_eq!(after_a_crash(engine, |_, _| {}), [false, false], "nothing has waited");
    let seen = |look: fn(&Transaction, &Table)| {
        after_a_crash(engine, |database, table| {
            let view = database.begin_read_only().unwrap();
            look(&view, table);
            view.commit().unwrap();
        })
    };
    assert!(seen(|view, table| assert!(view.get(table, "new").unwrap().is_some()))[0]);
    assert!(seen(|view, table| assert!(!view.contains(table, "deleted").unwrap()))[1]);
    assert_eq!(seen(|view, table| assert_eq!(view.range(table, ..).count(), 1)), [true, true]);
}

fn a_durable_view_shows_nothing_that_a_crash_takes_back(engine: EngineKind) {
    let durable = TransactionOptions { read: Read::Durable, access: Access::ReadOnly, ..Default::default() };
    let mut shown = [true, true];
    let kept = after_a_crash(engine, |database, table| {
        let view = database.begin_with(durable).unwrap();
        shown = [view.contains(table, "new").unwrap(), view.get(table, "deleted").unwrap().is_none()];
        // The view neither commits nor ends before the crash.
        std::mem::forget(view);
    });
    assert!(shown.iter().zip(kept).all(|(shown, kept)| !shown || kept), "{shown:?} {kept:?}");
}

/// With `AfterDurable` one background thread releases the locks of commits with futures, one after
/// another. Here that thread is busy with the many locks of the first commit when the second commit
/// is acknowledged.
fn a_view_sees_a_commit_whose_future_was_ready(engine: EngineKind) {
    let lock_release = LockRelease::AfterDurable;
    let (database, table) =
        filled(with_advanced(options_for(engine), |advanced| advanced.lock_release = lock_release), 10);
    for round in 0..5_u64 {
        let large = database.begin().unwrap();
        (1000..5000).for_each(|number| large.put(&table, key(number), round.to_string()).unwrap());
        let small = database.begin().unwrap();
        small.put(&table, key(7), round.to_string()).unwrap();
        let large = large.commit_async();
        block_on(small.commit_async()).unwrap();
        let view = database.begin_read_only().unwrap();
        assert_eq!(view.get(&table, key(7)).unwrap().unwrap(), round.to_string().into_bytes());
        block_on(large).unwrap();
        let view = database.begin_read_only().unwrap();
        assert_eq!(view.get(&table, key(4999)).unwrap().unwrap(), round.to_string().into_bytes());
    }
}

/// With `AfterDurable` recovery may bring a failed commit back or not, so no reader may be shown
/// it.
#[test]
fn a_view_sees_no_commit_that_has_failed() {
    let device = SimDevice::new(1);
    let mut options =
        with_advanced(small_options(), |advanced| advanced.lock_release = LockRelease::AfterDurable);
    options.advanced.log.background = Background::Caller;
    let database = Database::open_in(device.directory(), options).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "acknowledged").unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, "k", "failed").unwrap();
    device.freeze();
    block_on(txn.commit_async()).unwrap_err();
    let view = database.begin_read_only().unwrap();
    assert_eq!(view.get(&table, "k").unwrap().unwrap(), b"acknowledged");
    view.commit().unwrap();
}

#[test]
fn a_view_does_not_outlive_a_dropped_table() {
    let (database, table) = filled(options_for(EngineKind::Paged), 2000);
    let other = database.table("other").unwrap();
    database.put(&other, "k", "v").unwrap();
    let view = database.begin_read_only().unwrap();
    let mut range = view.range(&table, ..);
    assert!(range.next().unwrap().is_ok());
    assert!(database.drop_table("t").unwrap(), "no view keeps a table");
    assert_eq!(
        range.by_ref().find_map(Result::err).map(|error| error.to_string()),
        Some("table \"t\" was dropped".into())
    );
    assert!(matches!(view.get(&table, key(1)), Err(Error::TableDropped { .. })));
    // A new table of that name is another table, which the view does not have.
    let again = database.table("t").unwrap();
    database.put(&again, key(1), "new").unwrap();
    assert_eq!(view.get(&again, key(1)).unwrap(), None);
    assert_eq!(view.get(&other, "k").unwrap().unwrap(), b"v");
    view.commit().unwrap();
    assert!(database.verify(None).unwrap().is_sound());
}

fn with_limit(view_bytes_max: u64) -> Options {
    let mut options = small_options();
    options.engine.paged_mut().unwrap().view_bytes_max = view_bytes_max;
    options
}

fn is_too_old<T>(outcome: Result<T>) -> bool {
    match outcome {
        Err(Error::ViewTooOld { bytes, max }) => bytes > max && max == 64 << 10,
        _ => false,
    }
}

#[test]
fn the_oldest_view_is_given_up_and_no_writer_fails() {
    let (database, table) = filled(with_limit(64 << 10), 500);
    let stat = || database.stat().unwrap().paged().unwrap().clone();
    let oldest = database.begin_read_only().unwrap();
    assert_eq!(oldest.get(&table, key(1)).unwrap().unwrap(), b"1");
    let mut range = oldest.range(&table, ..);
    assert!(range.next().unwrap().is_ok());
    assert!(stat().views == 1 && stat().oldest_view.is_some() && stat().view_bytes == 0);
    database.put(&table, key(499), "changed").unwrap();
    let kept = stat().view_bytes;
    assert!(kept > 0);
    // The view needs the key's old value once, however often the key is changed.
    database.put(&table, key(499), "changed again").unwrap();
    assert_eq!(stat().view_bytes, kept);
    let mut newer = Vec::new();
    for round in 0..20_u64 {
        newer.push(database.begin_read_only().unwrap());
        for number in 0..50 {
            database.put(&table, key(round * 20 + number), vec![round as u8; 100]).unwrap();
            assert!(stat().view_bytes < 80 << 10, "{} bytes", stat().view_bytes);
        }
    }
    assert!(is_too_old(oldest.get(&table, key(1))) && is_too_old(oldest.contains(&table, "none")));
    assert!(range.by_ref().any(is_too_old));
    assert!(stat().views_given_up > 0 && stat().views + stat().views_given_up == 21);
    let newest = newer.pop().unwrap();
    assert_eq!(newest.get(&table, key(380)).unwrap().unwrap(), vec![18; 100]);
    assert_eq!(newest.get(&table, key(449)).unwrap().unwrap(), b"449");
    oldest.commit().expect("what it has read was right");
    drop((newer, newest));
    assert_eq!((stat().views, stat().view_bytes), (0, 0));
}

#[test]
fn later_views_cannot_read_tables_of_a_transaction_that_writes_more_than_may_be_kept() {
    let (database, table) = filled(with_limit(64 << 10), 10);
    let other = database.table("other").unwrap();
    database.put(&other, "k", "v").unwrap();
    let before = database.begin_read_only().unwrap();
    let large = database.begin().unwrap();
    for number in 0..2000 {
        large.put(&table, key(number), "large").unwrap();
    }
    assert!(is_too_old(before.get(&table, key(1))));
    let beside = database.begin_read_only().unwrap();
    assert!(matches!(beside.get(&table, key(1)), Err(Error::ViewTooOld { .. })));
    assert_eq!(beside.get(&other, "k").unwrap().unwrap(), b"v");
    large.put(&other, "k", "large").unwrap();
    assert!(matches!(beside.get(&other, "k"), Err(Error::ViewTooOld { .. })));
    large.commit().unwrap();
    assert!(matches!(beside.get(&table, key(1)), Err(Error::ViewTooOld { .. })));
    let after = database.begin_read_only().unwrap();
    assert_eq!(after.get(&table, key(1)).unwrap().unwrap(), b"large");
    drop((before, beside, after));
    assert_eq!(database.stat().unwrap().paged().unwrap().view_bytes, 0);
}

/// Reads that do not wait must not find the changes of a transaction that could not be rolled back
/// before the database was shut off.
#[test]
fn views_that_open_after_the_device_has_failed_see_what_was_committed() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(EngineKind::Paged)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "old").unwrap();
    let open = database.begin().unwrap();
    open.put(&table, "k", "new").unwrap();
    let lost = database.begin().unwrap();
    lost.put(&table, "other", "new").unwrap();
    device.freeze();
    assert!(lost.commit().unwrap_err().is_poisoned());
    drop(open);
    let view = database.begin_read_only().unwrap();
    assert_eq!(view.get(&table, "k").unwrap().unwrap(), b"old");
    assert_eq!(
        view.range(&table, ..).filter(|row| row.as_ref().is_ok_and(|(key, _)| key == b"k")).count(),
        1
    );
}
