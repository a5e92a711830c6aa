//! Folders that are no backups, and files of one copy among those of another.

use crate::common::{kinds_in_nvram, options_for, with_advanced, with_log};
use katydid::{BackupOptions, CopyFault, Database, EngineKind, Error, Options};
use katydid_device::{Create, Directory, Method, SimDevice, WriteMode};
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

suite![
    a_directory_in_use_is_refused,
    a_copy_that_was_opened_is_no_backup,
    a_database_is_no_backup,
    copies_of_one_state_have_one_stamp,
    files_of_copies_do_not_mix,
    a_cancelled_copy_is_incomplete,
    closing_ends_a_backup,
    a_backup_that_outlives_its_opening_reports_no_failed_read,
    a_receiver_that_panics_ends_the_backup,
    a_backup_that_is_too_slow_gets_a_typed_error,
    a_large_backup_ends_with_its_first_failure,
    a_log_in_nvram_is_refused
];

fn plain() -> BackupOptions {
    BackupOptions::default()
}

fn source(engine: EngineKind) -> Database {
    let database = Database::open_in(SimDevice::new(1).directory(), options_for(engine)).expect("open");
    let table = database.table("rows").expect("table");
    database.put(&table, "key", "value").expect("put");
    database
}

fn fault(outcome: katydid::Result<katydid::BackupReport>) -> CopyFault {
    match outcome {
        Err(Error::Copy { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

fn a_directory_in_use_is_refused(engine: EngineKind) {
    let database = source(engine);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("notes")).expect("a folder in it");
    assert_eq!(fault(database.backup(folder.path())), CopyFault::NotEmpty { name: "notes".to_owned() });
    let device = SimDevice::new(2);
    database.backup_in(device.directory(), &plain()).expect("backup");
    let before = device.image();
    assert!(matches!(fault(database.backup_in(device.directory(), &plain())), CopyFault::NotEmpty { .. }));
    assert!(device.image() == before, "the first copy was changed");
    // A path where nothing exists yet is accepted.
    let report = database.backup(folder.path().join("new/copy")).expect("backup");
    assert!(report.bytes > 0);
}

/// During the copy the log grows by more than the database keeps for a backup, and is trimmed.
fn a_backup_that_is_too_slow_gets_a_typed_error(engine: EngineKind) {
    let options = with_advanced(options_for(engine), |advanced| {
        advanced.log_soft_bytes = 1 << 20;
        advanced.log_hard_bytes = 2 << 20;
    });
    let database = Database::open_in(SimDevice::new(1).directory(), options).expect("open");
    let table = database.table("rows").expect("table");
    (0..100u8).for_each(|key| database.put(&table, [key], [key; 300]).expect("put"));
    database.checkpoint().expect("checkpoint");
    let (writer, written) = (database.clone(), AtomicBool::new(false));
    let on_progress = move |_: u64, _: u64| {
        if !written.swap(true, Ordering::Relaxed) {
            for round in 0..3u8 {
                for key in 0..200u8 {
                    writer.put(&table, [key], vec![round; 8_000]).expect("put");
                }
                (0..2).for_each(|_| writer.checkpoint().expect("checkpoint"));
            }
        }
        ControlFlow::Continue(())
    };
    let slow = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..plain() };
    assert_eq!(fault(database.backup_in(SimDevice::new(2).directory(), &slow)), CopyFault::TooSlow);
}

/// The pages file is cut, as if a program had copied the backup and had ended early.
#[test]
fn a_backup_whose_file_of_pages_was_cut_is_refused() {
    let database = source(EngineKind::Paged);
    let table = database.table("rows").expect("table");
    (0..200u8).for_each(|key| database.put(&table, [key], vec![key; 9_000]).expect("put"));
    database.checkpoint().expect("checkpoint");
    let device = SimDevice::new(2);
    database.backup_in(device.directory(), &plain()).expect("backup");
    let file = device.directory().open("katydid.pages", Create::Never, Method::Buffered).expect("open");
    file.truncate(100 * 4096).expect("truncate");
    drop(file);
    let outcome = Database::restore_in(device.directory(), SimDevice::new(3).directory(), &plain());
    assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
}

fn a_copy_that_was_opened_is_no_backup(engine: EngineKind) {
    let database = source(engine);
    let device = SimDevice::new(2);
    database.backup_in(device.directory(), &plain()).expect("backup");
    Database::open_in(device.directory(), options_for(engine)).expect("open").close().expect("close");
    let to = SimDevice::new(3).directory();
    assert_eq!(fault(Database::restore_in(device.directory(), to, &plain())), CopyFault::OpenedSince);
}

/// The next opening of the database knows the stamp of a copy, so its commits have later stamps.
fn copies_of_one_state_have_one_stamp(engine: EngineKind) {
    let device = SimDevice::new(1);
    let open = || Database::open_in(device.directory(), options_for(engine)).expect("open");
    let commit = |database: &Database, value: &str| {
        let table = database.table("rows").expect("table");
        let txn = database.begin().expect("begin");
        txn.put(&table, "key", value).expect("put");
        txn.commit().expect("commit")
    };
    let first = open();
    commit(&first, "old");
    first.close().expect("close");
    let second = open();
    let copy = |disk| second.backup_in(SimDevice::new(disk).directory(), &plain()).expect("backup").stamp;
    let (one, other) = (copy(2), copy(3));
    assert_eq!(one, other, "nothing was committed between the copies");
    second.close().expect("close");
    let later = commit(&open(), "new");
    assert!(later > one, "a commit of the next opening has stamp {later}, the copy before it {one}");
}

fn a_database_is_no_backup(engine: EngineKind) {
    let device = SimDevice::new(2);
    Database::open_in(device.directory(), options_for(engine)).expect("open").close().expect("close");
    let to = SimDevice::new(3);
    assert_eq!(
        fault(Database::restore_in(device.directory(), to.directory(), &plain())),
        CopyFault::NoBackup
    );
    assert!(to.image().is_empty(), "the target was changed");
    let nothing = SimDevice::new(4).directory();
    let outcome = Database::restore_in(nothing, to.directory(), &plain());
    assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
}

/// A copy is refused if any of its files is replaced by the same file of another copy.
fn files_of_copies_do_not_mix(engine: EngineKind) {
    let database = source(engine);
    let backups: Vec<SimDevice> = (2..4).map(SimDevice::new).collect();
    for device in &backups {
        database.backup_in(device.directory(), &plain()).expect("backup");
    }
    let (from, to) = (backups[0].image(), &backups[1]);
    let mut refused = 0;
    for (path, bytes) in &from {
        let mixed = to.reopen_after_kill();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = folder.split('/').filter(|folder| !folder.is_empty()).fold(
            mixed.directory(),
            |directory: Arc<dyn Directory>, folder| {
                directory.existing_subdirectory(folder).expect("look").expect("there")
            },
        );
        let file = directory.open(name, Create::Never, Method::Buffered).expect("the same file");
        file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable).expect("write");
        // The manifest names the source of the copy, which matters only in a restore. So a copy
        // with the manifest of another copy can be opened, and cannot be restored.
        let is_manifest = name == "katydid.backup";
        let opened = Database::open_in(mixed.directory(), Options { create: false, ..options_for(engine) });
        match opened.map(drop) {
            Ok(()) if is_manifest => {
                let outcome =
                    Database::restore_in(mixed.directory(), SimDevice::new(7).directory(), &plain());
                assert_eq!(fault(outcome), CopyFault::NoBackup);
            }
            Ok(()) => panic!("{path} of another copy was taken"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused >= 3, "{refused} files were refused");
}

fn a_cancelled_copy_is_incomplete(engine: EngineKind) {
    let database = source(engine);
    let device = SimDevice::new(2);
    let options = BackupOptions {
        on_progress: Some(Arc::new(|_, _| ControlFlow::Break(()))),
        ..BackupOptions::default()
    };
    assert_eq!(fault(database.backup_in(device.directory(), &options)), CopyFault::Cancelled);
    let opened = Database::open_in(device.directory(), options_for(engine));
    assert!(matches!(opened, Err(Error::Copy { fault: CopyFault::Incomplete, .. })), "{opened:?}");
    assert_eq!(fault(database.backup_in(device.directory(), &plain())), CopyFault::Incomplete);
    database.backup_in(SimDevice::new(3).directory(), &plain()).expect("the next one");
}

/// Progress is reported outside of calls, so the receiver may close the database.
fn closing_ends_a_backup(engine: EngineKind) {
    let database = source(engine);
    let device = SimDevice::new(2);
    let closed = database.clone();
    let on_progress = move |_: u64, _: u64| {
        closed.close().expect("close");
        ControlFlow::Continue(())
    };
    let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
    let outcome = database.backup_in(device.directory(), &options);
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert!(!device.image().contains_key("katydid.control"));
    assert!(matches!(database.backup_in(SimDevice::new(3).directory(), &plain()), Err(Error::Closed)));
}

/// After its opening has ended, a backup may be unable to read the rest of the source's files, for
/// example because the next opening has removed them. The backup then returns `Closed`.
fn a_backup_that_outlives_its_opening_reports_no_failed_read(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options_for(engine)).expect("open");
    let table = database.table("rows").expect("table");
    let fill = || {
        for key in 0..400u32 {
            database.put(&table, key.to_be_bytes(), [7; 2000]).expect("put");
        }
    };
    fill();
    database.checkpoint().expect("checkpoint");
    fill();
    let (closed, source) = (database.clone(), device.clone());
    let on_progress = move |_: u64, _: u64| {
        closed.close().expect("close");
        source.fail_reads_when(|_, _| true);
        ControlFlow::Continue(())
    };
    let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
    let target = SimDevice::new(2);
    let outcome = database.backup_in(target.directory(), &options);
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert!(!target.image().contains_key("katydid.control"));
}

/// A database whose backup has more pieces than the paged engine reads ahead.
fn large_source(engine: EngineKind, device: &SimDevice) -> Database {
    let database = Database::open_in(device.directory(), options_for(engine)).expect("open");
    let table = database.table("rows").expect("table");
    for key in 0..600u32 {
        let batch = (0..10u32).map(|nth| ((key * 10 + nth).to_be_bytes(), [7; 1000]));
        database
            .transact(|tx| batch.clone().try_for_each(|(key, value)| tx.put(&table, key, value)))
            .expect("put");
    }
    database.checkpoint().expect("checkpoint");
    database
}

fn a_receiver_that_panics_ends_the_backup(engine: EngineKind) {
    let database = large_source(engine, &SimDevice::new(1));
    let device = SimDevice::new(2);
    let on_progress = |_: u64, _: u64| -> ControlFlow<()> { panic!("planned") };
    let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
    let directory = device.directory();
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.backup_in(directory, &options)));
    assert!(outcome.is_err(), "the panic was swallowed");
    assert_eq!(fault(database.backup_in(device.directory(), &plain())), CopyFault::Incomplete);
    database.backup_in(SimDevice::new(3).directory(), &plain()).expect("the next one");
    database.close().expect("close");
}

