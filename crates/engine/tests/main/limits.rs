//! Limits that are reached: few sessions of the log, a log that may not grow. A call waits or gets
//! a typed error, and the limit does not block the database for good.

use crate::common::{self, key, options_for, small_options, with_advanced};
use katydid::testing::{Beginning, begin_at};
use katydid::{
    Database, Durability, EngineKind, Error, Lsn, Options, Read, Savepoint, Table, Transaction,
    TransactionOptions,
};
use katydid_device::{MemoryDirectory, SimDevice, Survival};
use std::sync::{Arc, Barrier};

suite! {
    no_thread_is_refused_for_want_of_sessions,
    appends_beyond_the_sessions_wait_for_each_other,
    refusals_at_the_hard_limit_do_not_grow_the_log,
    no_table_gets_a_number_that_another_had,
    writes_are_refused_where_the_log_ends_for_good,
}

/// Makes a database whose positions and numbers begin at `beginning`. Returns its directory and
/// options.
fn beginning(engine: EngineKind, beginning: Beginning) -> (Arc<MemoryDirectory>, Options) {
    let (directory, options) = (Arc::new(MemoryDirectory::new()), options_for(engine));
    Database::open_in(directory.clone(), options.clone()).expect("open").close().expect("close");
    begin_at(directory.as_ref(), beginning).expect("a database that holds nothing");
    (directory, options)
}

/// After the greatest number of a table no table can be made. Without the refusal, the next number
/// would wrap around to the number of the catalog.
fn no_table_gets_a_number_that_another_had(engine: EngineKind) {
    let last = Beginning { position: 0, transaction: 1, table: u32::MAX - 2 };
    let (directory, options) = beginning(engine, last);
    let database = Database::open_in(directory.clone(), options.clone()).expect("open");
    for name in ["a", "b"] {
        let table = database.table(name).expect("two numbers are left");
        database.put(&table, name, name).expect("put");
    }
    assert!(database.drop_table("b").expect("drop"));
    let refused = database.table("b").expect_err("its number is not used again");
    assert!(matches!(refused, Error::TooManyTables { limit } if limit == u32::MAX - 1), "{refused}");
    assert_eq!(database.tables().expect("tables"), ["a"]);
    common::assert_sound(&database.verify(None).expect("verify"));
    database.close().expect("close");
    drop(database);
    let database = Database::open_in(directory, options).expect("open");
    let table = database.table("a").expect("it is there");
    assert_eq!(database.get(&table, "a").expect("get").as_deref(), Some(&b"a"[..]));
    assert!(matches!(database.table("c"), Err(Error::TooManyTables { .. })));
}

/// No write is accepted once the log has reached its greatest position. The rows stay readable,
/// even for later openings. Without the refusal, the log would prepare one segment after the other.
fn writes_are_refused_where_the_log_ends_for_good(engine: EngineKind) {
    let last = Beginning { position: Lsn::LIMIT.get() - (4 << 20), transaction: 1, table: 1 };
    let (directory, options) = beginning(engine, last);
    let database = Database::open_in(directory.clone(), options.clone()).expect("open");
    let table = database.table("t").expect("table");
    let mut written = 0;
    let refused = loop {
        match database.put(&table, key(written % 100), [1; 1000]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 20_000);
    };
    assert!(refused.is_no_space(), "{refused:?}");
    assert!(written > 100, "{written}");
    let again = database.put(&table, key(0), [2; 1000]).expect_err("there is no room");
    assert!(again.is_no_space(), "{again:?}");
    assert_eq!(database.get(&table, key(0)).expect("get").as_deref(), Some(&[1; 1000][..]));
    database.close().expect("close");
    drop((table, database));
    // Openings use the reserve that writers leave alone.
    for _ in 0..3 {
        let database = Database::open_in(directory.clone(), options.clone()).expect("open");
        let table = database.table("t").expect("table");
        assert_eq!(database.get(&table, key(0)).expect("get").as_deref(), Some(&[1; 1000][..]));
        database.close().expect("close");
        assert!(Database::verify_in(directory.clone(), None).expect("verify").is_sound());
    }
}

