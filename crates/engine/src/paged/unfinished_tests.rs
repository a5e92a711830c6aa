//! Tests of transactions that cannot end as long as a device error lasts.

use crate::engine::{Engine, EngineTransaction};
use crate::{AdvancedOptions, Database, Error, Options, PagedOptions, Table, TransactionOptions};
use katydid_device::{SimDevice, Survival};
use katydid_wal::Background;
use std::time::Duration;

static LONG: [u8; 20_000] = [7; 20_000];

fn options() -> Options {
    let mut options = Options {
        engine: PagedOptions {
            page_bytes: 4096,
            cache_bytes: 16 * 4096,
            undo_bytes: 4 << 10,
            ..PagedOptions::default()
        }
        .into(),
        // A wait for a lock that nothing releases fails at once.
        lock_wait: Duration::ZERO,
        advanced: AdvancedOptions {
            checkpoint_bytes: 64 << 10,
            log_soft_bytes: 256 << 10,
            log_hard_bytes: 1 << 20,
            retries: 0,
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    options.advanced.log.medium =
        katydid_wal::FileOptions { segment_bytes: 64 << 10, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

fn open(device: &SimDevice) -> (Database, Table) {
    let database = Database::open_in(device.directory(), options()).expect("open");
    let table = database.table("t").expect("table");
    (database, table)
}

fn key(number: u32) -> String {
    format!("{number:04}")
}

/// Puts more rows than the cache holds, so that earlier pages leave the cache.
fn fill(database: &Database, table: &Table) {
    for number in 0..600 {
        database.put(table, key(number), [1; 200]).expect("put");
    }
    for _ in 0..3 {
        database.checkpoint().expect("checkpoint");
    }
    for number in 100..600 {
        database.get(table, key(number)).expect("get");
    }
}

fn fail_reads_of_pages(device: &SimDevice) {
    device.fail_reads_when(|path, _| path.ends_with("katydid.pages"));
}

/// Changes key 0 in a transaction whose rollback fails.
fn half_rolled_back(device: &SimDevice, database: &Database, table: &Table) {
    database.put(table, key(0), [1; 200]).expect("put");
    let txn = database.begin().expect("begin");
    txn.put(table, key(0), [2; 200]).expect("put");
    fill_cache(database, table);
    fail_reads_of_pages(device);
    let refused = txn.rollback().expect_err("its page cannot be read");
    assert!(matches!(refused, Error::Device(_)), "{refused}");
}

/// Reads other pages until the cache holds no page of low keys. Takes checkpoints first, so that
/// the pages are clean and can leave the cache.
fn fill_cache(database: &Database, table: &Table) {
    for _ in 0..3 {
        database.checkpoint().expect("checkpoint");
    }
    for number in 100..600 {
        database.get(table, key(number)).expect("get");
    }
}

fn unended(database: &Database) -> bool {
    database.paged().engine().unfinished.is_any()
}

fn is_device_error(error: &Error) -> bool {
    matches!(error, Error::Unended { cause, .. } if matches!(**cause, Error::Device(_)))
}

#[test]
fn a_rollback_that_met_a_read_error_is_done_when_its_keys_are_wanted() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    half_rolled_back(&device, &database, &table);
    // The key cannot be locked, because the rollback still cannot read the key's page. The error
    // says so.
    let refused = database.get(&table, key(0)).expect_err("its page cannot be read");
    assert!(is_device_error(&refused), "{refused}");
    assert!(!refused.is_retryable());
    assert!(unended(&database));
    device.heal();
    assert_eq!(database.get(&table, key(0)).expect("get").as_deref(), Some(&[1; 200][..]));
    assert!(!unended(&database));
    assert_eq!(database.stat().expect("stat").transactions_active, 0);
}

#[test]
fn a_rollback_that_met_a_read_error_is_done_by_the_next_checkpoint_thread_run() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    half_rolled_back(&device, &database, &table);
    database.run_background();
    assert!(unended(&database), "the device still fails");
    device.heal();
    database.paged().engine().schedule.worker.notify();
    database.run_background();
    assert!(!unended(&database));
}

#[test]
fn a_rollback_that_met_a_read_error_is_done_by_closing() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    half_rolled_back(&device, &database, &table);
    device.heal();
    database.close().expect("close");
    drop((database, table));
    let report = Database::verify_in(device.directory(), None).expect("verify");
    assert!(report.clean && report.is_sound(), "{report:?}");
    let (database, table) = open(&device);
    assert_eq!(database.get(&table, key(0)).expect("get").as_deref(), Some(&[1; 200][..]));
}

#[test]
fn a_rollback_that_met_a_read_error_is_done_by_recovery() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    half_rolled_back(&device, &database, &table);
    // Recovery finishes the rollback, because the log has its records and the checkpoint captures
    // the transaction.
    database.put(&table, key(5), "after").expect_err("its page cannot be read");
    device.heal();
    database.paged().engine().checkpoint_all().expect("checkpoint");
    let device = device.reopen_with(1, Survival::DropAll);
    let (database, table) = open(&device);
    assert_eq!(database.get(&table, key(0)).expect("get").as_deref(), Some(&[1; 200][..]));
}

