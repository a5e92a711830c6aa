//! One kind of failure in each test. After a failed sync no commit succeeds, and reads go on. A
//! full device gives a typed error, loses nothing, and takes changes again when there is room. The
//! error about an unreadable or damaged page names the page. A short write is no success.

use crate::common::{self, block_on, contents, key, with_advanced};
use katydid::testing::{Background, run_background};
use katydid::{Database, EngineKind, Error, LockRelease, Options, Read, TransactionOptions};
use katydid_device::{Fault, SimDevice, Survival, Verb};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn options() -> Options {
    let mut options = common::small_options();
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.checkpoint_bytes = 1 << 30;
    options.advanced.log_soft_bytes = 1 << 30;
    // A wait this long is seen as a hang of the test.
    options.lock_wait = Duration::from_secs(600);
    options
}

fn log_syncs_fail(device: &SimDevice) {
    device.fail_when(|verb, path, _| {
        let sync = matches!(verb, Verb::Sync | Verb::Write);
        (sync && path.starts_with("log/")).then_some(Fault::SyncIo)
    });
}

#[test]
fn a_failed_sync_poisons_every_way_to_commit_and_reads_go_on() {
    for lock_release in [LockRelease::Early, LockRelease::AfterDurable] {
        let device = SimDevice::new(1);
        let database = Database::open_in(
            device.directory(),
            with_advanced(options(), |advanced| advanced.lock_release = lock_release),
        )
        .unwrap();
        let table = database.table("t").unwrap();
        for number in 0..50 {
            database.put(&table, key(number), "safe").unwrap();
        }
        let write = |number: u64| {
            let txn = database.begin().unwrap();
            txn.put(&table, key(number), "lost or not").unwrap();
            txn
        };
        let open = write(40);
        device.stall_writes(true);
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|number| scope.spawn(move || number).join().unwrap()).collect();
            let blocking: Vec<_> = waiters
                .iter()
                .map(|number| {
                    let txn = write(*number);
                    scope.spawn(move || txn.commit())
                })
                .collect();
            let future = write(10).commit_async();
            let session = database.session();
            let results = outcomes.clone();
            write(11).commit_with(&session, move |result| results.lock().unwrap().push(result));
            log_syncs_fail(&device);
            device.stall_writes(false);
            for thread in blocking {
                assert!(matches!(thread.join().unwrap(), Err(Error::Poisoned { .. })));
            }
            assert!(matches!(block_on(future), Err(Error::Poisoned { .. })));
            session.drain().unwrap();
        });
        let outcomes = outcomes.lock().unwrap();
        assert!(matches!(outcomes[..], [Err(Error::Poisoned { .. })]), "{outcomes:?}");
        // Nothing is written any more, and the cause is named.
        match database.put(&table, key(20), "x") {
            Err(error @ Error::Poisoned { .. }) => assert!(error.to_string().contains("log"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(database.sync().unwrap_err().is_poisoned());
        assert!(database.checkpoint().is_err());
        // Durable rows are still read, and a transaction that has read them commits. A transaction
        // may be refused if the lock of a key that it read shares a bucket with a lock of a lost
        // transaction.
        let committed = (12..40).filter(|number| {
            let txn = database.begin().unwrap();
            assert_eq!(txn.get(&table, key(*number)).unwrap(), Some(b"safe".to_vec()));
            txn.commit().inspect_err(|error| assert!(error.is_poisoned(), "{error}")).is_ok()
        });
        assert!(committed.count() > 20);
        // Changes that can no longer be undone stay locked, and no transaction waits for their
        // locks.
        drop(open);
        assert!(matches!(database.get(&table, key(40)), Err(Error::Poisoned { .. })));
        // A durable reader is not shown a row that may be lost.
        let options = TransactionOptions { read: Read::Durable, ..TransactionOptions::default() };
        let txn = database.begin_with(options).unwrap();
        assert!(matches!(txn.get(&table, key(0)), Err(Error::Poisoned { .. })));
        assert!(database.close().unwrap_err().is_poisoned());
        drop((txn, table, database));
        let device = device.reopen_after_crash(7);
        let database = Database::open_in(device.directory(), self::options()).unwrap();
        let table = database.open_table("t").unwrap().unwrap();
        let rows = contents(&database, &table);
        assert_eq!(rows.len(), 50);
        assert_eq!(rows[&key(40)], b"safe");
        assert!(rows.iter().filter(|(row, _)| **row >= key(12)).all(|(_, value)| value == b"safe"));
        common::assert_sound(&database.verify(None).unwrap());
    }
}

#[test]
fn a_waiter_for_a_lock_gets_an_error_when_the_device_fails() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    let holder = database.begin().unwrap();
    holder.put(&table, "a", "1").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| database.get(&table, "a"));
        while database.stat().unwrap().paged().unwrap().lock_waits == 0 {
            std::thread::yield_now();
        }
        log_syncs_fail(&device);
        assert!(matches!(holder.commit(), Err(Error::Poisoned { .. })));
        // With early release the waiter has got the lock. The waiter must get an error, because the
        // value that it read is not durable.
        assert!(matches!(waiter.join().unwrap(), Err(Error::Poisoned { .. })));
    });
}

