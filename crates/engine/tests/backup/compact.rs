//! Rewriting a database without its free pages.

use crate::common::{Rng, assert_sound, contents, options_for, seeds};
use katydid::{CopyFault, Database, EngineKind, Error, Options, PagedOptions};
use katydid_device::{Fault, SimDevice, Survival};
use std::collections::BTreeMap;

type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn options(page_bytes: usize) -> Options {
    let engine = PagedOptions { page_bytes, cache_bytes: 64 * page_bytes, ..PagedOptions::default() };
    let mut options = Options { engine: engine.into(), ..options_for(EngineKind::Paged) };
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.background = katydid::testing::Background::Caller;
    options
}

/// Makes tables with long and short values, drops one table, and deletes most rows of another.
fn worn(device: &SimDevice, options: &Options, seed: u64, keys: u32) -> Rows {
    let mut rng = Rng::with_seed(seed);
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let mut rows = Rows::new();
    for name in ["a", "dropped", "b", "empty"] {
        let table = database.table(name).expect("table");
        let rows = rows.entry(name.to_owned()).or_default();
        if name == "empty" {
            continue;
        }
        for _ in 0..keys {
            let key = rng.u32(..keys).to_be_bytes().to_vec();
            let length = if rng.u8(..8) == 0 { 3_000 + rng.usize(..20_000) } else { rng.usize(..400) };
            let value = vec![rng.u8(..); length];
            database.put(&table, &key, &value).expect("put");
            rows.insert(key, value);
        }
    }
    let table = database.table("a").expect("table");
    let gone: Vec<Vec<u8>> = rows["a"].keys().filter(|_| rng.u8(..3) > 0).cloned().collect();
    for key in gone {
        database.delete(&table, &key).expect("delete");
        rows.get_mut("a").expect("a table").remove(&key);
    }
    database.drop_table("dropped").expect("drop");
    rows.remove("dropped");
    database.close().expect("close");
    rows
}

fn check(device: &SimDevice, options: &Options, rows: &Rows, place: &str) {
    let database = Database::open_in(device.directory(), Options { create: false, ..options.clone() });
    let database = database.unwrap_or_else(|error| panic!("{place}: {error}\n{}", device.dump()));
    let mut names = database.tables().expect("tables");
    names.sort();
    assert_eq!(names, rows.keys().cloned().collect::<Vec<_>>(), "{place}");
    for (name, rows) in rows {
        let table = database.open_table(name).expect("open table").expect("the table");
        assert!(contents(&database, &table) == *rows, "{place}: table {name}");
    }
    assert_sound(&database.verify(None).expect("verify"));
    database.close().expect("close");
}

#[test]
fn every_row_is_there_and_the_file_is_shorter() {
    for seed in seeds(3, 2, 1) {
        for page_bytes in [4096, 16_384] {
            let (device, options) = (SimDevice::new(seed), options(page_bytes));
            let rows = worn(&device, &options, seed, 300);
            let report = Database::compact_in(device.directory(), None).expect("compact");
            println!("seed {seed}, pages of {page_bytes}: {report:?}");
            assert!(report.bytes_after * 2 < report.bytes_before, "{report:?}");
            assert_eq!(device.image()["katydid.pages"].len() as u64, report.bytes_after);
            assert_sound(&Database::verify_in(device.directory(), None).expect("verify"));
            // The database is closed cleanly as before, so a second compacting is accepted, and
            // finds nothing to do.
            let again = Database::compact_in(device.directory(), None).expect("compact again");
            assert_eq!((again.bytes_before, again.bytes_after), (report.bytes_after, report.bytes_after));
            check(&device, &options, &rows, "compacted");
            // The compacted database can be written to and recovered: writes take pages of the new
            // file, and redo changes such pages.
            let database = Database::open_in(device.directory(), options.clone()).expect("open");
            let table = database.table("b").expect("table");
            (0..200u32).for_each(|key| database.put(&table, key.to_be_bytes(), [9; 700]).expect("put"));
            let device = device.reopen_after_crash(seed);
            let mut rows = rows;
            let b = rows.get_mut("b").expect("a table");
            (0..200u32).for_each(|key| drop(b.insert(key.to_be_bytes().to_vec(), vec![9; 700])));
            check(&device, &options, &rows, "after a crash");
        }
    }
}

