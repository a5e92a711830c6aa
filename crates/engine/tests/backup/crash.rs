//! Crashes of the copy's machine, or of the source's machine, at each device call of a backup; and
//! devices that fail or are full.
//!
//! The copy and the source have separate devices, so that each can crash alone.

use crate::common::{contents, options_for};
use katydid::testing::Background;
use katydid::{BackupOptions, CopyFault, Database, EngineKind, Error, Options, Table};
use katydid_device::{Fault, SimDevice, Survival};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

suite![
    a_copy_is_whole_or_says_that_it_is_not,
    a_restore_is_whole_or_says_that_it_is_not,
    the_source_is_recovered,
    a_failing_target_leaves_the_source_as_it_was,
    a_full_target_leaves_the_source_as_it_was
];

fn options(engine: EngineKind) -> Options {
    let mut options = options_for(engine);
    options.advanced.log.background = Background::Caller;
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.reserve_bytes = 64 << 10;
    options
}

/// Returns a database with rows in its checkpoint and rows in its log only.
fn source(engine: EngineKind, device: &SimDevice) -> (Database, Table) {
    let database = Database::open_in(device.directory(), options(engine)).expect("open");
    let table = database.table("rows").expect("table");
    (0..40u8).for_each(|key| database.put(&table, [key], [key; 300]).expect("put"));
    database.checkpoint().expect("checkpoint");
    (40..50u8).for_each(|key| database.put(&table, [key], [key; 300]).expect("put"));
    (database, table)
}

fn rows() -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..50u8).map(|key| (vec![key], vec![key; 300])).collect()
}

/// Returns whether a crash has left a whole copy on `device`. If not, asserts that no call accepts
/// what is left as a copy.
fn is_whole(engine: EngineKind, device: &SimDevice, place: &str) -> bool {
    let is_empty = device.image().is_empty();
    match Database::open_in(device.directory(), Options { create: false, ..options(engine) }) {
        Ok(database) => {
            let table = database.open_table("rows").expect("open table").expect("the table");
            assert_eq!(contents(&database, &table), rows(), "{place}");
            true
        }
        Err(Error::Copy { fault: CopyFault::Incomplete, .. }) => {
            let refused = Database::open_in(device.directory(), options(engine));
            assert!(
                matches!(refused, Err(Error::Copy { fault: CopyFault::Incomplete, .. })),
                "{place}: {refused:?}"
            );
            let refused = Database::verify_in(device.directory(), None);
            assert!(matches!(refused, Err(Error::Copy { .. })), "{place}: {refused:?}");
            let to = SimDevice::new(9).directory();
            let refused = Database::restore_in(device.directory(), to, &BackupOptions::default());
            assert!(
                matches!(refused, Err(Error::Copy { fault: CopyFault::Incomplete, .. })),
                "{place}: {refused:?}"
            );
            false
        }
        Err(Error::NotFound { .. }) if is_empty => false,
        Err(error) => panic!("{place}: {error}\n{}", device.dump()),
    }
}

/// Crashes the device of a copy at each call, and checks that the remaining files are a whole copy,
/// or do not open as a database.
fn crash_at_each(engine: EngineKind, make: impl Fn(&SimDevice) -> katydid::Result<katydid::BackupReport>) {
    let whole = SimDevice::new(2);
    make(&whole).expect("without a crash");
    let steps = whole.steps();
    let (mut wholes, mut parts) = (0, 0);
    for step in 0..steps {
        let device = SimDevice::new(step);
        device.crash_at(step);
        let made = make(&device);
        // Even a crash at the last call is an error, because that call removes the mark of an
        // incomplete copy.
        assert!(made.is_err(), "step {step} of {steps}");
        for survival in [Survival::Random, Survival::DropAll, Survival::KeepAll, Survival::Prefix] {
            let left = device.reopen_with(step, survival);
            match is_whole(engine, &left, &format!("step {step} of {steps}, {survival:?}")) {
                true => wholes += 1,
                false => parts += 1,
            }
        }
    }
    assert!(wholes > 0 && parts > 20, "{wholes} whole, {parts} in part");
    assert!(is_whole(engine, &whole.reopen_with(1, Survival::DropAll), "after the last call"));
}

