//! Promises of the memory engine alone: the limit of its memory, the removal of old versions,
//! readers, and recovery.

#[path = "../common/mod.rs"]
mod common;
mod doomed;
mod durable_reads;
mod limits;
mod papers;
mod room;

use common::{key, options_for};
use katydid::{
    Access, AdvancedOptions, Database, Durability, EngineKind, Error, LockRelease, MemoryOptions, MemoryStat,
    Options, Phase, RecoveryProgress, Table, TransactionOptions,
};
use katydid_device::{Directory, MemoryDirectory, SimDevice};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const BUFFERED: TransactionOptions = with(Durability::Buffered, Access::ReadWrite);
const READ_ONLY: TransactionOptions = with(Durability::Durable, Access::ReadOnly);

const fn with(durability: Durability, access: Access) -> TransactionOptions {
    TransactionOptions { durability, read: katydid::Read::Visible, access }
}

fn options(memory_bytes: u64) -> Options {
    let engine = MemoryOptions { memory_bytes, streams: 3, ..MemoryOptions::default() }.into();
    Options { engine, ..options_for(EngineKind::Memory) }
}

fn open(memory_bytes: u64) -> (Database, Table) {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options(memory_bytes)).unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn used(database: &Database) -> u64 {
    database.stat().unwrap().memory().unwrap().used_bytes
}

/// Waits until `is_so` holds.
///
/// # Panics
/// If `is_so` does not hold within a minute. A commit takes milliseconds.
fn settle(database: &Database, is_so: impl Fn(&MemoryStat) -> bool) {
    let begun = Instant::now();
    loop {
        let stat = database.stat().unwrap();
        let memory = stat.memory().unwrap();
        if is_so(memory) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come to rest: {memory:?}");
        std::thread::yield_now();
    }
}

/// Puts rows of 1,000 bytes until the database is full. Returns the number of rows, and the
/// refusal.
fn fill(database: &Database, table: &Table) -> (u64, Error) {
    for number in 0.. {
        let txn = database.begin_with(BUFFERED).unwrap();
        match txn.put(table, key(number), [7; 1000]) {
            Ok(()) => drop(txn.commit().unwrap()),
            Err(error) => return (number, error),
        }
    }
    unreachable!("memory is limited")
}

#[test]
fn a_full_memory_is_a_typed_error_that_spares_the_transaction_and_ends_with_deletions() {
    let (database, table) = open(4 * MIB);
    let (rows, full) = fill(&database, &table);
    assert!(matches!(full, Error::MemoryFull { used, limit, held_by: None } if used <= limit), "{full}");
    assert!(!full.is_retryable());
    assert!(rows > 2500, "{rows} rows of 1,000 bytes in 4 MiB");
    let txn = database.begin().unwrap();
    assert!(matches!(txn.put(&table, "large", vec![7; 100_000]), Err(Error::MemoryFull { .. })));
    assert_eq!(txn.get(&table, key(1)).unwrap(), Some(vec![7; 1000]), "it goes on");
    assert_eq!(txn.get(&table, "large").unwrap(), None, "what was refused is not there");
    for number in 0..200 {
        assert!(txn.delete(&table, key(number)).unwrap(), "deleting is never refused");
    }
    txn.commit().unwrap();
    database.put(&table, "large", vec![7; 100_000]).unwrap();
    assert!(used(&database) <= 4 * MIB);
}

#[test]
fn a_batch_of_puts_that_finds_memory_full_is_undone() {
    let (database, table) = open(4 * MIB);
    database.put(&table, key(1), [7; 1000]).unwrap();
    let txn = database.begin().unwrap();
    txn.put(&table, key(2), "kept").unwrap();
    // The first put of the batch, that of the lesser key, has room.
    let entries = [(b"z".to_vec(), vec![7; 5 * MIB as usize]), (key(1), b"x".to_vec())];
    assert!(matches!(txn.put_all(&table, entries), Err(Error::MemoryFull { .. })));
    let found = txn.multi_get(&table, [&key(1)[..], b"z", &key(2)]).unwrap();
    assert_eq!(found, [Some(vec![7; 1000]), None, Some(b"kept".to_vec())]);
    txn.commit().unwrap();
}