#[test]
fn a_commit_that_could_not_free_what_it_let_go_of_does_not_keep_the_log() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    database.put(&table, "long", LONG).expect("put");
    fill(&database, &table);
    let txn = database.begin().expect("begin");
    txn.put(&table, "long", "short").expect("put");
    fail_reads_of_pages(&device);
    txn.commit().expect("the commit stands");
    assert!(unended(&database), "the test shows nothing");
    device.heal();
    // The loop logs several times as much as the log may hold.
    for number in 0..12_000u32 {
        database.put(&table, key(number % 600), [number as u8; 200]).expect("nothing keeps the log");
        database.run_background();
    }
    assert!(!unended(&database));
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound(), "{:#?}", report.faults);
}

/// A checkpoint captures a committed transaction that still has a long value to free, and the
/// commit record lies below the checkpoint. Recovery learns only from the capture that the
/// transaction is committed. Without the capture, recovery would roll back an acknowledged commit,
/// and the opening would fail.
#[test]
fn a_commit_that_could_not_free_what_it_let_go_of_stands_after_a_checkpoint_and_a_crash() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    database.put(&table, "long", LONG).expect("put");
    fill(&database, &table);
    let txn = database.begin().expect("begin");
    txn.put(&table, "long", "short").expect("put");
    fail_reads_of_pages(&device);
    let committed = txn.commit().expect("the commit stands");
    database.paged().engine().checkpoint_all().expect("checkpoint");
    assert!(unended(&database), "the test shows nothing");
    device.heal();
    device.freeze();
    let device = device.reopen_with(1, Survival::DropAll);
    let (database, table) = open(&device);
    assert_eq!(database.get(&table, "long").expect("get").as_deref(), Some(&b"short"[..]), "{committed:?}");
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound(), "{:#?}", report.faults);
}

#[test]
fn a_table_whose_creation_could_not_be_rolled_back_is_not_seen() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    let engine = database.paged().engine();
    // This is the state that a failed creation leaves: a changed catalog, and a rollback that
    // fails.
    let mut txn = database.paged().begin(TransactionOptions::default()).expect("begin").of_catalog();
    txn.statement(|engine, writer| {
        let (pages, id) = (engine.pages(), crate::TableId::new(77));
        let writer = &mut crate::paged::writer::DoRecords { engine, writer, versions: None };
        let tree = crate::paged::tree::Tree::create(pages, id, writer)?;
        crate::paged::catalog::CATALOG.insert(pages, b"half", &crate::paged::catalog::encode(tree), writer)
    })
    .expect("room");
    fill_cache(&database, &table);
    fail_reads_of_pages(&device);
    txn.rollback().expect_err("the catalog's page cannot be read");
    drop(txn);
    for refused in [database.open_table("half").map(drop), database.tables().map(drop)] {
        assert!(is_device_error(&refused.expect_err("the catalog is not settled")));
    }
    device.heal();
    assert!(database.open_table("half").expect("open table").is_none());
    assert_eq!(database.tables().expect("tables"), ["t"]);
    assert!(!engine.unfinished.is_any());
}