fn a_copy_is_whole_or_says_that_it_is_not(engine: EngineKind) {
    let (database, _) = source(engine, &SimDevice::new(1));
    crash_at_each(engine, |device| database.backup_in(device.directory(), &BackupOptions::default()));
    database.close().expect("the source is unharmed");
}

fn a_restore_is_whole_or_says_that_it_is_not(engine: EngineKind) {
    let (database, _) = source(engine, &SimDevice::new(1));
    let backup = SimDevice::new(3);
    database.backup_in(backup.directory(), &BackupOptions::default()).expect("backup");
    crash_at_each(engine, |device| {
        Database::restore_in(backup.directory(), device.directory(), &BackupOptions::default())
    });
}

/// The machine of the source crashes at some call of a backup, while transactions and checkpoints
/// run.
fn the_source_is_recovered(engine: EngineKind) {
    let run = |device: &SimDevice, crash: Option<u64>| {
        let (database, table) = source(engine, device);
        let begin = device.steps();
        if let Some(step) = crash {
            device.crash_at(begin + step);
        }
        let (beside, count) = (database.clone(), Arc::new(std::sync::Mutex::new(0u8)));
        let acknowledged = count.clone();
        let on_progress = move |_: u64, _: u64| {
            let mut count = count.lock().expect("no panic");
            if beside.put(&table, [100 + *count], "beside").is_ok() {
                *count += 1;
            }
            // The checkpoint may fail after the crash.
            let _taken = beside.checkpoint();
            ControlFlow::Continue(())
        };
        let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
        let made = database.backup_in(SimDevice::new(5).directory(), &options);
        let acknowledged = *acknowledged.lock().expect("no panic");
        (made.is_ok(), acknowledged, device.steps() - begin)
    };
    let (is_made, _, steps) = run(&SimDevice::new(1), None);
    assert!(is_made && steps > 10, "{steps} steps");
    for step in (0..steps).step_by(1 + steps as usize / 40) {
        let device = SimDevice::new(1);
        let (_, acknowledged, _) = run(&device, Some(step));
        let device = device.reopen_after_crash(step);
        let database = Database::open_in(device.directory(), options(engine)).expect("it is recovered");
        let table = database.table("rows").expect("table");
        let found = contents(&database, &table);
        assert!(rows().iter().all(|(key, value)| found.get(key) == Some(value)), "step {step}");
        let beside = found.keys().filter(|key| key[0] >= 100).count();
        assert!(beside >= acknowledged.into(), "step {step}: {beside} of {acknowledged}");
    }
}

fn a_failing_target_leaves_the_source_as_it_was(engine: EngineKind) {
    let (database, table) = source(engine, &SimDevice::new(1));
    let whole = SimDevice::new(2);
    database.backup_in(whole.directory(), &BackupOptions::default()).expect("backup");
    for step in 0..whole.steps() {
        for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite(1), Fault::SyncIo] {
            let device = SimDevice::new(step);
            device.fail_at(step, fault);
            let made = database.backup_in(device.directory(), &BackupOptions::default());
            assert!(made.is_err(), "step {step}, {fault:?}: a failure was passed over");
            // The failure leaves a whole copy, or files that no opening accepts as a copy.
            let left = device.reopen_with(step, Survival::DropAll);
            is_whole(engine, &left, &format!("step {step}, {fault:?}"));
        }
        database.put(&table, [0], [0; 300]).expect("the source goes on");
    }
    database.checkpoint().expect("checkpoint");
    database.close().expect("close");
}

fn a_full_target_leaves_the_source_as_it_was(engine: EngineKind) {
    let (database, table) = source(engine, &SimDevice::new(1));
    let device = SimDevice::new(2);
    device.set_capacity(60 << 10);
    let error = database.backup_in(device.directory(), &BackupOptions::default()).expect_err("no room");
    assert!(error.is_no_space(), "{error}");
    assert!(!is_whole(engine, &device.reopen_after_kill(), "full"));
    database.put(&table, [0], [0; 300]).expect("the source goes on");
    database.close().expect("close");
}
