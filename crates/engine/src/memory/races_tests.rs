//! Checkpoints beside commits, in orders that a seed picks, up to a crash.

use crate::pause::scheduler::{Task, for_seeds, run};
use crate::{Database, Durability, EngineKind, Options, TransactionOptions};
use katydid_device::{SimDevice, Survival};
use katydid_wal::Background;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(device: &SimDevice) -> Database {
    let mut options = Options { engine: EngineKind::Memory, streams: 2, ..Options::default() };
    options.log.segment_bytes = 64 << 10;
    options.log.reserve_bytes = 64 << 10;
    options.log.ring_bytes = 16 << 10;
    options.log.run_ahead_bytes = 8 << 10;
    options.log.spare_segments = 1;
    options.log.background = Background::Caller;
    Database::open_in(device.directory(), options).expect("open")
}

fn get(database: &Database, table: &str, key: &str) -> Option<Vec<u8>> {
    let table = database.open_table(table).expect("open table").expect("the table");
    database.get(&table, key).expect("get")
}

/// A transaction changes a row of each of two tables while a checkpoint walks them, and is not durable by itself. The machine crashes when
/// the checkpoint is done: the transaction is there whole, or not at all.
#[test]
fn a_checkpoint_beside_a_commit_has_no_half_of_it() {
    for_seeds(120, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device);
        let tables = ["a", "b"].map(|name| database.table(name).expect("table"));
        for table in &tables {
            database.put(table, "k", "old").expect("put");
        }
        let commit = || {
            let buffered =
                TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
            let mut txn = database.begin_with(buffered).expect("begin");
            for table in &tables {
                txn.put(table, "k", "new").expect("put");
            }
            txn.commit().expect("commit");
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
            device.freeze();
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(checkpoint), Box::new(commit)];
        let order = run(seed, tasks);
        let device = device.reopen_with(1, Survival::DropAll);
        let database = open(&device);
        let (a, b) = (get(&database, "a", "k"), get(&database, "b", "k"));
        assert_eq!(a, b, "seed {seed}: half of a transaction; {order:?}");
    });
}

/// A key is put and removed, in different streams, while a checkpoint notes where they stand: what was removed does not come back.
#[test]
fn a_checkpoint_beside_a_removal_brings_nothing_back() {
    for_seeds(240, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device);
        let table = database.table("t").expect("table");
        let removed = AtomicBool::new(false);
        let put = || database.put(&table, "k", "value").expect("put");
        let remove = || {
            removed.store(database.delete(&table, "k").expect("delete"), Ordering::Relaxed);
            database.memory().engine().store.collect();
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(checkpoint), Box::new(put), Box::new(remove)];
        let order = run(seed, tasks);
        device.freeze();
        let device = device.reopen_with(1, Survival::DropAll);
        let database = open(&device);
        assert_eq!(get(&database, "t", "k").is_none(), removed.into_inner(), "seed {seed}: {order:?}");
    });
}
