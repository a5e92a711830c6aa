//! Commits and the records that they wait for: after each acknowledged commit the machine crashes
//! and keeps only synced bytes. Each test chooses the stream of each transaction, so the result of
//! a test does not depend on the order of threads.

use crate::shard::with_number;
use crate::{
    CommitDependencies, CommitStamp, ConflictKind, Database, Durability, Error, LockRelease, MemoryOptions,
    Options, Result, Table, Transaction, TransactionOptions,
};
use katydid_device::{SimDevice, Survival};
use katydid_wal::Background;
use std::time::Duration;

fn options(commit_dependencies: CommitDependencies, background: Background) -> Options {
    let memory = MemoryOptions { streams: 2, commit_dependencies, ..MemoryOptions::default() };
    let mut options = Options { engine: memory.into(), ..Options::default() };
    options.advanced.log.background = background;
    options
}

fn open(device: &SimDevice, options: Options) -> (Database, Table) {
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.table("t").expect("table");
    (database, table)
}

fn begin(database: &Database, durability: Durability) -> Transaction {
    database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() }).expect("begin")
}

/// Begins a transaction that is later than `earlier` in the order of all transactions.
fn begin_after(earlier: &Transaction, database: &Database, durability: Durability) -> Transaction {
    loop {
        let txn = begin(database, durability);
        if txn.id() > earlier.id() {
            return txn;
        }
    }
}

/// Commits with a record in this stream.
fn commit_in(stream: usize, txn: Transaction) -> Result<CommitStamp> {
    with_number(stream, || txn.commit())
}

/// Returns the database after a crash that keeps only synced bytes.
fn crash(device: &SimDevice, options: Options) -> (Database, Table) {
    device.freeze();
    open(&device.reopen_with(1, Survival::DropAll), options)
}

/// A transaction finds no value of a key, and inserts the key. Before it commits, two earlier
/// transactions insert the key and remove it, and the removal is not durable. The second insertion
/// is acknowledged only after the removal is durable. Otherwise the crash would leave two
/// acknowledged insertions of one key without a removal between them.
#[test]
fn an_insertion_waits_for_the_removal_that_it_replaces() {
    let (device, options) = (SimDevice::new(1), options(CommitDependencies::Tracked, Background::Caller));
    let (database, table) = open(&device, options.clone());
    let first = begin(&database, Durability::Durable);
    let removal = begin_after(&first, &database, Durability::Buffered);
    let second = begin_after(&removal, &database, Durability::Durable);
    second.insert(&table, "k", "second").expect("insert");
    first.insert(&table, "k", "first").expect("insert");
    commit_in(0, first).expect("commit");
    assert!(removal.delete(&table, "k").expect("delete"));
    removal.put(&table, "removed", "").expect("put");
    commit_in(0, removal).expect("commit");
    commit_in(1, second).expect("commit");
    let (database, table) = crash(&device, options);
    assert_eq!(database.get(&table, "k").expect("get").as_deref(), Some(&b"second"[..]));
    let is_removed = database.get(&table, "removed").expect("get").is_some();
    assert!(is_removed, "the key was inserted twice, and the removal between is lost");
}

/// With [`CommitDependencies::All`] an acknowledged commit is durable together with all commits
/// before it, in any stream. With the default rule an earlier commit of other keys may be lost.
#[test]
fn a_commit_that_depends_on_all_records_waits_for_a_commit_that_it_has_not_seen() {
    for (rule, waits) in [(CommitDependencies::Tracked, false), (CommitDependencies::All, true)] {
        let (device, options) = (SimDevice::new(1), options(rule, Background::Caller));
        let (database, table) = open(&device, options.clone());
        for (stream, key, durability) in
            [(0, "earlier", Durability::Buffered), (1, "later", Durability::Durable)]
        {
            let txn = begin(&database, durability);
            txn.put(&table, key, "").expect("put");
            commit_in(stream, txn).expect("commit");
        }
        let (database, table) = crash(&device, options);
        let is_there = |key| database.get(&table, key).expect("get").is_some();
        assert_eq!((is_there("earlier"), is_there("later")), (waits, true), "{rule}");
    }
}

/// A transaction has committed, and the device has not yet taken its record. With
/// [`LockRelease::AfterDurable`] no other transaction reads the versions of this transaction,
/// because a crash would take back a value that was read. With early release a transaction may read
/// such a value.
#[test]
fn versions_released_after_they_are_durable_are_not_read_before() {
    let cases = [
        (LockRelease::Early, Durability::Durable, true),
        (LockRelease::AfterDurable, Durability::Durable, false),
        (LockRelease::AfterDurable, Durability::Written, false),
    ];
    for (release, durability, is_read) in cases {
        let (device, mut options) =
            (SimDevice::new(1), options(CommitDependencies::Tracked, Background::Threads));
        options.advanced.lock_release = release;
        options.lock_wait = Duration::from_millis(1);
        let (database, table) = open(&device, options.clone());
        database.put(&table, "k", "old").expect("put");
        let writer = begin(&database, durability);
        writer.put(&table, "k", "new").expect("put");
        device.stall_writes(true);
        drop(writer.commit_async());
        let read = begin(&database, Durability::Buffered).get(&table, "k");
        let (database, table) = crash(&device, options);
        assert_eq!(database.get(&table, "k").expect("get").as_deref(), Some(&b"old"[..]));
        match read {
            Ok(value) => assert!(is_read, "{release}, {durability:?}: {value:?} was read, and is lost"),
            Err(Error::Conflict { kind: ConflictKind::Timeout, .. }) => {
                assert!(!is_read, "{release}, {durability:?}: nothing was read");
            }
            Err(error) => panic!("{release}, {durability:?}: {error}"),
        }
    }
}