#[test]
fn no_space_for_the_log_is_typed_and_clears() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "before", "1").unwrap();
    device.set_capacity(device.used());
    let mut acknowledged = Vec::new();
    let refused = (0..100_000).find_map(|number| match database.put(&table, key(number), vec![1; 100]) {
        Ok(()) => {
            acknowledged.push(key(number));
            None
        }
        Err(error) => Some(error),
    });
    let refused = refused.expect("the device is full");
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    // Reads go on, and nothing of the refused transaction is there.
    assert_eq!(contents(&database, &table).len(), acknowledged.len() + 1);
    device.set_capacity(1 << 30);
    database.put(&table, "after", "1").unwrap();
    assert_eq!(contents(&database, &table).len(), acknowledged.len() + 2);
    drop((table, database));
    let device = device.reopen_after_crash(3);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    let rows = contents(&database, &table);
    assert!(acknowledged.iter().all(|key| rows.contains_key(key)));
    assert_eq!(rows.len(), acknowledged.len() + 2);
}

/// The log alone fills the device: every page has its place in the file already, and a checkpoint
/// frees the space of the log.
#[test]
fn a_device_full_of_log_takes_changes_again_after_the_worker_ran() {
    let device = SimDevice::new(1);
    let mut options = options();
    options.advanced.log.background = Background::Caller;
    let database = Database::open_in(device.directory(), options).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "key", "1").unwrap();
    device.set_capacity(device.used() + (1 << 20));
    let refused = (0..100_000).find_map(|n| database.put(&table, "key", vec![n as u8; 100]).err());
    let refused = refused.expect("the log is full");
    assert!(refused.is_no_space(), "{refused}");
    let checkpoints = database.stat().unwrap().checkpoints;
    run_background(&database);
    assert_eq!(database.stat().unwrap().checkpoints, checkpoints + 1);
    database.delete(&table, "key").unwrap();
    database.put(&table, "key", vec![2; 100]).unwrap();
    assert_eq!(contents(&database, &table).len(), 1);
    // Without another refusal no checkpoint is due.
    run_background(&database);
    assert_eq!(database.stat().unwrap().checkpoints, checkpoints + 1);
}

/// A refusal makes a checkpoint due, and the checkpoint's records come out of the reserve. While an
/// open transaction keeps the log, many refusals must not use the reserve up, because the
/// transaction's rollback needs it.
#[test]
fn refusals_beside_an_old_transaction_leave_the_reserve_to_its_rollback() {
    let device = SimDevice::new(1);
    let mut options = options();
    options.advanced.log.background = Background::Caller;
    let database = Database::open_in(device.directory(), options).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "key", "1").unwrap();
    let old = database.begin().unwrap();
    old.put(&table, "old", "2").unwrap();
    device.set_capacity(device.used() + (1 << 20));
    let refused = (0..100_000).find_map(|n| database.put(&table, "key", vec![n as u8; 100]).err());
    assert!(refused.is_some_and(|refused| refused.is_no_space()));
    let checkpoints = database.stat().unwrap().checkpoints;
    for n in 0..200 {
        run_background(&database);
        let _refused = database.put(&table, "key", vec![n as u8; 100]);
    }
    assert!(database.stat().unwrap().checkpoints <= checkpoints + 1);
    old.rollback().unwrap();
    // No transaction keeps the log from being trimmed any more.
    let _refused = database.put(&table, "key", vec![3; 100]);
    run_background(&database);
    database.put(&table, "key", vec![4; 100]).unwrap();
    assert_eq!(contents(&database, &table).len(), 1);
}