#[test]
fn who_keeps_old_versions_is_named_by_the_refusal_and_by_stat_until_it_ends() {
    let (database, table) = open(4 * MIB);
    database.put(&table, "a", "1").unwrap();
    let reader = database.begin_with(READ_ONLY).unwrap();
    assert_eq!(reader.get(&table, "a").unwrap(), Some(b"1".to_vec()));
    let full = loop {
        let txn = database.begin().unwrap();
        match txn.put(&table, "a", [7; 10_000]) {
            Ok(()) => drop(txn.commit().unwrap()),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::MemoryFull { held_by: Some(id), .. } if id == reader.id()), "{full}");
    let stat = database.stat().unwrap();
    assert_eq!(stat.memory().unwrap().held_by, Some(reader.id()));
    assert!(stat.memory().unwrap().versions_old > 100);
    assert_eq!(reader.get(&table, "a").unwrap(), Some(b"1".to_vec()), "it reads what it has read");
    drop(reader);
    database.put(&table, "a", [7; 10_000]).unwrap();
    // An open transaction keeps no old version if no row has changed since it began.
    let idle = database.begin_with(READ_ONLY).unwrap();
    let stat = database.stat().unwrap();
    let memory = stat.memory().unwrap();
    assert_eq!((memory.versions_old, memory.held_by), (0, None));
    assert!(memory.used_bytes < 20_000, "{memory:?}");
    drop(idle);
}

#[test]
fn a_database_that_does_not_fit_is_refused_with_a_typed_error_and_opens_with_more() {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options(8 * MIB)).unwrap();
    let table = database.table("t").unwrap();
    let (rows, _) = fill(&database, &table);
    drop(table);
    database.close().unwrap();
    drop(database);
    for _ in 0..2 {
        match Database::open_in(directory.clone(), options(4 * MIB)) {
            Err(Error::MemoryFull { limit, .. }) => assert_eq!(limit, 4 * MIB),
            other => panic!("{other:?}"),
        }
    }
    let database = Database::open_in(directory, options(8 * MIB)).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert_eq!(common::contents(&database, &table).len() as u64, rows);
}

#[test]
fn what_was_deleted_is_no_burden_on_the_next_opening() {
    let device = SimDevice::new(1);
    let mut options = options(MIB);
    options.advanced.checkpoint_bytes = 64 * MIB;
    options.advanced.log_soft_bytes = 64 * MIB;
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = database.table("queue").unwrap();
    for number in 0..6000 {
        database.put(&table, key(number), [7; 100]).unwrap();
        assert!(database.delete(&table, key(number)).unwrap());
    }
    database.put(&table, "last", "one").unwrap();
    device.freeze();
    drop((table, database));
    // The database never held more than a few rows. The log has thousands of rows and their
    // tombstones, which recovery must not keep in memory.
    let database = Database::open_in(device.reopen_after_kill().directory(), options).unwrap();
    let table = database.open_table("queue").unwrap().unwrap();
    assert_eq!(common::contents(&database, &table).len(), 1);
    assert!(used(&database) < 2000, "{}", used(&database));
}

#[test]
fn a_table_that_was_dropped_is_no_burden_on_the_next_opening() {
    let device = SimDevice::new(1);
    let mut options = options(MIB);
    options.advanced.checkpoint_bytes = 64 * MIB;
    options.advanced.log_soft_bytes = 64 * MIB;
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    for round in 0..5u64 {
        let table = database.table("t").unwrap();
        (0..500).for_each(|number| database.put(&table, key(number), [round as u8; 1000]).unwrap());
        if round == 0 {
            database.checkpoint().unwrap();
        }
        if round < 4 {
            assert!(database.drop_table("t").unwrap());
        }
    }
    let held = used(&database);
    device.freeze();
    drop(database);
    // The checkpoint and the log have the rows of five tables, each of about half of the limit.
    let database = Database::open_in(device.reopen_after_kill().directory(), options).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let rows = common::contents(&database, &table);
    assert!(rows.len() == 500 && rows.values().all(|value| *value == [4; 1000]));
    assert!(used(&database) <= held, "{} instead of {held}", used(&database));
}

