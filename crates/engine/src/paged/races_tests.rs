//! Tests of checkpoints that run beside writers and write-back. A seed picks the order of the
//! steps, and each test ends with a crash. The tests check the rules on which a checkpoint relies
//! when it captures the active transactions and the dirty pages.

use crate::interleaved_tests::open_with_places;
use crate::pause::scheduler::{Task, for_seeds, run};
use crate::{Database, Durability, Lsn, Options, PagedOptions, Table, TransactionOptions};
use katydid_device::{SimDevice, Survival};

fn open(device: &SimDevice) -> Database {
    let pages = PagedOptions { page_bytes: 4096, cache_bytes: 64 * 4096, ..PagedOptions::default() };
    let options = Options { engine: pages.into(), ..Options::default() };
    open_with_places(device, options)
}

/// Makes a database with keys "k" and "other", both with value "old" and in place.
fn made(device: &SimDevice) -> (Database, Table) {
    let database = open(device);
    let table = database.table("t").expect("table");
    for key in ["k", "other"] {
        database.put(&table, key, "old").expect("put");
    }
    database.paged().engine().checkpoint_all().expect("checkpoint");
    (database, table)
}

/// Returns the values of "k" and "other" after a crash that leaves only what is durable.
fn after_crash(device: &SimDevice) -> [Option<Vec<u8>>; 2] {
    let device = device.reopen_with(1, Survival::DropAll);
    let database = open(&device);
    let table = database.open_table("t").expect("open table").expect("the table");
    assert!(database.verify(None).expect("verify").is_sound());
    ["k", "other"].map(|key| database.get(&table, key).expect("get"))
}

const OLD: Option<&[u8]> = Some(b"old");
const NEW: Option<&[u8]> = Some(b"new");

/// A transaction writes its first record while a checkpoint begins, and has not ended when the
/// machine crashes after the checkpoint. Recovery must roll the transaction back.
#[test]
fn a_checkpoint_beside_a_first_record_leaves_no_loser() {
    for_seeds(120, |seed| {
        let device = SimDevice::new(seed);
        let (database, table) = made(&device);
        let loser = || {
            let txn = database.begin().expect("begin");
            txn.put(&table, "k", "lost").expect("put");
            // The transaction neither commits nor rolls back before the crash.
            std::mem::forget(txn);
        };
        let winner = || {
            let buffered =
                TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
            let txn = database.begin_with(buffered).expect("begin");
            txn.put(&table, "other", "new").expect("put");
            txn.commit().expect("commit");
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(checkpoint), Box::new(loser), Box::new(winner)];
        let order = run(seed, tasks);
        database.sync().expect("sync");
        device.freeze();
        let [k, other] = after_crash(&device);
        assert_eq!((k.as_deref(), other.as_deref()), (OLD, NEW), "seed {seed}: {order:?}");
    });
}

/// A page is being written back while a checkpoint captures, and the machine crashes when the
/// checkpoint is done. Redo must still find the page's records in the log.
#[test]
fn a_checkpoint_beside_a_write_back_keeps_the_log_of_its_pages() {
    for_seeds(120, |seed| {
        let device = SimDevice::new(seed);
        let (database, table) = made(&device);
        database.put(&table, "k", "new").expect("put");
        let write_back = || {
            // The crash may have frozen the device already.
            let _written = database.paged().engine().pool.flush_older(Lsn::new(u64::MAX));
        };
        let checkpoint = || {
            database.checkpoint().expect("checkpoint");
            device.freeze();
        };
        let tasks: Vec<Task<'_>> = vec![Box::new(checkpoint), Box::new(write_back)];
        let order = run(seed, tasks);
        let [k, other] = after_crash(&device);
        assert_eq!((k.as_deref(), other.as_deref()), (NEW, OLD), "seed {seed}: {order:?}");
    });
}
