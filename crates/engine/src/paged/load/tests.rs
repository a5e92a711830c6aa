//! Tests of crashes after each step of a load, and of the next opening, which may be read-only.

use super::{LoadRecords, PagedLoad};
use crate::control;
use crate::engine::{Engine as _, EngineLoad};
use crate::options::Access;
use crate::{Database, Options, PagedOptions, RepairMode, Result};
use katydid_device::{SimDevice, Survival};
use katydid_wal::{AppendClass, Background};
use std::collections::BTreeMap;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(access: Access) -> Options {
    let pages = PagedOptions { page_bytes: 4096, cache_bytes: 16 * 4096, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), access, ..Options::default() };
    options.advanced.log.medium =
        katydid_wal::FileOptions { segment_bytes: 64 << 10, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

fn rows() -> Rows {
    (0..400u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; number as usize % 300])).collect()
}

/// Does the steps of a load up to `step`, then crashes the machine.
fn crashed_behind(step: u8) -> SimDevice {
    let device = SimDevice::new(u64::from(step));
    let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
    database.table("t").expect("table");
    let inside = database.paged();
    let table = inside.open_table("t").expect("open table").expect("the table");
    let mut load = inside.load(&table).expect("step 1");
    let done = steps(&mut load, step);
    database.sync().expect("sync");
    device.freeze();
    done.expect("the steps");
    device.reopen_with(1, Survival::DropAll)
}

fn steps(load: &mut PagedLoad, last: u8) -> Result<()> {
    let database = load.database.clone();
    let engine = database.engine();
    if last >= 2 {
        rows().iter().try_for_each(|(key, value)| load.push(key, value))?;
        load.load.finish(engine.pages(), &mut LoadRecords { engine, class: AppendClass::Normal })?;
    }
    if last >= 3 {
        database.commit_load(load.tree)?;
    }
    if last >= 4 {
        engine.exchange_loaded(load.table.tree, load.tree)?;
    }
    if last >= 5 {
        database.remove_load(load.tree, true)?;
    }
    Ok(())
}

fn contents(database: &Database) -> Rows {
    let table = database.open_table("t").expect("open table").expect("the table");
    let txn = database.begin().expect("begin");
    txn.range(&table, ..).collect::<Result<_>>().expect("scan")
}

#[test]
fn the_next_opening_ends_a_load_or_takes_it_back() {
    for step in 1..=5 {
        let expected = if step < 3 { Rows::new() } else { rows() };
        let device = crashed_behind(step);
        let reader = Database::open_in(device.directory(), options(Access::ReadOnly)).expect("open");
        assert_eq!(contents(&reader), expected, "step {step}");
        drop(reader);
        // The first opening ends the load or takes it back; the second one finds no load.
        for _ in 0..2 {
            let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
            assert_eq!(contents(&database), expected, "step {step}");
            assert_eq!(database.tables().expect("tables"), ["t"]);
            assert!(database.paged().catalog().expect("catalog").loads.is_empty(), "step {step}");
            let report = database.verify(None).expect("verify");
            assert!(report.is_sound(), "step {step}: {:#?}", report.faults);
            database.close().expect("close");
        }
        let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
        assert!(database.drop_table("t").expect("drop"));
        let space = database.paged().engine().space.stat();
        assert_eq!(space.pages - space.free, 3, "step {step}: header, map and catalog");
    }
}

/// A crash leaves the former tree of a loaded table, and the control file is lost.
#[test]
fn a_repair_keeps_the_rows_of_a_load_that_had_not_freed_the_former_tree() {
    for step in 3..=5 {
        let device = crashed_behind(step);
        device.directory().remove(control::FILE_NAME).expect("remove");
        let report = Database::repair_in(device.directory(), RepairMode::Apply).expect("repair");
        assert_eq!(report.losses, [], "step {step}");
        let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
        assert_eq!(contents(&database), rows(), "step {step}");
    }
}

/// A load was given up, its tree could not be freed, and the table has got rows since. Then the
/// control file is lost.
#[test]
fn a_repair_keeps_the_rows_of_a_table_beside_a_load_that_was_given_up() {
    for others in [0, 20, 700u32] {
        let device = SimDevice::new(1);
        let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
        let table = database.table("t").expect("table");
        let inside = database.paged();
        let mut load =
            inside.load(&inside.open_table("t").expect("open").expect("the table")).expect("step 1");
        steps(&mut load, 2).expect("the steps");
        load.is_over = true;
        drop(load);
        let own: Rows = (0..others)
            .map(|number| (number.to_le_bytes().to_vec(), vec![9; number as usize % 200]))
            .collect();
        own.iter().for_each(|(key, value)| database.put(&table, key, value).expect("put"));
        database.sync().expect("sync");
        device.freeze();
        let device = device.reopen_with(1, Survival::DropAll);
        device.directory().remove(control::FILE_NAME).expect("remove");
        let report = Database::repair_in(device.directory(), RepairMode::Apply).expect("repair");
        assert_eq!(report.losses, [], "{others} rows");
        let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
        assert_eq!(contents(&database), own, "{others} rows");
    }
}

