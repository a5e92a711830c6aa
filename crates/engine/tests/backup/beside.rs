//! Backups that run while transactions, checkpoints and eviction run.

use crate::common::{options_for, seeds, with_advanced};
use crate::model::{Done, Writer, check};
use katydid::{BackupOptions, Database, EngineKind, LockRelease, MemoryDirectory};
use katydid_device::Directory;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

suite![what_is_written_between_two_pieces, several_threads, a_copy_of_a_copy];

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Opens a database in which the writers of the model have run transactions. A second table, which
/// no writer uses, makes the database large enough for several pieces of a backup.
fn open(engine: EngineKind, release: LockRelease, writers: &mut [Writer]) -> Database {
    let options = with_advanced(options_for(engine), |advanced| advanced.lock_release = release);
    let database = Database::open_in(directory(), options).expect("open");
    let table = database.table("rows").expect("table");
    for number in 0..120 {
        let writer = number % writers.len();
        writers[writer].write(&database, &table);
    }
    let ballast = database.table("ballast").expect("table");
    for first in (0..3_000u32).step_by(100) {
        database
            .transact(|txn| {
                (first..first + 100).try_for_each(|key| txn.put(&ballast, key.to_be_bytes(), [7; 1_000]))
            })
            .expect("load");
    }
    database.checkpoint().expect("checkpoint");
    database
}

/// One thread does everything, so a seed always gives the same run. Between two pieces of a backup
/// there are transactions, checkpoints, and pages that the pool writes back for want of room.
fn what_is_written_between_two_pieces(engine: EngineKind) {
    for seed in seeds(20, 1, 1) {
        for release in [LockRelease::Early, LockRelease::AfterDurable] {
            let mut writers = [Writer::new(0, seed, 300), Writer::new(1, seed, 300)];
            let database = open(engine, release, &mut writers);
            let table = database.table("rows").expect("table");
            let before = writers.each_ref().map(|writer| writer.done.len() as u64);
            let shared = Arc::new(Mutex::new(writers));
            let (beside, in_callback) = (database.clone(), shared.clone());
            let options = BackupOptions {
                on_progress: Some(Arc::new(move |_, _| {
                    let mut writers = in_callback.lock().expect("no panic");
                    for _ in 0..20 {
                        let writer = writers[0].rng.usize(..2);
                        writers[writer].write(&beside, &table);
                        if writers[writer].rng.u8(..10) == 0 {
                            beside.checkpoint().expect("checkpoint");
                        }
                    }
                    ControlFlow::Continue(())
                })),
                ..BackupOptions::default()
            };
            let copy = directory();
            let report = database.backup_in(copy.clone(), &options).expect("backup");
            let history: Vec<Done> =
                shared.lock().expect("no panic").iter().flat_map(|writer| writer.done.clone()).collect();
            assert!(history.len() > 120 + 40, "nothing was written beside it");
            println!("seed {seed}, {release:?}: {} bytes at stamp {}", report.bytes, report.stamp);
            check(&copy, engine, &report, &history, &before);
            drop(options);
            database.close().expect("close");
        }
    }
}

fn several_threads(engine: EngineKind) {
    for (release, seed) in [LockRelease::Early, LockRelease::AfterDurable].into_iter().zip(seeds(40, 1, 1)) {
        let mut writers: Vec<Writer> = (0..3).map(|number| Writer::new(number, seed, 300)).collect();
        let database = open(engine, release, &mut writers);
        let table = database.table("rows").expect("table");
        let acknowledged: Vec<AtomicU64> =
            writers.iter().map(|writer| AtomicU64::new(writer.done.len() as u64)).collect();
        let is_over = AtomicBool::new(false);
        let mut copies = Vec::new();
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (database, table, acknowledged, is_over) = (&database, &table, &acknowledged, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        writer.write(database, table);
                        acknowledged[writer.number].fetch_add(1, Ordering::Release);
                    }
                });
            }
            let (checked, ended) = (&database, &is_over);
            scope.spawn(move || {
                while !ended.load(Ordering::Acquire) {
                    checked.checkpoint().expect("checkpoint");
                }
            });
            for _ in 0..2 {
                let copy = directory();
                let before: Vec<u64> =
                    acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
                let report = database.backup_in(copy.clone(), &BackupOptions::default());
                copies.push((copy, report, before));
            }
            is_over.store(true, Ordering::Release);
        });
        let history: Vec<Done> = writers.iter().flat_map(|writer| writer.done.clone()).collect();
        for (copy, report, before) in copies {
            check(&copy, engine, &report.expect("backup"), &history, &before);
        }
        database.close().expect("close");
    }
}

/// A backup that is restored, and backed up again, has the same rows.
fn a_copy_of_a_copy(engine: EngineKind) {
    let mut writers = [Writer::new(0, 3, 100)];
    let database = open(engine, LockRelease::Early, &mut writers);
    let before = [writers[0].done.len() as u64];
    let (backup, restored, again) = (directory(), directory(), directory());
    let options = BackupOptions { verify: true, ..BackupOptions::default() };
    let first = database.backup_in(backup.clone(), &options).expect("backup");
    assert!(first.verified.as_ref().is_some_and(katydid::VerifyReport::is_sound), "{first:?}");
    let second = Database::restore_in(backup.clone(), restored.clone(), &options).expect("restore");
    assert_eq!((second.stamp, second.id == first.id), (first.stamp, false));
    // The check of the backup did not open the backup, so the backup can be restored again.
    let third = Database::restore_in(backup.clone(), again.clone(), &options).expect("restore again");
    assert!(third.id != second.id);
    for copy in [&restored, &again, &backup] {
        check(copy, engine, &first, &writers[0].done, &before);
    }
    let of_copy = Database::open_in(restored, options_for(engine)).expect("open");
    let last = directory();
    of_copy.backup_in(last.clone(), &options).expect("backup of a copy");
    let opened = Database::open_in(last, options_for(engine)).expect("open");
    let table = opened.table("rows").expect("table");
    assert_eq!(opened.get(&table, "afterwards").expect("get").as_deref(), Some(&b"written"[..]));
}
