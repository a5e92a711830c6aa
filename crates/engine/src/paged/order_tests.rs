//! Crashes in the middle of a log write, with an inserter that does not keep records of different
//! sessions in the order of their appends. Each test chooses the session of each record.

use crate::shard::with_number;
use crate::{Database, Durability, Lsn, Options, PagedOptions, Table, Transaction, TransactionOptions};
use katydid_device::{SimDevice, Survival};
use katydid_wal::{Background, FileOptions, InserterDesign, Log};

/// Number of crashes. After each crash a different prefix of the write survives.
const CRASHES: u64 = 24;

fn options() -> Options {
    let pages = PagedOptions { page_bytes: 4096, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), ..Options::default() };
    let inserter = InserterDesign::Chunked { chunk_bytes: 2048, always: true };
    options.advanced.log.medium =
        FileOptions { segment_bytes: 256 << 10, inserter, ..FileOptions::default() }.into();
    options.advanced.log.reserve_bytes = 256 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

fn open(device: &SimDevice) -> Database {
    Database::open_in(device.directory(), options()).expect("open")
}

/// Begins a transaction whose commit does not wait for the log.
fn begin(database: &Database) -> Transaction {
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    database.begin_with(buffered).expect("begin")
}

/// Puts a value through the log's session number `session`.
fn put(session: usize, txn: &Transaction, table: &Table, key: &str, value: &[u8]) {
    with_number(session, || txn.put(table, key, value)).expect("put");
}

/// Returns the position of the transaction's last record.
fn last_of(txn: &Transaction, database: &Database) -> Lsn {
    let active = database.paged().engine().active.capture();
    active.iter().find(|entry| entry.txn == txn.id()).expect("it has written").last
}

/// Returns the end of the log that a crash left.
fn end_of_log(device: &SimDevice) -> Lsn {
    let directory = device.directory();
    let folder = directory.existing_subdirectory("log").expect("a directory").expect("the log");
    let log = Log::open_in(folder, options().advanced.log).expect("the log");
    log.first().reserved()
}

/// A transaction replaces a key of a commit that is not durable, through a session whose chunk lies
/// below that commit. The change must lie above the commit all the same. Otherwise a crash could
/// leave the change and not the commit. Undo, which begins with the transaction that wrote last,
/// would then find another value than the logged one, and the opening would fail.
#[test]
fn a_change_lies_above_the_commit_whose_key_it_replaces() {
    let device = SimDevice::new(1);
    let database = open(&device);
    let [table, low, high] = ["t", "low", "high"].map(|name| database.table(name).expect("table"));
    database.put(&table, "k", "old").expect("put");
    let (first, second) = (begin(&database), begin(&database));
    put(1, &first, &table, "k", b"new");
    put(0, &second, &low, "opens a chunk", b"");
    for number in 0..20 {
        put(1, &first, &high, &number.to_string(), &[7; 300]);
    }
    let first_ends = Lsn::new(with_number(1, || first.commit()).expect("commit").get());
    put(0, &second, &low, "in the chunk", b"");
    assert!(last_of(&second, &database) < first_ends, "the chunk was not open: the test shows nothing");
    put(0, &second, &table, "k", b"newer");
    device.crash_at(device.steps());
    database.sync().expect_err("a crash");
    let mut committed = 0;
    for crash in 0..CRASHES {
        let reopen = || device.reopen_with(crash, Survival::Prefix);
        let is_committed = end_of_log(&reopen()) >= first_ends;
        let expected: &[u8] = if is_committed { b"new" } else { b"old" };
        let after = reopen();
        let database = open(&after);
        let table = database.open_table("t").expect("open table").expect("the table");
        assert_eq!(database.get(&table, "k").expect("get").as_deref(), Some(expected), "crash {crash}");
        assert!(database.verify(None).expect("verify").is_sound(), "crash {crash}");
        committed += u64::from(is_committed);
    }
    assert!((1..CRASHES).contains(&committed), "{committed}: the test shows nothing");
}
