//! Tests of a bug or a panic in the middle of a change whose record is in the log already. The
//! database must shut itself off.

use crate::paged::page::Value;
use crate::pause::{PausePoint, with_hook};
use crate::{Database, Error, Options, PagedOptions, Result, Table};
use katydid_device::{SimDevice, Survival};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

static LONG: [u8; 20_000] = [7; 20_000];

fn open(device: &SimDevice) -> Database {
    let pages = PagedOptions { page_bytes: 4096, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), ..Options::default() };
    options.advanced.log.medium =
        katydid_wal::FileOptions { segment_bytes: 256 << 10, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 256 << 10;
    Database::open_in(device.directory(), options).expect("open")
}

/// Marks one page of the long value of `key` as free, in memory only. So the next call that frees
/// this value fails, after the call has logged its record and changed its pages.
fn plant(database: &Database, table: &Table, key: &str) {
    let engine = database.paged().engine();
    let head = table.paged().look(&engine.pool, key.as_bytes(), |value| match value {
        Some(Value::Overflow { head, .. }) => head,
        found => panic!("not a long value: {found:?}"),
    });
    assert!(engine.space.freed(head.expect("read")));
}

fn assert_shut<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("nothing may succeed any more");
    assert!(error.is_poisoned(), "{error}");
    assert!(error.to_string().contains("a page that was freed was free"), "{error}");
}

#[test]
fn a_change_that_is_logged_and_cannot_be_made_shuts_the_database_off() {
    let device = SimDevice::new(1);
    let database = open(&device);
    let table = database.table("t").expect("table");
    database.put(&table, "long", LONG).expect("put");
    database.put(&table, "other", "before").expect("put");
    let began_before = database.begin().expect("begin");
    began_before.put(&table, "third", "lost").expect("put");

    plant(&database, &table, "long");
    let txn = database.begin().expect("begin");
    txn.put(&table, "long", "short").expect("put");
    assert_shut(txn.commit());

    assert_shut(began_before.commit());
    assert_shut(database.get(&table, "other"));
    assert_shut(database.put(&table, "other", "after"));
    assert_shut(database.delete(&table, "long"));
    assert_shut(database.checkpoint());
    assert_shut(database.sync());
    assert_shut(database.close());
    assert!(matches!(database.get(&table, "other"), Err(Error::Closed)));

    let database = open(&device);
    let table = database.table("t").expect("table");
    let long = database.get(&table, "long").expect("get").expect("the key is there");
    assert!(long == LONG || long == b"short", "neither before nor after the commit: {} bytes", long.len());
    assert_eq!(database.get(&table, "other").expect("get").as_deref(), Some(&b"before"[..]));
    assert_eq!(database.get(&table, "third").expect("get"), None);
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound(), "{:#?}", report.faults);
}

/// Runs `work`, which panics when it comes to `place` for the `nth` time. Returns whether it
/// panicked.
fn panics_at(place: PausePoint, nth: u32, work: impl FnOnce()) -> bool {
    let left = Cell::new(nth);
    let hook = move |at| {
        if at == place {
            left.set(left.get() - 1);
            assert_ne!(left.get(), 0, "planted");
        }
    };
    catch_unwind(AssertUnwindSafe(|| with_hook(hook, work))).is_err()
}

/// Changes a table: puts, splits, long values, merges, a rollback, and a clean-up after a commit.
fn changes(database: &Database, table: &Table) {
    for number in 0..60u32 {
        database.put(table, number.to_be_bytes(), [3; 300]).expect("put");
    }
    database.put(table, "long", "short").expect("put");
    let txn = database.begin().expect("begin");
    txn.put(table, "other", LONG).expect("put");
    txn.delete(table, "third").expect("delete");
    txn.rollback().expect("rollback");
    for number in 0..60u32 {
        database.delete(table, number.to_be_bytes()).expect("delete");
    }
}

#[test]
fn a_panic_in_the_middle_of_a_change_shuts_the_database_off() {
    for place in [PausePoint::Logged, PausePoint::Edited] {
        let mut shown = 0;
        for nth in (1..).step_by(7) {
            let device = SimDevice::new(1);
            let database = open(&device);
            let table = database.table("t").expect("table");
            database.put(&table, "long", LONG).expect("put");
            for key in ["other", "third"] {
                database.put(&table, key, "before").expect("put");
            }
            if !panics_at(place, nth, || changes(&database, &table)) {
                break;
            }
            shown += 1;
            let shut = |outcome: Result<()>| {
                let error = outcome.expect_err("nothing may succeed any more");
                assert!(
                    error.is_poisoned() && error.to_string().contains("a panic"),
                    "{place:?} {nth}: {error}"
                );
            };
            shut(database.get(&table, "other").map(drop));
            shut(database.put(&table, "other", "after"));
            shut(database.checkpoint().map(drop));
            shut(database.begin().map(drop));
            let engine = database.paged().engine();
            assert!(engine.pool.flush_all().is_err(), "what is half changed may be written back");
            shut(database.close());
            // The pages in place and the log are whole, whether the writes that were not synced
            // survive or not.
            for survival in [Survival::KeepAll, Survival::DropAll] {
                let device = device.reopen_with(u64::from(nth), survival);
                let database = open(&device);
                let table = database.table("t").expect("table");
                let get = |key: &str| database.get(&table, key).expect("get").expect("the key is there");
                let long = get("long");
                assert!(long == LONG || long == b"short", "{place:?} {nth}: {} bytes", long.len());
                assert_eq!((get("other"), get("third")), (b"before".to_vec(), b"before".to_vec()));
                let report = database.verify(None).expect("verify");
                assert!(report.is_sound(), "{place:?} {nth}: {:#?}", report.faults);
            }
        }
        assert!(shown > 3, "{place:?}: {shown} panics: the test shows nothing");
    }
}