#[test]
fn no_space_for_pages_is_typed_and_a_large_transaction_rolls_back() {
    let device = SimDevice::new(1);
    let mut options = options();
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 1 << 20, ..files });
    options.advanced.log.reserve_bytes = 1 << 20;
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..20 {
        database.put(&table, key(number), vec![1; 1000]).unwrap();
    }
    device.set_capacity(device.used());
    let txn = database.begin().unwrap();
    let refused = (20..100_000).find_map(|number| txn.put(&table, key(number), vec![2; 1000]).err());
    assert!(refused.as_ref().is_some_and(Error::is_no_space), "{refused:?}");
    assert_eq!(txn.get(&table, key(5)).unwrap(), Some(vec![1; 1000]));
    txn.rollback().unwrap();
    assert_eq!(contents(&database, &table).len(), 20);
    device.set_capacity(1 << 30);
    database.put(&table, "after", vec![3; 50_000]).unwrap();
    common::assert_sound(&database.verify(None).unwrap());
}

/// Returns the number of the page that has the text.
fn find(device: &SimDevice, text: &[u8]) -> u64 {
    let image = device.image();
    let pages = &image["katydid.pages"];
    let at = pages.windows(text.len()).rposition(|window| window == text);
    at.expect("the text is in the pages") as u64 / 4096
}

#[test]
fn an_unreadable_page_names_itself() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..2000 {
        database.put(&table, key(number), format!("value-{number:06}-here")).unwrap();
    }
    database.close().unwrap();
    let page = find(&device, b"value-000500-here");
    device.fail_reads("katydid.pages", page * 4096..page * 4096 + 1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    match database.get(&table, key(500)) {
        Err(Error::Device(error)) => assert!(error.to_string().contains(&format!("page {page}")), "{error}"),
        other => panic!("{other:?}"),
    }
    // Other pages are read, and a failed read does not shut the database off.
    assert!(database.get(&table, key(1900)).unwrap().is_some());
    database.put(&table, key(1900), "new").unwrap();
    device.heal();
    assert!(database.get(&table, key(500)).unwrap().is_some());
}

#[test]
fn a_damaged_page_names_itself_and_is_found_by_verify() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..2000 {
        database.put(&table, key(number), format!("value-{number:06}-here")).unwrap();
    }
    database.close().unwrap();
    drop((table, database));
    let page = find(&device, b"value-000500-here");
    assert!(device.corrupt("katydid.pages", page * 4096 + 2000, 0x40));
    let report = Database::verify_in(device.directory(), None).unwrap();
    assert!(report.clean && report.faults[0].place.contains(&format!("page {page}")), "{report:?}");
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    match database.get(&table, key(500)) {
        Err(Error::Corrupt { page: Some(named), .. }) => assert_eq!(named, page),
        other => panic!("{other:?}"),
    }
    assert!(!database.verify(None).unwrap().is_sound());
}

#[test]
fn a_damaged_log_is_refused_and_never_cut_silently() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..100 {
        database.put(&table, key(number), format!("value-{number:06}-here")).unwrap();
    }
    device.freeze();
    drop((table, database));
    let device = device.reopen_after_crash(5);
    let image = device.image();
    let (file, at) = image
        .iter()
        .filter(|(path, _)| path.starts_with("log/"))
        .find_map(|(path, bytes)| {
            let text = b"value-000010-here";
            let at = bytes.windows(text.len()).position(|window| window == text)?;
            Some((path.clone(), at as u64))
        })
        .expect("the record is in the log");
    assert!(device.corrupt(&file, at, 1));
    let refused = Database::open_in(device.directory(), options());
    assert!(matches!(refused, Err(Error::LogOpen(_))), "{refused:?}");
    let report = Database::verify_in(device.directory(), None).unwrap();
    assert!(!report.is_sound());
}

