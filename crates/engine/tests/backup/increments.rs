//! Increments, which have what changed since a backup, and restores of chains of increments.

use crate::common::{options_for, seeds, with_advanced};
use crate::model::{Done, Writer, check};
use katydid::{BackupOptions, BackupReport, CopyFault, Database, EngineKind, Error, LockRelease, Options};
use katydid_device::{Directory, SimDevice, Survival};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

const PAGED: EngineKind = EngineKind::Paged;

fn plain() -> BackupOptions {
    BackupOptions::default()
}

fn fault(outcome: katydid::Result<BackupReport>) -> CopyFault {
    match outcome {
        Err(Error::Copy { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// Returns options of an increment. At each report of its progress `writers` write, and a
/// checkpoint is taken.
fn beside(database: &Database, writers: &Arc<Mutex<Vec<Writer>>>) -> BackupOptions {
    let (database, writers) = (database.clone(), writers.clone());
    let table = database.table("rows").expect("table");
    let on_progress = move |_: u64, _: u64| {
        let mut writers = writers.lock().expect("no panic");
        for _ in 0..10 {
            let writer = writers[0].rng.usize(..2);
            writers[writer].write(&database, &table);
        }
        database.checkpoint().expect("checkpoint");
        ControlFlow::Continue(())
    };
    BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() }
}

/// A whole backup and three increments, the last one after a compaction has rewritten the pages
/// file. Each prefix of this chain restores the state at the end of the prefix.
#[test]
fn each_first_part_of_a_chain_is_restored() {
    for (seed, release) in seeds(60, 1, 1).zip([LockRelease::Early, LockRelease::AfterDurable]) {
        let source = SimDevice::new(seed);
        let options = with_advanced(options_for(PAGED), |advanced| advanced.lock_release = release);
        let mut database = Database::open_in(source.directory(), options.clone()).expect("open");
        let writers: Vec<Writer> = (0..2).map(|number| Writer::new(number, seed, 200)).collect();
        let writers = Arc::new(Mutex::new(writers));
        let (mut copies, mut reports, mut before) =
            (Vec::<Arc<dyn Directory>>::new(), Vec::new(), Vec::new());
        for nth in 0..4u64 {
            let table = database.table("rows").expect("table");
            for _ in 0..60 {
                let mut writers = writers.lock().expect("no panic");
                let writer = writers[0].rng.usize(..2);
                writers[writer].write(&database, &table);
            }
            if nth == 0 {
                // These rows do not change, and no increment may copy them again.
                let ballast = database.table("ballast").expect("table");
                for first in (0..6_000u32).step_by(100) {
                    let rows = first..first + 100;
                    let load = database.transact(|txn| {
                        rows.clone().try_for_each(|key| txn.put(&ballast, key.to_be_bytes(), [7; 1_000]))
                    });
                    load.expect("load");
                }
            }
            if nth == 2 {
                // The file grows, and pages are freed and used again.
                let extra = database.table("extra").expect("table");
                (0..200u32).for_each(|key| {
                    database.put(&extra, key.to_be_bytes(), vec![1; 9_000]).expect("put");
                });
                database.drop_table("extra").expect("drop");
            }
            if nth == 3 {
                database.close().expect("close");
                let compacted = Database::compact_in(source.directory(), None).expect("compact");
                assert!(compacted.bytes_after < compacted.bytes_before);
                database = Database::open_in(source.directory(), options.clone()).expect("open");
            }
            let counts = writers.lock().expect("no panic").iter().map(Writer::count).collect::<Vec<_>>();
            before.push(counts);
            let copy = SimDevice::new(100 + nth).directory();
            let options = beside(&database, &writers);
            let report = match copies.last() {
                None => database.backup_in(copy.clone(), &options),
                Some(base) => database.backup_changes_in(copy.clone(), base.as_ref(), &options),
            };
            reports.push(report.expect("backup"));
            copies.push(copy);
        }
        let changed = |copy: &Arc<dyn Directory>| {
            copy.open_read_only("katydid.changes").expect("the file").len().expect("its length")
        };
        let whole = copies[0].open_read_only("katydid.pages").expect("the file").len().expect("its length");
        assert!(changed(&copies[1]) * 2 < whole, "{} of {whole}", changed(&copies[1]));
        let history: Vec<Done> =
            writers.lock().expect("no panic").iter().flat_map(|writer| writer.done.clone()).collect();
        for last in 0..copies.len() {
            let restored = SimDevice::new(200).directory();
            let report = Database::restore_chain_in(&copies[..=last], restored.clone(), &plain());
            let report = report.expect("restore");
            assert_eq!(report.stamp, reports[last].stamp);
            println!("seed {seed}, {} increments, stamp {}", last, report.stamp);
            check(&restored, PAGED, &report, &history, &before[last]);
        }
        // A copy is missing, or the copies are in another order.
        for wrong in [[0, 2], [0, 3], [1, 2], [2, 1]] {
            let chain = wrong.map(|nth| copies[nth].clone());
            let to = SimDevice::new(300);
            let outcome = fault(Database::restore_chain_in(&chain, to.directory(), &plain()));
            match outcome {
                CopyFault::Increment => assert!(wrong[0] > 0),
                CopyFault::WrongBase { base, found } => {
                    assert!(
                        wrong[0] == 0 && base == Some(reports[wrong[1] - 1].id) && found == reports[0].id
                    );
                }
                other => panic!("{other:?}"),
            }
            assert!(to.image().is_empty(), "the target was changed");
        }
    }
}

fn small(device: &SimDevice) -> Database {
    let database = Database::open_in(device.directory(), options_for(PAGED)).expect("open");
    let table = database.table("rows").expect("table");
    (0..200u8).for_each(|key| database.put(&table, [key], [key; 300]).expect("put"));
    database
}

#[test]
fn an_increment_is_no_database() {
    let database = small(&SimDevice::new(1));
    let (whole, increment) = (SimDevice::new(2), SimDevice::new(3));
    database.backup_in(whole.directory(), &plain()).expect("backup");
    let base = whole.directory();
    database.backup_changes_in(increment.directory(), base.as_ref(), &plain()).expect("increment");
    for create in [false, true] {
        let outcome = Database::open_in(increment.directory(), Options { create, ..options_for(PAGED) });
        assert!(matches!(outcome, Err(Error::Copy { fault: CopyFault::Increment, .. })), "{outcome:?}");
    }
    let outcome = Database::verify_in(increment.directory(), None);
    assert!(matches!(outcome, Err(Error::Copy { fault: CopyFault::Increment, .. })), "{outcome:?}");
    assert_eq!(
        fault(Database::restore_in(increment.directory(), SimDevice::new(4).directory(), &plain())),
        CopyFault::Increment
    );
}

/// An increment of a database refuses a base of another database, even if the database was restored
/// from that base. It also refuses a folder without a backup, and a database of the memory engine.
#[test]
fn a_base_of_another_database_is_refused() {
    let database = small(&SimDevice::new(1));
    let whole = SimDevice::new(2);
    database.backup_in(whole.directory(), &plain()).expect("backup");
    let base = whole.directory();
    let restored = SimDevice::new(4);
    Database::restore_in(base.clone(), restored.directory(), &plain()).expect("restore");
    let restored = Database::open_in(restored.directory(), options_for(PAGED)).expect("open");
    for other in [small(&SimDevice::new(5)), restored] {
        let to = SimDevice::new(6);
        let outcome = fault(other.backup_changes_in(to.directory(), base.as_ref(), &plain()));
        assert!(matches!(outcome, CopyFault::OtherDatabase { .. }), "{outcome:?}");
        assert!(to.image().is_empty(), "the target was changed");
    }
    let nothing = SimDevice::new(7).directory();
    let to = SimDevice::new(6).directory();
    assert_eq!(fault(database.backup_changes_in(to, nothing.as_ref(), &plain())), CopyFault::NoBackup);

    let memory = Database::open_in(SimDevice::new(8).directory(), options_for(EngineKind::Memory));
    let memory = memory.expect("open");
    let whole = SimDevice::new(9).directory();
    memory.backup_in(whole.clone(), &plain()).expect("backup");
    let to = SimDevice::new(10).directory();
    assert_eq!(fault(memory.backup_changes_in(to, whole.as_ref(), &plain())), CopyFault::NoIncrements);
}

/// A restore refuses a base that was opened, so an increment to it would be of no use.
#[test]
fn a_base_that_was_opened_is_refused() {
    let database = small(&SimDevice::new(1));
    let whole = SimDevice::new(2);
    database.backup_in(whole.directory(), &plain()).expect("backup");
    Database::open_in(whole.directory(), options_for(PAGED)).expect("open").close().expect("close");
    let to = SimDevice::new(3);
    let outcome = database.backup_changes_in(to.directory(), whole.directory().as_ref(), &plain());
    assert_eq!(fault(outcome), CopyFault::OpenedSince);
    assert!(to.image().is_empty(), "the target was changed");
}

#[test]
fn a_damaged_increment_is_refused() {
    let database = small(&SimDevice::new(1));
    let (whole, increment) = (SimDevice::new(2), SimDevice::new(3));
    database.backup_in(whole.directory(), &plain()).expect("backup");
    let base = whole.directory();
    database.backup_changes_in(increment.directory(), base.as_ref(), &plain()).expect("increment");
    let length = increment.image()["katydid.changes"].len() as u64;
    assert!(length > 2 * 4096, "it has pages");
    for at in [20, 60, 4096 + 100, length - 1] {
        let damaged = increment.reopen_after_kill();
        assert!(damaged.corrupt("katydid.changes", at, 4));
        let chain = [base.clone(), damaged.directory()];
        let outcome = Database::restore_chain_in(&chain, SimDevice::new(4).directory(), &plain());
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "byte {at}: {outcome:?}");
    }
}

#[test]
fn a_crash_leaves_an_increment_whole_or_incomplete() {
    let database = small(&SimDevice::new(1));
    let whole = SimDevice::new(2);
    database.backup_in(whole.directory(), &plain()).expect("backup");
    let table = database.table("rows").expect("table");
    database.put(&table, "late", "written").expect("put");
    let base = whole.directory();
    let good = SimDevice::new(3);
    database.backup_changes_in(good.directory(), base.as_ref(), &plain()).expect("increment");
    let (mut restored, mut refused) = (0, 0);
    for step in 0..good.steps() {
        let device = SimDevice::new(step);
        device.crash_at(step);
        database.backup_changes_in(device.directory(), base.as_ref(), &plain()).expect_err("a crash");
        for survival in [Survival::Random, Survival::DropAll, Survival::KeepAll] {
            let left = device.reopen_with(step, survival);
            let is_empty = left.image().is_empty();
            let to = SimDevice::new(9).directory();
            let chain = [base.clone(), left.directory()];
            match Database::restore_chain_in(&chain, to.clone(), &plain()) {
                Ok(_) => {
                    let database = Database::open_in(to, options_for(PAGED)).expect("open");
                    let table = database.table("rows").expect("table");
                    assert!(database.contains(&table, "late").expect("get"), "step {step}, {survival:?}");
                    restored += 1;
                }
                Err(Error::Copy { fault: CopyFault::Incomplete, .. }) => refused += 1,
                Err(Error::NotFound { .. }) if is_empty => refused += 1,
                Err(error) => panic!("step {step}, {survival:?}: {error}"),
            }
        }
    }
    assert!(restored > 0 && refused > 20, "{restored} and {refused}");
}
