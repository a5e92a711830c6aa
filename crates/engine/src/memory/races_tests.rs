//! Checkpoints and feeds that run at the same time as commits. In some tests a seed picks the
//! order. Most tests end with a crash.

use crate::interleaved_tests::open_with_places;
use crate::pause::scheduler::{Task, for_seeds, run};
use crate::pause::{PausePoint, with_hook};
use crate::shard::shard_of_thread;
use crate::{
    ArchiveFault, BackupOptions, Change, ChangesFrom, CommitStamp, Database, Durability, Error, LogArchive,
    MemoryDirectory, MemoryOptions, Options, RestorePoint, Result, TransactionOptions,
};
use katydid_device::{Directory, SimDevice, Survival};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::channel;

const STREAMS: usize = 2;

fn open(device: &SimDevice) -> Database {
    let memory = MemoryOptions { streams: STREAMS as u16, ..MemoryOptions::default() };
    let options = Options { engine: memory.into(), ..Options::default() };
    open_with_places(device, options)
}

fn get(database: &Database, table: &str, key: &str) -> Option<Vec<u8>> {
    let table = database.open_table(table).expect("open table").expect("the table");
    database.get(&table, key).expect("get")
}

/// A `Buffered` transaction changes a row of each of two tables while a checkpoint walks them. The
/// machine crashes when the checkpoint is done. After recovery the transaction is there whole, or
/// not at all.
#[test]
fn a_checkpoint_beside_a_commit_has_no_half_of_it() {
    for_seeds(120, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device);
        let tables = ["a", "b"].map(|name| database.table(name).expect("table"));
        for table in &tables {
            database.put(table, "k", "old").expect("put");
        }
        let change = || -> Result<CommitStamp> {
            let buffered =
                TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
            let txn = database.begin_with(buffered)?;
            for table in &tables {
                txn.put(table, "k", "new")?;
            }
            txn.commit()
        };
        // The commit fails if the device is already frozen.
        let commit = || drop(change());
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

/// One task puts a key, through the first stream of the log. Another task removes the key, through
/// the second stream, and collects versions that no reader needs any more. A checkpoint that runs
/// at the same time notes the end of the first stream, and later that of the second. So a put may
/// lie above the noted end of the first stream, and its removal below the noted end of the second.
/// The removed key does not come back.
#[test]
fn a_checkpoint_beside_a_removal_brings_nothing_back() {
    for_seeds(100, |seed| {
        let device = SimDevice::new(seed);
        let database = open(&device);
        let table = database.table("t").expect("table");
        // Task 0 appends to stream 0, task 1 to stream 1.
        let puts = || {
            for round in 0..3 {
                database.put(&table, "k", format!("value {round}")).expect("put");
            }
        };
        let removes = || {
            for _ in 0..5 {
                database.delete(&table, "k").expect("delete");
                database.memory().engine().store.collect();
            }
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(puts), Box::new(removes), Box::new(checkpoint)];
        let order = run(seed, tasks);
        let last = get(&database, "t", "k");
        device.freeze();
        let device = device.reopen_with(1, Survival::DropAll);
        let database = open(&device);
        assert_eq!(get(&database, "t", "k"), last, "seed {seed}: {order:?}");
    });
}

/// Runs `work` on a thread whose transactions go to this stream.
fn on_stream(stream: usize, work: impl FnOnce() + Send) {
    let mut work = Some(work);
    while work.is_some() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if shard_of_thread() % STREAMS == stream
                    && let Some(work) = work.take()
                {
                    work();
                }
            });
        });
    }
}

