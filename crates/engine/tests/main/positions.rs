//! Databases whose log is far from its first byte: around positions that need more than 32 bits,
//! the committed rows are there after a crash, and no other rows. The tests use one thread and the
//! simulated device.

use crate::common::{self, contents, key, options_for};
use katydid::testing::{Background, Beginning, begin_at};
use katydid::{Database, EngineKind, Options};
use katydid_device::{SimDevice, Survival};
use std::collections::BTreeMap;

suite! { a_database_goes_on_across_positions_of_more_than_32_bits }

/// Positions that the log crosses.
const BORDERS: [u64; 3] = [1 << 32, 1 << 48, 1 << 61];
/// Number of bytes between the log's beginning and the border: less than the log grows in a life.
const NEAR: u64 = 64 << 10;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(engine: EngineKind) -> Options {
    let mut options = crate::common::with_streams(options_for(engine), 1);
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

fn open(engine: EngineKind, device: &SimDevice) -> Database {
    Database::open_in(device.directory(), options(engine)).expect("open")
}

/// Commits, goes back to savepoints, rolls back, and leaves a transaction that has not ended when
/// the machine crashes.
fn live(engine: EngineKind, device: &SimDevice, life: u64, expected: &mut Rows) {
    let database = open(engine, device);
    let table = database.table("t").expect("table");
    assert!(contents(&database, &table) == *expected, "life {life}: not what was committed");
    common::assert_sound(&database.verify(None).expect("verify"));
    for round in 0..30 {
        let txn = database.begin().expect("begin");
        let value = vec![(life * 30 + round) as u8; 1500];
        txn.put(&table, key(round), &value).expect("put");
        let savepoint = txn.savepoint();
        // These changes are more than undo keeps in memory, so that undo reads the log.
        for number in 0..6 {
            txn.put(&table, key(number), [0; 1500]).expect("put");
        }
        if round % 3 == 1 {
            txn.rollback().expect("rollback");
            continue;
        }
        txn.rollback_to(&savepoint).expect("rollback to the savepoint");
        let gone = key((round + 3) % 30);
        if round % 3 == 2 {
            txn.delete(&table, &gone).expect("delete");
            expected.remove(&gone);
        }
        txn.commit().expect("commit");
        expected.insert(key(round), value);
        if round == 15 {
            database.checkpoint().expect("checkpoint");
        }
    }
    let loser = database.begin().expect("begin");
    loser.put(&table, key(0), "lost").expect("put");
    let savepoint = loser.savepoint();
    for number in 1..6 {
        loser.put(&table, key(number), "lost").expect("put");
    }
    loser.rollback_to(&savepoint).expect("rollback to the savepoint");
    // The checkpoint captures the transaction as active, and its pages as dirty.
    database.checkpoint().expect("checkpoint");
    std::mem::forget(loser);
    device.freeze();
}

fn a_database_goes_on_across_positions_of_more_than_32_bits(engine: EngineKind) {
    for border in BORDERS {
        let device = SimDevice::new(border);
        open(engine, &device).close().expect("close");
        let beginning = Beginning { position: border - NEAR, transaction: border - 8, table: 1 };
        begin_at(device.directory().as_ref(), beginning).expect("a database that holds nothing");
        let mut device = device.reopen_after_kill();
        let mut expected = Rows::new();
        for life in 0..4 {
            live(engine, &device, life, &mut expected);
            device = device.reopen_with(life, Survival::DropAll);
        }
        let database = open(engine, &device);
        let table = database.table("t").expect("table");
        assert!(contents(&database, &table) == expected, "not what was committed");
        let end = database.stat().expect("stat").log.streams[0].reserved;
        assert!(end.get() > border, "the log ends at {end}, below the border");
    }
}