/// A crash at each call leaves the old file or the new one, whole.
#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    let options = options(4096);
    let device = SimDevice::new(1);
    let rows = worn(&device, &options, 1, 60);
    let base = device.reopen_after_kill();
    let whole = base.reopen_after_kill();
    let report = Database::compact_in(whole.directory(), None).expect("compact");
    let steps = whole.steps();
    let mut lengths = BTreeMap::new();
    for step in 0..steps {
        for survival in [Survival::Random, Survival::DropAll, Survival::KeepAll] {
            let device = base.reopen_after_kill();
            device.crash_at(step);
            Database::compact_in(device.directory(), None).expect_err("a crash");
            let left = device.reopen_with(step, survival);
            let place = format!("step {step} of {steps}, {survival:?}");
            *lengths.entry(left.image()["katydid.pages"].len() as u64).or_insert(0) += 1;
            assert_sound(&Database::verify_in(left.directory(), None).expect("verify"));
            let again = device.reopen_with(step, survival);
            check(&left, &options, &rows, &place);
            assert!(!left.image().contains_key("katydid.pages.new"), "{place}: an opening leaves it");
            let done = Database::compact_in(again.directory(), None).expect("once more");
            assert_eq!(done.bytes_after, report.bytes_after, "{place}");
            assert!(!again.image().contains_key("katydid.pages.new"), "{place}");
        }
    }
    assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), [report.bytes_after, report.bytes_before]);
}

#[test]
fn a_failure_leaves_the_database_as_it_was() {
    let options = options(4096);
    let device = SimDevice::new(1);
    let rows = worn(&device, &options, 2, 60);
    let base = device.reopen_after_kill();
    let whole = base.reopen_after_kill();
    Database::compact_in(whole.directory(), None).expect("compact");
    for step in 0..whole.steps() {
        let device = base.reopen_after_kill();
        device.fail_at(step, Fault::Io);
        // The failed call may have been the removal of the unfinished file. The file does no harm,
        // and the next opening removes it.
        let error = Database::compact_in(device.directory(), None).expect_err("a call failed");
        assert!(matches!(error, Error::Device(_)), "step {step}: {error}");
        let left = device.reopen_after_kill();
        check(&left, &options, &rows, &format!("step {step}"));
        assert!(!left.image().contains_key("katydid.pages.new"), "step {step}: an opening leaves it");
    }
    let full = base.reopen_after_kill();
    full.set_capacity(full.used() + (40 << 10));
    let error = Database::compact_in(full.directory(), None).expect_err("no room");
    assert!(error.is_no_space(), "{error}");
    assert!(!full.image().contains_key("katydid.pages.new"), "it keeps the room that is left");
    check(&full, &options, &rows, "full");
}

#[test]
fn what_is_not_closed_or_damaged_is_left_alone() {
    let options = options(4096);
    let device = SimDevice::new(1);
    let rows = worn(&device, &options, 4, 60);
    let damaged = device.reopen_after_kill();
    assert!(damaged.corrupt("katydid.pages", 2 * 4096 + 300, 1), "the catalog's root");
    let before = damaged.image();
    match Database::compact_in(damaged.directory(), None) {
        Err(Error::Corrupt { page, .. }) => assert_eq!(page, Some(2)),
        other => panic!("{other:?}"),
    }
    assert!(damaged.image() == before);

    let open = device.reopen_after_kill();
    let database = Database::open_in(open.directory(), options.clone()).expect("open");
    let refused = Database::compact_in(open.directory(), None);
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    let table = database.table("a").expect("table");
    database.put(&table, "key", "value").expect("put");
    let killed = open.reopen_after_kill();
    let refused = Database::compact_in(killed.directory(), None);
    assert!(matches!(refused, Err(Error::Copy { fault: CopyFault::NotClosed, .. })), "{refused:?}");
    let mut rows = rows;
    rows.get_mut("a").expect("a table").insert(b"key".to_vec(), b"value".to_vec());
    check(&killed, &options, &rows, "after a kill");
}

#[test]
fn the_memory_engine_has_nothing_to_give_back() {
    let device = SimDevice::new(1);
    let options = options_for(EngineKind::Memory);
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let table = database.table("rows").expect("table");
    database.put(&table, "key", "value").expect("put");
    database.checkpoint().expect("checkpoint");
    database.close().expect("close");
    let before = device.image();
    let report = Database::compact_in(device.directory(), None).expect("compact");
    assert!(report.bytes_before == report.bytes_after && report.bytes_after > 0);
    assert!(device.image() == before);
}

/// If the log is short, `close` leaves the last rows of a memory engine's database only in the log.
/// A compaction must not lose these rows.
#[test]
fn a_database_of_the_memory_engine_is_left_as_it_is() {
    let mut options = options_for(EngineKind::Memory);
    options.advanced.log.background = katydid::testing::Background::Caller;
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let table = database.table("t").expect("table");
    (0..200u32).for_each(|key| database.put(&table, key.to_be_bytes(), [7; 1000]).expect("put"));
    database.checkpoint().expect("checkpoint");
    database.put(&table, "last", "in the log").expect("put");
    database.close().expect("close");
    let before = device.image();
    let report = Database::compact_in(device.directory(), None).expect("compact");
    assert!(report.bytes_before > 200_000 && report.bytes_after == report.bytes_before, "{report:?}");
    assert!(device.image() == before, "changed");
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.open_table("t").expect("open table").expect("the table");
    assert_eq!(contents(&database, &table).len(), 201);
}