/// If the source cannot be read or the target cannot be written, the other side of the backup does
/// not wait for ever.
fn a_large_backup_ends_with_its_first_failure(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = large_source(engine, &device);
    let target = SimDevice::new(2);
    target.set_capacity(1500 << 10);
    let error = database.backup_in(target.directory(), &plain()).expect_err("no room");
    assert!(error.is_no_space(), "{error}");
    let source = device.clone();
    let on_progress = move |_: u64, _: u64| {
        // The paged engine's log stays readable, so only the failure of the thread that reads pages
        // ahead can end the backup.
        source.fail_reads_when(move |path, _| engine == EngineKind::Memory || path == "katydid.pages");
        ControlFlow::Continue(())
    };
    let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
    let failed = database.backup_in(SimDevice::new(3).directory(), &options);
    assert!(matches!(failed, Err(Error::Device(_))), "{failed:?}");
}

fn a_log_in_nvram_is_refused(engine: EngineKind) {
    for log in kinds_in_nvram() {
        let device = SimDevice::new(1);
        let database =
            Database::open_in(device.directory(), with_log(options_for(engine), log)).expect("open");
        let outcome = database.backup_in(SimDevice::new(3).directory(), &plain());
        assert_eq!(fault(outcome), CopyFault::LogInNvram { log });
    }
}
