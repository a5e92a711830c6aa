//! Transactions that keep a log in NVRAM from being trimmed, that wait for room, and that fail with
//! `LogFull`.

use super::{RING, in_memory, open, small};
use crate::common::{self, contents, key};
use katydid::{
    Database, EngineKind, Error, LogKind, MediumOptions, NvramOptions, Options, PagedOptions, Pin, Table,
    Transaction,
};
use katydid_device::nvram::NvRegion;
use katydid_device::{SimDevice, Survival};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Makes tests of the paged engine, each over every kind of log in NVRAM.
macro_rules! paged {
    ($($case:ident),* $(,)?) => {
        mod paged {
            $(
                #[test]
                fn $case() {
                    for log in crate::common::kinds_in_nvram() {
                        println!("log {log}");
                        crate::common::over(log, super::$case);
                    }
                }
            )*
        }
    };
}

paged! {
    a_transaction_larger_than_the_log_gets_log_full_and_can_end_either_way,
    the_transaction_that_keeps_the_log_is_named_and_can_go_on,
    nobody_waits_for_a_transaction_that_waits_for_him,
    all_who_have_written_can_roll_back_when_the_log_is_full,
    a_full_log_of_unfinished_transactions_is_opened_again,
    checkpoints_that_free_nothing_use_no_room_up,
    rolling_back_reads_no_log,
}

/// Returns options with which a transaction that waits for another transaction of this thread soon
/// gets an error.
fn alone() -> Options {
    Options { lock_wait: Duration::from_millis(5), ..small(EngineKind::Paged) }
}

/// Writes until there is no room. Returns the number of writes, and the error.
fn fill(txn: &Transaction, table: &Table, from: u64) -> (u64, Error) {
    for number in from.. {
        if let Err(error) = txn.put(table, key(number), vec![number as u8; 500]) {
            return (number - from, error);
        }
    }
    unreachable!("a log that holds everything")
}

fn pinned_by(error: &Error) -> katydid::TxnId {
    match error {
        Error::LogFull { pinned_by: Pin::Transaction(txn, _), used, limit } => {
            assert!(*used > 0 && *limit <= RING, "{error}");
            *txn
        }
        other => panic!("{other:?}"),
    }
}

fn a_transaction_larger_than_the_log_gets_log_full_and_can_end_either_way() {
    let (directory, options) = (in_memory(), alone());
    let database = open(&directory, &options);
    let table = database.table("t").unwrap();
    database.put(&table, "before", "1").unwrap();
    let txn = database.begin().unwrap();
    let (count, error) = fill(&txn, &table, 0);
    assert_eq!(pinned_by(&error), txn.id());
    assert!(count > 50, "{count} fit");
    // The transaction can go on: it still reads its own writes, and can roll back or commit.
    assert_eq!(txn.get(&table, key(0)).unwrap(), Some(vec![0; 500]));
    txn.rollback().unwrap();
    assert_eq!(contents(&database, &table).len(), 1);
    let txn = database.begin().unwrap();
    let (count, _) = fill(&txn, &table, 0);
    txn.commit().unwrap();
    assert_eq!(contents(&database, &table).len() as u64, count + 1);
    // A value that is too large by itself leaves nothing behind.
    let long = vec![7; 1 << 20];
    assert!(matches!(database.put(&table, "long", &long), Err(Error::LogFull { .. })));
    for number in 0..300 {
        database.put(&table, key(number % 40), vec![1; 600]).unwrap();
    }
    common::assert_sound(&database.verify(None).unwrap());
}

fn the_transaction_that_keeps_the_log_is_named_and_can_go_on() {
    let (directory, options) = (in_memory(), alone());
    let database = open(&directory, &options);
    let table = database.table("t").unwrap();
    let old = database.begin().unwrap();
    old.put(&table, "old", "1").unwrap();
    let refused = (0..10_000).find_map(|number| database.put(&table, key(number), vec![1; 200]).err());
    assert_eq!(pinned_by(&refused.expect("the log is full")), old.id());
    assert!(database.stat().unwrap().log.fullness.expect("in NVRAM") >= 700);
    // The space that is left is for transactions that have written, and reads need no space.
    old.put(&table, "older", "2").unwrap();
    assert!(database.get(&table, key(0)).unwrap().is_some());
    old.commit().unwrap();
    for number in 0..500 {
        database.put(&table, key(number), vec![2; 300]).expect("room can be made again");
    }
    assert_eq!(database.get(&table, "older").unwrap(), Some(b"2".to_vec()));
}

