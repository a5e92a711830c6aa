//! The machine of the archive crashes at each device call of archiving.

use crate::history::{ENGINES, options, rows_of};
use katydid::{BackupOptions, Database, EngineKind, LogArchive, MemoryDirectory, RestorePoint};
use katydid_device::{Directory, SimDevice, Survival};
use std::sync::Arc;

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn put(database: &Database, number: u64) {
    let rows = database.table("rows").expect("table");
    database.put(&rows, number.to_le_bytes(), vec![number as u8; 2_000]).expect("put");
}

/// Archives the log in several files, which the archive joins now and then.
fn archive(database: &Database, device: &SimDevice) -> katydid::Result<()> {
    let mut archive = LogArchive::open_in(device.directory())?;
    let mut archiver = archive.archiver(database, "test", 1 << 30)?;
    for number in 0..6 {
        put(database, number);
        archive.take(&mut archiver)?;
    }
    Ok(())
}

/// The machine crashes at each call, and all, none or some of the un-synced bytes survive.
/// Afterwards archiving goes on, and a restore to the end has everything that was acknowledged.
#[test]
fn archiving_goes_on_after_a_crash_at_each_call() {
    ENGINES.into_iter().for_each(crashes_at_each_call);
}

fn crashes_at_each_call(engine: EngineKind) {
    let whole = {
        let source = SimDevice::new(1);
        let database = Database::open_in(source.directory(), options(engine)).expect("open");
        let device = SimDevice::new(2);
        archive(&database, &device).expect("archive");
        device.steps()
    };
    assert!(whole > 30, "{whole} calls");
    for step in 0..whole {
        let survival = [Survival::Random, Survival::DropAll, Survival::KeepAll][step as usize % 3];
        let place = format!("{engine} engine, step {step} of {whole}, {survival:?}");
        let source = SimDevice::new(1);
        let database = Database::open_in(source.directory(), options(engine)).expect("open");
        let backup = directory();
        database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
        let device = SimDevice::new(2);
        // The archiver is made first, because log that is trimmed before there is an archiver is in
        // no archive.
        drop(database.log_archiver("test", 1 << 30).expect("archiver"));
        device.crash_at(step);
        let crashed = archive(&database, &device);
        assert!(crashed.is_err(), "{place}");
        // The log keeps what the archive does not have, however many checkpoints are taken.
        (0..3).for_each(|_| database.checkpoint().expect("checkpoint"));
        let device = device.reopen_with(step, survival);
        archive(&database, &device).unwrap_or_else(|error| panic!("{place}: {error}\n{}", device.dump()));
        assert!(!device.image().contains_key("unfinished.new"), "{place}");
        let to = directory();
        let (archive, plain) = (device.directory(), BackupOptions::default());
        let report = Database::restore_to_in(&[backup], archive, RestorePoint::End, to.clone(), &plain);
        report.unwrap_or_else(|error| panic!("{place}: {error}\n{}", device.dump()));
        let rows = rows_of(&to);
        assert_eq!(rows.len(), 6, "{place}");
    }
}

/// The archive has few files even after many small stretches.
#[test]
fn small_files_are_joined() {
    ENGINES.into_iter().for_each(joined);
}

fn joined(engine: EngineKind) {
    let source = SimDevice::new(1);
    let database = Database::open_in(source.directory(), options(engine)).expect("open");
    let (kept, backup) = (SimDevice::new(2), directory());
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let mut archive = LogArchive::open_in(kept.directory()).expect("open an archive");
    let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
    for number in 0..100 {
        put(&database, number);
        archive.take(&mut archiver).expect("archive");
    }
    let files = kept.image().keys().filter(|name| name.ends_with(".katydid-log")).count();
    assert!(files <= 12, "{files} files\n{}", kept.dump());
    drop(archive);
    let (to, plain) = (directory(), BackupOptions::default());
    Database::restore_to_in(&[backup], kept.directory(), RestorePoint::End, to.clone(), &plain)
        .expect("restore");
    assert_eq!(rows_of(&to).len(), 100);
}