#[test]
fn updates_of_few_keys_take_no_more_memory_however_many() {
    for durability in [Durability::Buffered, Durability::Durable] {
        for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
            let options =
                common::with_advanced(options(2 * MIB), |advanced| advanced.lock_release = lock_release);
            let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
            let table = database.table("t").unwrap();
            let session = database.session();
            for number in 0..20_000u64 {
                let txn = database.begin_with(with(durability, Access::ReadWrite)).unwrap();
                txn.put(&table, key(number % 10), [number as u8; 1000]).expect("old versions give way");
                match number % 3 {
                    0 => txn.commit_with(&session, |result| assert!(result.is_ok())),
                    // Dropping the future changes nothing.
                    1 => drop(txn.commit_async()),
                    _ => drop(txn.commit().unwrap()),
                }
                if number % 50 == 0 {
                    session.drain().unwrap();
                }
            }
            session.drain().unwrap();
            // Only the ten rows are left when all is quiet. A commit whose future was dropped may
            // still be under way.
            settle(&database, |memory| memory.versions_old == 0 && memory.used_bytes < 20_000);
        }
    }
}

#[test]
fn a_commit_that_was_awaited_is_seen_and_keeps_nothing_back() {
    let (database, table) = open(2 * MIB);
    for number in 0..6000u64 {
        let txn = database.begin().unwrap();
        txn.put(&table, key(number % 10), [number as u8; 1000]).expect("old versions give way");
        common::block_on(txn.commit_async()).unwrap();
        let txn = database.begin_with(READ_ONLY).unwrap();
        assert_eq!(txn.get(&table, key(number % 10)).unwrap(), Some(vec![number as u8; 1000]));
    }
    settle(&database, |memory| memory.versions_old == 0 && memory.used_bytes < 20_000);
}

#[test]
fn a_session_dropped_with_commits_in_it_keeps_nothing_back() {
    let (database, table) = open(2 * MIB);
    for number in 0..1000u64 {
        let session = database.session();
        for round in 0..5 {
            let txn = database.begin().unwrap();
            txn.put(&table, key(round), [number as u8; 1000]).unwrap();
            txn.commit_with(&session, |_| {});
        }
    }
    database.put(&table, "after", "them").unwrap();
    settle(&database, |memory| memory.versions_old == 0 && memory.used_bytes < 20_000);
}

#[test]
fn a_transaction_that_writes_one_key_again_and_again_holds_it_once() {
    let (database, table) = open(2 * MIB);
    let txn = database.begin().unwrap();
    for number in 0..5000u64 {
        txn.put(&table, "a", [number as u8; 1000]).expect("the former value is gone");
    }
    txn.commit().unwrap();
    let txn = database.begin().unwrap();
    let savepoint = txn.savepoint();
    for number in 0..1000u64 {
        txn.put(&table, "a", [number as u8; 1000]).unwrap();
    }
    txn.rollback_to(&savepoint).unwrap();
    drop(txn);
    assert!(used(&database) < 4000, "{}", used(&database));
}