/// A check or a dump that cannot read a file knows nothing about the bytes in it, and reports no
/// damage.
#[test]
fn a_read_that_fails_is_no_damage() {
    let engines = [EngineKind::Paged, EngineKind::Memory];
    for (engine, closed) in engines.into_iter().flat_map(|engine| [(engine, false), (engine, true)]) {
        let device = SimDevice::new(1);
        let mut options = common::with_streams(common::options_for(engine), 2);
        options.advanced.log.background = Background::Caller;
        let database = Database::open_in(device.directory(), options).unwrap();
        let table = database.table("t").unwrap();
        for number in 0..40 {
            database.put(&table, key(number), [7; 300]).unwrap();
            if number == 20 {
                database.checkpoint().unwrap();
            }
        }
        if closed {
            database.close().unwrap();
        }
        device.freeze();
        drop((table, database));
        let device = device.reopen_after_kill();
        let verify = || Database::verify_in(device.directory(), None).map(|report| format!("{report:?}"));
        let dump = || katydid::dump_log_in(device.directory().as_ref(), |_| ControlFlow::Continue(()));
        let calls: [(&str, &dyn Fn() -> katydid::Result<String>); 2] = [("verify", &verify), ("dump", &dump)];
        for (name, call) in calls {
            let reads = Arc::new(AtomicU64::new(0));
            let counter = reads.clone();
            device.fail_reads_when(move |_, _| {
                counter.fetch_add(1, Ordering::Relaxed);
                false
            });
            let sound = call().expect("a sound device");
            let reads = reads.load(Ordering::Relaxed);
            assert!(reads > 5, "{name}: {reads} reads");
            for nth in 0..reads {
                let mut reads_before = 0;
                device.fail_reads_when(move |_, _| {
                    reads_before += 1;
                    reads_before == nth + 1
                });
                let case = format!("{engine}, closed: {closed}, {name}, read {nth} of {reads}");
                match call() {
                    // The read was repeated.
                    Ok(found) => assert_eq!(found, sound, "{case}"),
                    Err(Error::Device(_) | Error::Poisoned { .. }) => {}
                    Err(error) => panic!("{case}: {error:?}"),
                }
                device.heal();
            }
        }
    }
}

#[test]
fn a_log_that_is_gone_is_not_replaced_by_an_empty_one() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    database.table("t").unwrap();
    database.close().unwrap();
    drop(database);
    let log = device.directory().existing_subdirectory("log").unwrap().unwrap();
    for name in log.list().unwrap() {
        log.remove(&name).unwrap();
    }
    let refused = Database::open_in(device.directory(), options());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_short_page_write_is_no_success() {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..200 {
        database.put(&table, key(number), "safe").unwrap();
    }
    device.fail_when(|verb, path, _| {
        (verb == Verb::Write && path == "katydid.pages").then_some(Fault::ShortWrite(3))
    });
    let mut failed = false;
    for _ in 0..3 {
        failed |= database.checkpoint().is_err();
    }
    assert!(failed);
    assert!(database.put(&table, "x", "y").unwrap_err().is_poisoned());
    drop((table, database));
    let device = device.reopen_after_crash(9);
    let database = Database::open_in(device.directory(), options()).unwrap();
    let table = database.open_table("t").unwrap().unwrap();
    assert_eq!(contents(&database, &table).len(), 200);
    common::assert_sound(&database.verify(None).unwrap());
}

/// If a write of pages fails during an opening, the opening fails, even if the write only frees a
/// frame of the cache for a page of the catalog. So no opening returns a database that refuses all
/// changes. The test uses several numbers of rows, which leave the cache in various states after
/// redo.
#[test]
fn an_opening_beside_a_failed_write_returns_no_database_that_is_shut_off() {
    let refused: usize = (60..84).step_by(2).map(opening_beside_failed_writes).sum();
    assert!(refused > 10, "only {refused} writes of pages failed in openings");
}

/// Opens the database again and again: with every write of pages failing, then with all but the
/// first, all but the first two, and so on. Returns the number of openings that failed.
fn opening_beside_failed_writes(rows: u64) -> usize {
    let options = with_advanced(options(), |advanced| advanced.log.background = Background::Caller);
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options.clone()).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..rows {
        database.put(&table, key(number), vec![7; 900]).unwrap();
    }
    device.freeze();
    drop(database);
    let mut refused = 0;
    for nth in 0.. {
        let device = device.reopen_with(1, Survival::DropAll);
        let struck = Arc::new(AtomicBool::new(false));
        let (strikes, mut writes) = (struck.clone(), 0);
        device.fail_when(move |verb, path, _| {
            let is_of_pages = verb == Verb::Write && path == "katydid.pages";
            writes += u64::from(is_of_pages);
            (is_of_pages && writes > nth).then(|| {
                strikes.store(true, Ordering::Relaxed);
                Fault::Io
            })
        });
        let opened = Database::open_in(device.directory(), options.clone());
        device.heal();
        match opened {
            Ok(database) => {
                let table = database.open_table("t").unwrap().unwrap();
                database.put(&table, "more", "1").unwrap();
            }
            Err(error) => {
                let is_of_device = matches!(error, Error::Device(_)) || error.is_poisoned();
                assert!(is_of_device, "a failing device is taken for {error:?}");
                refused += 1;
            }
        }
        if !struck.load(Ordering::Relaxed) {
            break;
        }
    }
    refused
}
