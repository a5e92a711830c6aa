//! Checkpoints of the memory engine on a device that is full, or nearly: a checkpoint is a second
//! copy of everything.

use super::common::{self, key, options_for};
use katydid::testing::Background;
use katydid::{AdvancedOptions, Database, EngineKind, Options, Table};
use katydid_device::{SimDevice, Survival};

const MIB: u64 = 1 << 20;

/// Returns options with which only a call takes a checkpoint, and no thread prepares segments in
/// the background.
fn options() -> Options {
    let common = crate::common::with_streams(options_for(EngineKind::Memory), 1);
    let mut options = Options {
        advanced: AdvancedOptions {
            checkpoint_bytes: 256 * MIB,
            log_soft_bytes: 512 * MIB,
            ..common.advanced
        },
        ..common
    };
    options.advanced.log.background = Background::Caller;
    options
}

fn open(device: &SimDevice) -> (Database, Table) {
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn fill(database: &Database, table: &Table, rows: u64) {
    let txn = database.begin().unwrap();
    (0..rows).for_each(|number| txn.put(table, key(number), vec![7; 10_000]).unwrap());
    txn.commit().unwrap();
}

fn checkpoint_files(device: &SimDevice) -> Vec<String> {
    let folder = device.directory().existing_subdirectory("checkpoints").unwrap().unwrap();
    let mut names = folder.list().unwrap();
    names.sort();
    names
}

#[test]
fn a_checkpoint_that_meets_a_full_device_leaves_no_file_and_keeps_no_room() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table, 400);
    // The device becomes full at another point of the checkpoint in each round: while the first
    // part is made, in the middle of the parts, or before the manifest.
    for room in [0, 4096, 8192, MIB, 3 * MIB] {
        let (files, used) = (checkpoint_files(&device), device.used());
        device.set_capacity(used + room);
        let refused = database.checkpoint().unwrap_err();
        assert!(refused.is_no_space(), "{refused}");
        assert_eq!(checkpoint_files(&device), files, "with {room} bytes of room");
        assert_eq!(device.used(), used, "with {room} bytes of room");
        device.set_capacity(u64::MAX);
        database.put(&table, "goes on", "there is room").unwrap();
    }
    database.checkpoint().unwrap();
    let device = device.reopen_with(1, Survival::DropAll);
    drop((table, database));
    let (database, table) = open(&device);
    assert_eq!(common::contents(&database, &table).len(), 401);
}

#[test]
fn what_a_crash_leaves_of_a_checkpoint_goes_with_the_next_opening() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table, 400);
    database.checkpoint().unwrap();
    let files = checkpoint_files(&device);
    // From the sixth step of the checkpoint on, the device refuses all calls. So the process dies
    // with a part half written.
    device.crash_at(device.steps() + 5);
    database.checkpoint().unwrap_err();
    let device = device.reopen_with(1, Survival::KeepAll);
    drop((table, database));
    assert_ne!(checkpoint_files(&device), files, "the test shows nothing");
    let (database, table) = open(&device);
    assert_eq!(checkpoint_files(&device), files);
    assert_eq!(common::contents(&database, &table).len(), 400);
}

#[test]
fn a_database_opened_to_read_after_a_crash_is_closed_without_a_copy_of_it() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table, 400);
    let device = device.reopen_after_kill();
    drop((table, database));
    for _ in 0..2 {
        device.set_capacity(u64::MAX);
        let database = Database::open_in(device.directory(), options()).unwrap();
        let table = database.open_table("t").unwrap().unwrap();
        device.set_capacity(device.used());
        assert_eq!(common::contents(&database, &table).len(), 400);
        database.close().expect("nothing had to be written");
        assert_eq!(checkpoint_files(&device), [] as [&str; 0], "no checkpoint was taken");
    }
}

#[test]
fn closing_on_a_full_device_succeeds_and_loses_nothing() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table, 400);
    let used = device.used();
    device.set_capacity(used + MIB);
    database.close().expect("the log has everything");
    assert_eq!(checkpoint_files(&device), [] as [&str; 0]);
    device.set_capacity(u64::MAX);
    let device = device.reopen_with(1, Survival::DropAll);
    drop((table, database));
    let (database, table) = open(&device);
    assert_eq!(common::contents(&database, &table).len(), 400);
    // With room, closing takes a checkpoint, because the log is as long as the rows.
    database.put(&table, "one more", "row").unwrap();
    database.close().unwrap();
    assert_ne!(checkpoint_files(&device), [] as [&str; 0]);
}

#[test]
fn a_small_change_of_a_large_database_is_closed_without_a_copy_of_all() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table, 400);
    database.close().unwrap();
    drop((table, database));
    let files = checkpoint_files(&device);
    for round in 0..3u64 {
        let (database, table) = open(&device);
        assert_eq!(common::contents(&database, &table).len() as u64, 400 + round);
        database.put(&table, key(1000 + round), "small").unwrap();
        database.close().unwrap();
        drop((table, database));
        assert_eq!(checkpoint_files(&device), files);
    }
    let (database, table) = open(&device);
    assert_eq!(common::contents(&database, &table).len(), 403);
    database.checkpoint().expect("it can be asked for");
    assert_ne!(checkpoint_files(&device), files);
}