#[test]
fn readers_are_never_refused_and_see_one_state_while_writers_write() {
    const KEYS: u64 = 20;
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let options =
            common::with_advanced(options(16 * MIB), |advanced| advanced.lock_release = lock_release);
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
        let table = database.table("t").unwrap();
        (0..KEYS).for_each(|number| database.put(&table, key(number), 100u64.to_le_bytes()).unwrap());
        let stop = AtomicBool::new(false);
        let amount = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (database, table, stop) = (&database, &table, &stop);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(writer);
                    while !stop.load(Relaxed) {
                        let (from, to) = (key(random.u64(0..KEYS)), key(random.u64(0..KEYS)));
                        let moved = database.transact(|txn| {
                            let left = amount(txn.get(table, &from)?.unwrap());
                            if left == 0 {
                                return Ok(());
                            }
                            txn.put(table, &from, (left - 1).to_le_bytes())?;
                            let there = amount(txn.get(table, &to)?.unwrap());
                            txn.put(table, &to, (there + 1).to_le_bytes())
                        });
                        assert!(moved.is_ok() || moved.is_err_and(|error| error.is_retryable()));
                    }
                });
            }
            for _ in 0..2000 {
                let reader = database.begin_with(READ_ONLY).expect("a reader begins");
                let rows: Result<Vec<_>, _> = reader.range(&table, ..).collect();
                let sum: u64 =
                    rows.expect("a reader reads").into_iter().map(|(_, value)| amount(value)).sum();
                assert_eq!(sum, KEYS * 100);
                reader.commit().expect("a reader commits");
            }
            stop.store(true, Relaxed);
        });
    }
}

#[test]
fn an_open_database_is_verified_while_checkpoints_trim_its_log() {
    let (database, table) = open(16 * MIB);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Relaxed) {
                number += 1;
                let txn = database.begin_with(BUFFERED).unwrap();
                txn.put(&table, key(number % 500), [7; 3000]).unwrap();
                txn.commit().unwrap();
            }
        });
        let checkpoints = || database.stat().unwrap().checkpoints;
        let before = checkpoints();
        while checkpoints() < before + 20 {
            let report = database.verify(None);
            stop.store(report.is_err(), Relaxed);
            common::assert_sound(&report.unwrap());
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_table_is_dropped_while_commits_in_it_are_under_way() {
    let options =
        common::with_advanced(options(4 * MIB), |advanced| advanced.lock_release = LockRelease::AfterDurable);
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let session = database.session();
    for number in 0..50 {
        let table = database.table("t").unwrap();
        for round in 0..5 {
            let txn = database.begin().unwrap();
            txn.put(&table, key(round), [number; 1000]).unwrap();
            txn.commit_with(&session, |result| assert!(result.is_ok()));
        }
        assert!(database.drop_table("t").unwrap());
        assert!(matches!(database.get(&table, key(0)), Err(Error::TableDropped { .. })));
    }
    session.drain().unwrap();
    assert!(database.tables().unwrap().is_empty());
    database.checkpoint().unwrap();
    assert!(used(&database) < 1000, "{}", used(&database));
}

#[test]
fn a_database_whose_log_is_gone_is_refused_however_often_it_is_opened() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options(16 * MIB)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, key(1), "kept").unwrap();
    drop(table);
    database.close().unwrap();
    let log = directory.existing_subdirectory("log").unwrap().unwrap();
    for stream in 0..3 {
        let folder = log.existing_subdirectory(&format!("stream-{stream:03}")).unwrap().unwrap();
        folder.list().unwrap().iter().for_each(|name| folder.remove(name).unwrap());
    }
    log.list().unwrap().iter().for_each(|name| log.remove(name).unwrap());
    for _ in 0..2 {
        let refused = Database::open_in(directory.clone(), options(16 * MIB));
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    }
}