fn with_sessions(engine: EngineKind, sessions_max: usize) -> Database {
    let mut options = options_for(engine);
    options.advanced.log.sessions_max = sessions_max;
    Database::open_in(Arc::new(MemoryDirectory::new()), options).expect("open")
}

/// More threads than shards run one after the other. Each leaves its session idle, so a later
/// thread has to take an idle session of another thread.
fn no_thread_is_refused_for_want_of_sessions(engine: EngineKind) {
    for sessions_max in [1, 7, 64] {
        let database = with_sessions(engine, sessions_max);
        let table = database.table("t").expect("table");
        let (database, table) = (&database, &table);
        for number in 0..80 {
            let open = std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    database.put(table, key(number), "value").expect("put");
                    let txn = database.begin().expect("begin");
                    txn.put(table, "kept open", number.to_be_bytes()).expect("put");
                    txn
                });
                worker.join().expect("no panic")
            });
            // The rollback runs on another thread than the writes.
            std::thread::scope(|scope| {
                scope.spawn(|| open.rollback().expect("a rollback is always possible"));
            });
        }
        database.checkpoint().expect("checkpoint");
        assert_eq!(common::contents(database, table).len(), 80);
    }
}

fn appends_beyond_the_sessions_wait_for_each_other(engine: EngineKind) {
    let database = with_sessions(engine, 1);
    let table = database.table("t").expect("table");
    let start = Barrier::new(12);
    let (database, table, start) = (&database, &table, &start);
    std::thread::scope(|scope| {
        for thread in 0..12u64 {
            scope.spawn(move || {
                start.wait();
                for number in 0..40 {
                    database.put(table, key(thread * 100 + number), [7; 3000]).expect("put");
                }
            });
        }
    });
    assert_eq!(common::contents(database, table).len(), 12 * 40);
}

/// In the paged engine an open transaction that has written keeps the log from being trimmed. In
/// the memory engine no transaction does, so no write is refused.
fn refusals_at_the_hard_limit_do_not_grow_the_log(engine: EngineKind) {
    let mut options = with_advanced(options_for(engine), |advanced| {
        advanced.checkpoint_bytes = 64 << 10;
        advanced.log_soft_bytes = 128 << 10;
        advanced.log_hard_bytes = 256 << 10;
    });
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 64 << 10, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 64 << 10;
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let table = database.table("t").expect("table");
    let open = database.begin().expect("begin");
    open.put(&table, "pin", "v").expect("put");
    let mut refused = Vec::new();
    for number in 0..4000 {
        match database.put(&table, key(number % 500), [number as u8; 200]) {
            Ok(()) => {}
            Err(Error::LogFull { used, limit, .. }) => refused.push((used, limit)),
            Err(error) => panic!("{error}"),
        }
        if refused.len() == 500 {
            break;
        }
    }
    if engine == EngineKind::Memory {
        assert_eq!(refused, [], "a checkpoint makes room at any time");
        return;
    }
    let (first, limit) = refused[0];
    // Between the first refusal and the last, only a checkpoint that was under way appends records.
    let last = refused[refused.len() - 1].0;
    assert!(
        last <= first + 4096,
        "{first} bytes of log at the first refusal, {last} at the last, limit {limit}"
    );
    let (stat, before) = (|| database.stat().expect("stat").checkpoints, refused.len());
    let taken = stat();
    assert_eq!(before, 500);
    database.put(&table, "k", "v").expect_err("full");
    assert_eq!(stat(), taken, "a checkpoint that cannot move the log's start");
    open.rollback().expect("rollback");
    database.put(&table, "k", "v").expect("nothing keeps the log");
}

// ---- durable reads of keys that are locked already

fn durable() -> TransactionOptions {
    TransactionOptions {
        durability: Durability::Durable,
        read: Read::Durable,
        ..TransactionOptions::default()
    }
}