/// A transaction that keeps the log from being trimmed waits for a lock of a transaction that is
/// about to write its first record. The second transaction must then not wait for room, because the
/// two would wait for each other.
fn nobody_waits_for_a_transaction_that_waits_for_him() {
    let (directory, options) = (in_memory(), small(EngineKind::Paged));
    let database = open(&directory, &options);
    let table = database.table("t").unwrap();
    database.put(&table, "shared", "0").unwrap();
    let reader = database.begin().unwrap();
    reader.get_for_update(&table, "shared").unwrap();
    let head = database.begin().unwrap();
    let (_, error) = fill(&head, &table, 0);
    assert_eq!(pinned_by(&error), head.id());
    let (began, has_begun) = channel();
    std::thread::scope(|scope| {
        let (database, table) = (&database, &table);
        let waiter = scope.spawn(move || {
            began.send(()).expect("the other thread waits");
            head.get_for_update(table, "shared").expect("when the reader has ended");
            head.commit()
        });
        has_begun.recv().expect("the thread runs");
        // The reader has not written. The reader would wait for a minute for room if `head`, which
        // keeps the log from being trimmed, did not wait for the reader.
        let error = reader.put(table, "mine", "1").expect_err("there is no room");
        pinned_by(&error);
        reader.rollback().unwrap();
        waiter.join().expect("no panic").expect("nobody is in its way");
        database.put(table, "mine", vec![1; 300]).expect("there is room again");
    });
}

/// Begins transactions that write, until one is refused for lack of room. Then fills up the room
/// that each transaction has.
fn fill_with_many(database: &Database, table: &Table) -> Vec<Transaction> {
    let mut open = Vec::new();
    let refused = (0..).find_map(|nth| {
        let txn = database.begin().unwrap();
        let wrote = (0..5).try_for_each(|number| txn.put(table, key(nth * 10 + number), vec![9; 700]));
        open.push(txn);
        wrote.err()
    });
    assert!(matches!(refused, Some(Error::LogFull { .. })), "{refused:?}");
    for (txn, nth) in open.iter_mut().zip(0..) {
        let (_, error) = fill(txn, table, 10_000 * (nth + 1));
        assert!(matches!(error, Error::LogFull { .. }), "{error}");
    }
    open
}

fn filled_table(database: &Database) -> Table {
    let table = database.table("t").unwrap();
    for number in 0..600 {
        database.put(&table, key(number), vec![3; 400]).unwrap();
    }
    table
}

fn all_who_have_written_can_roll_back_when_the_log_is_full() {
    let (directory, options) = (in_memory(), alone());
    let database = open(&directory, &options);
    let table = filled_table(&database);
    let before = contents(&database, &table);
    for _ in 0..3 {
        let open = fill_with_many(&database, &table);
        assert!(open.len() > 2, "{} fit", open.len());
        for txn in open {
            txn.rollback().expect("room was set aside");
        }
        assert!(contents(&database, &table) == before);
    }
    database.put(&table, "more", "1").unwrap();
    common::assert_sound(&database.verify(None).unwrap());
}

fn a_full_log_of_unfinished_transactions_is_opened_again() {
    let mut options = alone();
    options.advanced.log.background = katydid::testing::Background::Caller;
    let device = SimDevice::new(3);
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = filled_table(&database);
    let before = contents(&database, &table);
    let open = fill_with_many(&database, &table);
    device.freeze();
    drop((open, table, database));
    let mut device = device.reopen_with(1, Survival::Random);
    // Openings that crash, each at another step, do not use up the space that the last opening
    // needs.
    for round in 0..12 {
        let steps = 3 + round * 17 % 90;
        if let Some(memory) = device.nvram("log/log.nvram").filter(|_| round % 3 > 0) {
            memory.crash_at(steps);
        } else {
            device.crash_at(steps);
        }
        let opened = Database::open_in(device.directory(), options.clone());
        assert!(opened.is_ok() || device.is_crashed(), "{opened:?}");
        device.freeze();
        drop(opened);
        device = device.reopen_with(round, Survival::Random);
    }
    let database = Database::open_in(device.directory(), options).unwrap();
    let table = database.open_table("t").unwrap().expect("the table");
    assert!(contents(&database, &table) == before);
    database.put(&table, "more", "1").unwrap();
    common::assert_sound(&database.verify(None).unwrap());
}