#[test]
fn tables_are_dropped_while_checkpoints_are_taken_and_stay_dropped_after_a_crash() {
    for round in 0..20 {
        let device = SimDevice::new(round);
        let options = common::with_streams(options(16 * MIB), 1 + (round % 3) as u16);
        let database = Database::open_in(device.directory(), options.clone()).unwrap();
        let kept = database.table("kept").unwrap();
        (0..50).for_each(|number| database.put(&kept, key(number), [1; 100]).unwrap());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    database.checkpoint().expect("a checkpoint beside a drop");
                }
            });
            for number in 0..5 {
                let brief = database.table("brief").unwrap();
                let txn = database.begin_with(BUFFERED).unwrap();
                (0..200).for_each(|number| txn.put(&brief, key(number), [2; 100]).unwrap());
                txn.commit().unwrap();
                database.put(&kept, key(number), [3; 100]).unwrap();
                assert!(database.drop_table("brief").unwrap());
            }
            stop.store(true, Relaxed);
        });
        let held = used(&database);
        let device = device.reopen_after_crash(round);
        drop(database);
        for _ in 0..2 {
            let database = Database::open_in(device.directory(), options.clone()).unwrap();
            assert_eq!(database.tables().unwrap(), ["kept"]);
            let kept = database.table("kept").unwrap();
            for number in 0..50 {
                let value = if number < 5 { [3; 100] } else { [1; 100] };
                assert_eq!(database.get(&kept, key(number)).unwrap(), Some(value.to_vec()));
            }
            assert!(used(&database) <= held, "nothing of a dropped table is held");
            database.close().unwrap();
        }
    }
}

#[test]
fn a_database_closed_with_open_transactions_has_nothing_of_them() {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let options =
            common::with_advanced(options(4 * MIB), |advanced| advanced.lock_release = lock_release);
        let database = Database::open_in(directory.clone(), options.clone()).unwrap();
        let table = database.table("t").unwrap();
        database.put(&table, "a", "committed").unwrap();
        let writer = database.begin().unwrap();
        writer.put(&table, "a", "open").unwrap();
        writer.put(&table, "b", "open").unwrap();
        let reader = database.begin_with(READ_ONLY).unwrap();
        assert_eq!(reader.get(&table, "a").unwrap(), Some(b"committed".to_vec()));
        database.close().expect("open transactions are no reason not to close");
        assert!(matches!(writer.commit(), Err(Error::Closed)));
        assert!(matches!(database.begin().map(drop), Err(Error::Closed)));
        drop(reader);
        drop((table, database));
        let database = Database::open_in(directory, options).unwrap();
        let table = database.table("t").unwrap();
        assert_eq!(database.get(&table, "a").unwrap(), Some(b"committed".to_vec()));
        assert_eq!(database.get(&table, "b").unwrap(), None);
    }
}

#[test]
fn recovery_reports_its_progress_and_ends_with_the_whole_amount() {
    let device = SimDevice::new(1);
    // Only one checkpoint is taken, by a call, and it decides how much is restored and how much is
    // replayed.
    let options = common::with_advanced(options(16 * MIB), |advanced| {
        advanced.checkpoint_bytes = 64 * MIB;
        advanced.log_soft_bytes = 64 * MIB;
    });
    let options = common::with_streams(options, 2);
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = database.table("t").unwrap();
    (0..100).for_each(|number| database.put(&table, key(number), [7; 1000]).unwrap());
    database.checkpoint().unwrap();
    (0..300).for_each(|number| database.put(&table, key(number), [8; 1000]).unwrap());
    let device = device.reopen_after_crash(1);
    drop(database);
    let reports: Arc<Mutex<Vec<(Phase, u64, u64)>>> = Arc::default();
    let seen = reports.clone();
    let receiver: RecoveryProgress =
        Arc::new(move |phase, done, of| seen.lock().unwrap().push((phase, done, of)));
    let options =
        Options { advanced: AdvancedOptions { on_recovery: Some(receiver), ..options.advanced }, ..options };
    let database = Database::open_in(device.directory(), options).unwrap();
    let table = database.table("t").unwrap();
    assert!((0..300).all(|number| database.get(&table, key(number)).unwrap() == Some(vec![8; 1000])));
    let reports = reports.lock().unwrap();
    assert!(reports.iter().all(|(_, done, of)| done <= of), "{reports:?}");
    let is_reported = |wanted, least| {
        reports.iter().any(|(phase, done, of)| *phase == wanted && *done > least && *of < 2 * least)
    };
    assert!(is_reported(Phase::Restore, 100_000), "{reports:?}");
    assert!(is_reported(Phase::Redo, 300_000), "how much it was is known in the end: {reports:?}");
}