/// The machine crashes while a load is given up, and the control file is lost. The rows of the load
/// are in no table, wherever the crash strikes.
#[test]
fn a_repair_brings_no_row_of_a_load_back_that_was_being_given_up() {
    let given_up = |crash: Option<u64>| {
        let device = SimDevice::new(1);
        let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
        database.table("t").expect("table");
        let inside = database.paged();
        let mut load =
            inside.load(&inside.open_table("t").expect("open").expect("the table")).expect("step 1");
        steps(&mut load, 2).expect("the steps");
        database.sync().expect("sync");
        let before = device.steps();
        crash.into_iter().for_each(|step| device.crash_at(before + step));
        drop(load);
        let steps = device.steps() - before;
        device.freeze();
        (device, steps)
    };
    let (_, steps) = given_up(None);
    assert!(steps > 0);
    for step in 0..steps {
        for survival in [Survival::DropAll, Survival::KeepAll, Survival::Random] {
            let device = given_up(Some(step)).0.reopen_with(step, survival);
            device.directory().remove(control::FILE_NAME).expect("remove");
            Database::repair_in(device.directory(), RepairMode::Apply).expect("repair");
            let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
            assert_eq!(contents(&database), Rows::new(), "step {step}, {survival:?}");
        }
    }
}

/// A load is given up, and the pages of its tree cannot be read. So these pages stay in use,
/// although the load's entry in the catalog is gone: the transaction that removed the entry still
/// has to free them. Then the control file is lost.
#[test]
fn a_repair_brings_no_row_of_a_load_back_whose_tree_could_not_be_freed() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
    let (other, _) = (database.table("other").expect("table"), database.table("t").expect("table"));
    (0..600u32).for_each(|key| database.put(&other, key.to_be_bytes(), [1; 200]).expect("put"));
    let inside = database.paged();
    let mut load = inside.load(&inside.open_table("t").expect("open").expect("the table")).expect("step 1");
    steps(&mut load, 2).expect("the steps");
    // Other pages take the place of the load's pages in the cache.
    (0..3).for_each(|_| database.checkpoint().expect("checkpoint"));
    (0..600u32).for_each(|key| drop(database.get(&other, key.to_be_bytes()).expect("get")));
    assert_eq!(database.tables().expect("tables").len(), 2, "the catalog is in the cache");
    device.fail_reads_when(|path, _| path.ends_with("katydid.pages"));
    drop(load);
    assert!(inside.engine().unfinished.is_any(), "the tree was freed");
    database.sync().expect("sync");
    device.freeze();
    let device = device.reopen_with(1, Survival::DropAll);
    device.directory().remove(control::FILE_NAME).expect("remove");
    let report = Database::repair_in(device.directory(), RepairMode::Apply).expect("repair");
    assert_eq!(report.losses, []);
    let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
    assert_eq!(contents(&database), Rows::new());
}

/// The table is dropped before the load's tree is freed. The next opening frees the tree and
/// restores no table.
#[test]
fn a_load_without_its_table_is_freed() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
    database.table("t").expect("table");
    let inside = database.paged();
    let table = inside.open_table("t").expect("open table").expect("the table");
    let mut load = inside.load(&table).expect("step 1");
    steps(&mut load, 3).expect("the steps");
    load.is_over = true;
    drop(load);
    assert!(database.drop_table("t").expect("drop"));
    drop(table);
    database.close().expect("close");
    let database = Database::open_in(device.directory(), options(Access::ReadWrite)).expect("open");
    assert_eq!(database.tables().expect("tables"), [""; 0]);
    let space = database.paged().engine().space.stat();
    assert_eq!(space.pages - space.free, 3, "header, map and catalog");
}

/// A load takes pages that the table had before. A view that reads during the load sees none of the
/// load's keys.
#[test]
fn a_view_sees_no_key_of_a_load_by_an_old_way_to_its_page() {
    let mut options = options(Access::ReadWrite);
    options.engine =
        PagedOptions { page_bytes: 4096, cache_bytes: 1 << 20, ..PagedOptions::default() }.into();
    let database = Database::open_in(SimDevice::new(1).directory(), options).expect("open");
    let table = database.table("t").expect("table");
    let rows: Vec<_> = (0..10_000u32).map(|number| (number.to_be_bytes(), [7; 50])).collect();
    for chunk in rows.chunks(100) {
        let put =
            |txn: &crate::Transaction| chunk.iter().try_for_each(|(key, value)| txn.put(&table, key, value));
        database.transact(put).expect("put");
    }
    let read = |view: &crate::Transaction| {
        rows.iter().filter(|(key, _)| view.get(&table, key).expect("get").is_some()).count()
    };
    let view = database.begin_read_only().expect("a view");
    assert_eq!([read(&view), read(&view)], [rows.len(); 2]);
    view.commit().expect("the end");
    database.transact(|txn| txn.clear(&table)).expect("clear");
    database.checkpoint().expect("checkpoint");
    let inside = database.paged();
    let loaded = inside.open_table("t").expect("open table").expect("the table");
    let mut load = inside.load(&loaded).expect("load");
    let view = database.begin_read_only().expect("a view");
    for (key, value) in &rows {
        load.push(key, value).expect("push");
    }
    assert_eq!(read(&view), 0);
    load.finish().expect("finish");
    assert_eq!(read(&view), 0);
    view.commit().expect("the end");
    let view = database.begin_read_only().expect("a view");
    assert_eq!([read(&view), read(&view)], [rows.len(); 2]);
}