fn checkpoints_that_free_nothing_use_no_room_up() {
    let (directory, options) = (in_memory(), alone());
    let database = open(&directory, &options);
    let table = filled_table(&database);
    let old = database.begin().unwrap();
    old.put(&table, key(1), vec![4; 400]).unwrap();
    for number in 1000.. {
        match database.put(&table, key(number), vec![1; 200]) {
            Ok(()) => {}
            Err(error) => {
                pinned_by(&error);
                break;
            }
        }
    }
    for round in 0..300 {
        // Both outcomes are right: the checkpoint may find room, but must not take the room that
        // the oldest transaction needs to end.
        assert!(matches!(database.checkpoint(), Ok(_) | Err(Error::LogFull { .. })));
        if round % 30 == 0 {
            assert!(matches!(database.put(&table, "more", [1; 200]), Err(Error::LogFull { .. })));
        }
    }
    old.rollback().expect("room was set aside");
    database.put(&table, "more", "1").unwrap();
}

/// The test wipes out the transaction's records in the log. Only a transaction that keeps too
/// little undo in memory notices.
fn rolling_back_reads_no_log() {
    for undo_bytes in [1 << 20, 0] {
        let mut options = alone();
        options.engine = PagedOptions { undo_bytes, ..common::SMALL_PAGES }.into();
        options.advanced.log.background = katydid::testing::Background::Caller;
        let device = SimDevice::new(5);
        let database = Database::open_in(device.directory(), options).unwrap();
        let table = filled_table(&database);
        let before = contents(&database, &table);
        let txn = database.begin().unwrap();
        for number in 0..25 {
            txn.put(&table, key(number * 7), vec![number as u8; 450]).unwrap();
            txn.delete(&table, key(number * 7 + 1)).unwrap();
        }
        let memory: NvRegion = device.nvram("log/log.nvram").expect("a region").region();
        // The records lie behind the header. In a log with entries, the records lie between the
        // entries and the pointers to the ends.
        let records = match common::log() {
            LogKind::NvEntries | LogKind::NvLogging => {
                let heap = 4096 + RING / 8;
                heap..heap + RING
            }
            _ => 4096..memory.len(),
        };
        for at in records.step_by(8) {
            memory.word(at).store(0, std::sync::atomic::Ordering::Relaxed);
        }
        let outcome = txn.rollback();
        assert_eq!(outcome.is_ok(), undo_bytes > 0, "{outcome:?}");
        if outcome.is_ok() {
            assert!(contents(&database, &table) == before);
        }
    }
}

/// The log sets aside as many entries as the record's room would need for the shortest records.
#[test]
fn a_transaction_for_which_a_stream_has_too_few_entries_is_refused() {
    let memory = NvramOptions { bytes: RING, ..NvramOptions::default() };
    let few = 256;
    for medium in
        [MediumOptions::NvEntries { memory, entries: few }, MediumOptions::NvLogging { memory, entries: few }]
    {
        let mut options = small(EngineKind::Memory);
        options.advanced.log.medium = medium;
        let database = open(&in_memory(), &options);
        let table = database.table("t").unwrap();
        for _ in 0..3 {
            let error = database.put(&table, "long", vec![1; 100_000]).expect_err("it does not fit");
            assert!(error.to_string().contains("larger than the limit of"), "{error}");
            database.put(&table, "short", "1").unwrap();
        }
        assert_eq!(contents(&database, &table).len(), 1);
    }
}

#[test]
fn a_transaction_larger_than_its_stream_is_refused_and_nothing_of_it_is_there() {
    for log in common::kinds_in_nvram() {
        common::over(log, || {
            let (directory, options) = (in_memory(), small(EngineKind::Memory));
            let database = open(&directory, &options);
            let table = database.table("t").unwrap();
            let open = database.begin().unwrap();
            open.put(&table, "open", "1").unwrap();
            for _ in 0..3 {
                let error = database.put(&table, "long", vec![1; 300_000]).expect_err("it does not fit");
                assert!(error.to_string().contains("larger than the limit of"), "{log}: {error}");
                // In the memory engine an open transaction does not keep the log from being
                // trimmed.
                for number in 0..100 {
                    database.put(&table, key(number), vec![1; 4000]).unwrap();
                }
                database.put(&table, "large", vec![1; 150_000]).unwrap();
            }
            assert_eq!(contents(&database, &table).len(), 101);
            open.commit().unwrap();
        });
    }
}