/// A checkpoint has noted the end of the first stream, but not yet that of the second. At this
/// moment a key is put through the first stream and removed through the second. So the put lies
/// above the noted end of its stream, and the removal below. The removed key does not come back.
#[test]
fn a_removal_between_the_places_of_two_streams_stays() {
    let device = SimDevice::new(1);
    let database = open(&device);
    let table = database.table("t").expect("table");
    let noted = Cell::new(0);
    let hook = {
        let (database, table) = (database.clone(), table.clone());
        move |place| {
            noted.set(noted.get() + u32::from(place == PausePoint::StreamNoted));
            if place == PausePoint::StreamNoted && noted.get() == 2 {
                on_stream(0, || database.put(&table, "k", "value").expect("put"));
                on_stream(1, || assert!(database.delete(&table, "k").expect("delete")));
                database.memory().engine().store.collect();
            }
        }
    };
    with_hook(hook, || database.checkpoint().expect("checkpoint"));
    device.freeze();
    let device = device.reopen_with(1, Survival::DropAll);
    let database = open(&device);
    assert_eq!(get(&database, "t", "k"), None);
}

/// A transaction has its versions in place, and is about to append its record, when a transaction
/// with a greater stamp becomes durable. The feed returns the transaction with the lower stamp
/// first.
#[test]
fn the_feed_waits_for_a_transaction_that_is_about_to_be_appended() {
    let device = SimDevice::new(1);
    let database = open(&device);
    let table = database.table("t").expect("table");
    let mut changes = database.changes(&ChangesFrom::Now).expect("changes");
    let early = RefCell::new(database.changes(&ChangesFrom::Now).expect("changes"));
    let met = Cell::new(false);
    let hook = {
        let (database, table) = (database.clone(), table.clone());
        move |place| {
            if place == PausePoint::Append && !met.replace(true) {
                on_stream(1, || database.put(&table, "later", "1").expect("put"));
                let given = early.borrow_mut().try_next().expect("feed");
                assert_eq!(given, None, "a transaction before it may still come");
            }
        }
    };
    with_hook(hook, || database.put(&table, "before", "1").expect("put"));
    let mut keys = Vec::new();
    while let Some(transaction) = changes.try_next().expect("feed") {
        for change in transaction.changes {
            if let Change::Row { key, .. } = change {
                keys.push(String::from_utf8(key).expect("a key of this test"));
            }
        }
    }
    assert_eq!(keys, ["before", "later"]);
}

/// A transaction takes its stamp, and its record is appended above the cut of an archiver, while a
/// record with a greater stamp lies below the cut. The cut does not claim to have every commit up
/// to the greater stamp.
#[test]
fn a_cut_of_an_archive_claims_no_commit_behind_it() {
    let database = open(&SimDevice::new(1));
    let table = database.table("t").expect("table");
    let directory = || -> Arc<dyn Directory> { Arc::new(MemoryDirectory::new()) };
    let (backup, kept) = (directory(), directory());
    let mut archiver = database.log_archiver("test", 1 << 30).expect("archiver");
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let put = |key| {
        let (database, table) = (database.clone(), table.clone());
        move || {
            let txn = database.begin().expect("begin");
            txn.put(&table, key, "1").expect("put");
            txn.commit().expect("commit")
        }
    };
    let (stamped, is_stamped) = channel();
    let (go_on, may_go_on) = channel();
    let behind = std::thread::spawn({
        let (put, met) = (put("behind"), Cell::new(false));
        let hook = move |place| {
            if place == PausePoint::Append && !met.replace(true) {
                stamped.send(()).expect("the test waits");
                may_go_on.recv().expect("the test goes on");
            }
        };
        || with_hook(hook, put)
    });
    is_stamped.recv().expect("it comes to its append");
    let before = put("before")();
    let behind = Cell::new(Some(behind));
    let hook = move |place| {
        if place == PausePoint::Cut
            && let Some(behind) = behind.take()
        {
            go_on.send(()).expect("it waits");
            assert!(behind.join().expect("a commit") < before);
        }
    };
    let stretch = with_hook(hook, || archiver.try_next()).expect("archive").expect("a stretch");
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    archive.push(&stretch).expect("push");
    let point = RestorePoint::Stamp(before);
    match Database::restore_to_in(&[backup], kept, point, directory(), &BackupOptions::default()) {
        Err(Error::Archive { fault, .. }) => {
            assert!(matches!(*fault, ArchiveFault::EndsBefore { wanted, .. } if wanted == before), "{fault}");
        }
        other => panic!("restored without a commit: {other:?}"),
    }
}