#[test]
fn going_back_to_a_savepoint_again_and_again_sets_no_more_room_aside() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    let reserve = || database.paged().engine().log.space().reserve;
    let before = reserve();
    let txn = database.begin().expect("begin");
    txn.put(&table, "kept", "value").expect("put");
    let savepoint = txn.savepoint();
    for round in 0..60u32 {
        for number in 0..4 {
            txn.put(&table, key(number), [round as u8; 1000]).expect("put");
        }
        txn.rollback_to(&savepoint).expect("rollback to the savepoint");
        assert_eq!(reserve(), before, "round {round}");
    }
    txn.commit().expect("commit");
    assert_eq!(database.get(&table, "kept").expect("get").as_deref(), Some(&b"value"[..]));
    assert_eq!(database.get(&table, key(0)).expect("get"), None);
}

fn in_nvram() -> katydid_wal::MediumOptions {
    let memory = katydid_wal::NvramOptions { bytes: 1 << 20, ..Default::default() };
    katydid_wal::MediumOptions::NvDirect { memory, inserter: Default::default() }
}

/// A log in NVRAM fails without a device call that goes through the engine's gate, and the rollback
/// may be the first to notice. The rollback must not set the transaction aside as if another try
/// could succeed. Otherwise each call that wants the transaction's keys would wait twice for
/// `lock_wait`.
#[test]
fn a_rollback_that_met_a_failed_log_in_nvram_shuts_the_database_off() {
    let device = SimDevice::new(1);
    let mut options = options();
    options.advanced.log.medium = in_nvram();
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.table("t").expect("table");
    let txn = database.begin().expect("begin");
    txn.put(&table, key(0), "value").expect("put");
    device.freeze();
    let refused = database.put(&table, key(1), "value").expect_err("nothing is durable any more");
    assert!(refused.is_poisoned(), "{refused}");
    let refused = txn.rollback().expect_err("nothing can be logged");
    assert!(refused.is_poisoned(), "{refused}");
    assert!(!unended(&database), "no later try can succeed");
    let refused = database.get(&table, key(0)).expect_err("its lock is kept for good");
    assert!(refused.is_poisoned(), "{refused}");
}

/// A thread that waits for room in a log in NVRAM must notice the failure, and not wait for
/// `lock_wait`.
#[test]
fn a_failure_ends_the_wait_for_room() {
    let device = SimDevice::new(1);
    let mut options = options();
    options.advanced.log.medium = in_nvram();
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.table("t").expect("table");
    let txn = database.begin().expect("begin");
    let full = (0..).find_map(|number| txn.put(&table, key(number), [1; 500]).err());
    assert!(matches!(full, Some(Error::LogFull { .. })), "{full:?}");
    let who = crate::paged::log_room::Waiter { txn: crate::TxnId::new(u64::MAX), patience: Duration::ZERO };
    let engine = database.paged().engine();
    let refused = engine.enter_log(who).expect_err("the log is full");
    assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
    device.freeze();
    database.checkpoint().expect_err("no page can be written");
    let refused = engine.enter_log(who).expect_err("no room will be made");
    assert!(refused.is_poisoned(), "{refused}");
}

#[test]
fn a_call_that_meets_the_lock_of_a_transaction_that_cannot_be_ended_waits_once() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    fill(&database, &table);
    half_rolled_back(&device, &database, &table);
    let timeouts = || database.paged().engine().locks.stat().timeouts;
    let before = timeouts();
    let refused = database.get(&table, key(0)).expect_err("its page cannot be read");
    assert!(is_device_error(&refused), "{refused}");
    assert_eq!(timeouts(), before + 1);
}

#[test]
fn what_cannot_be_read_back_after_a_failed_write_of_the_log_is_no_corruption() {
    let device = SimDevice::new(1);
    let (database, table) = open(&device);
    let txn = database.begin().expect("begin");
    let savepoint = txn.savepoint();
    // These changes are more than the memory for undo holds, and are still only in the log's
    // buffer.
    for number in 0..40 {
        txn.put(&table, key(number), [2; 300]).expect("put");
    }
    device.fail_when(|verb, path, _| {
        let fails = verb == katydid_device::Verb::Write && path.contains("log/");
        fails.then_some(katydid_device::Fault::Io)
    });
    let failed = database.sync().expect_err("the log cannot be written");
    assert!(failed.is_poisoned(), "{failed}");
    let refused = txn.rollback_to(&savepoint).expect_err("what it has done cannot be read back");
    assert!(refused.is_poisoned(), "{refused}");
    let refused = txn.rollback().expect_err("nothing can be logged");
    assert!(refused.is_poisoned(), "{refused}");
}