/// Key "k" has a durable value and then one that is not durable; key "gone" was durable, and its
/// removal is not. The reader locks both keys without being shown them, and reads. Then everything
/// that is not durable is lost, and what the reader was shown must still be there.
fn reads_what_lasts(
    case: &str,
    lock: impl Fn(&Transaction, &Table),
    read: impl Fn(&Transaction, &Table) -> Vec<Option<Vec<u8>>>,
) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), small_options()).expect("open");
    let table = database.table("t").expect("table");
    database.put(&table, "k", "first").expect("put");
    database.put(&table, "gone", "first").expect("put");
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let writer = database.begin_with(buffered).expect("begin");
    writer.put(&table, "k", "second").expect("put");
    writer.delete(&table, "gone").expect("delete");
    writer.commit().expect("commit");
    let reader = database.begin_with(durable()).expect("begin");
    lock(&reader, &table);
    let shown = read(&reader, &table);
    device.freeze();
    drop(reader);
    let device = device.reopen_with(1, Survival::DropAll);
    let database = Database::open_in(device.directory(), small_options()).expect("open");
    let table = database.open_table("t").expect("open table").expect("the table");
    let later = database.begin().expect("begin");
    assert_eq!(shown, read(&later, &table), "{case}: a durable read has shown what a crash took back");
}

#[test]
fn durable_reads_of_keys_that_are_locked_already_wait() {
    let both = |txn: &Transaction, table: &Table| {
        ["k", "gone"].map(|key| txn.get(table, key).expect("get")).to_vec()
    };
    let range = |txn: &Transaction, table: &Table| -> Vec<Option<Vec<u8>>> {
        txn.range(table, ..).map(|row| Some(row.expect("range").1)).collect()
    };
    let back = |txn: &Transaction, table: &Table| -> Vec<Option<Vec<u8>>> {
        txn.range(table, "a".."z").rev().map(|row| Some(row.expect("range").1)).collect()
    };
    let failed_insert = |txn: &Transaction, table: &Table| {
        assert!(matches!(txn.insert(table, "k", "mine"), Err(Error::KeyExists { .. })));
        let savepoint: Savepoint = txn.savepoint();
        txn.insert(table, "gone", "mine").expect("it is gone");
        txn.rollback_to(&savepoint).expect("rollback to the savepoint");
    };
    let rolled_back = |txn: &Transaction, table: &Table| {
        let savepoint = txn.savepoint();
        txn.put(table, "k", "mine").expect("put");
        txn.put(table, "gone", "mine").expect("put");
        txn.rollback_to(&savepoint).expect("rollback to the savepoint");
    };
    let deleted = |txn: &Transaction, table: &Table| {
        assert!(!txn.delete(table, "gone").expect("delete"));
        let savepoint = txn.savepoint();
        assert!(txn.delete(table, "k").expect("delete"));
        txn.rollback_to(&savepoint).expect("rollback to the savepoint");
    };
    let for_update = |txn: &Transaction, table: &Table| {
        // The range locks the interval. It shows only an entry whose commit the reader must wait
        // for.
        assert!(txn.range(table, ..).next().is_some());
    };
    for (name, lock) in [
        ("a failed insert", &failed_insert as &dyn Fn(&Transaction, &Table)),
        ("a rollback to a savepoint", &rolled_back),
        ("a delete that found nothing", &deleted),
        ("a range", &for_update),
    ] {
        reads_what_lasts(&format!("get after {name}"), lock, both);
        reads_what_lasts(&format!("range after {name}"), lock, range);
        reads_what_lasts(&format!("range from above after {name}"), lock, back);
    }
}

#[test]
fn durable_reads_of_the_first_unlocked_entry_wait() {
    let in_all = |txn: &Transaction, table: &Table| -> Vec<Option<Vec<u8>>> {
        let found = txn.first_unlocked(table, "k"..).expect("first unlocked");
        vec![found.map(|(_, value)| value)]
    };
    let where_one_is_gone = |txn: &Transaction, table: &Table| -> Vec<Option<Vec<u8>>> {
        let found = txn.first_unlocked(table, .."h").expect("first unlocked");
        vec![found.map(|(_, value)| value)]
    };
    reads_what_lasts("an entry", |_, _| {}, in_all);
    reads_what_lasts("no entry", |_, _| {}, where_one_is_gone);
}
