//! Archiving while several threads commit: a restore to a stamp has every commit up to that stamp
//! and no others.

use crate::common::options_for;
use crate::history::ENGINES;
use katydid::{
    BackupOptions, CommitStamp, Database, EngineKind, LogArchive, MemoryDirectory, Options, RestorePoint,
};
use katydid_device::Directory;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const THREADS: usize = 3;
/// Number of rounds of each thread after the backup; each round has two commits.
const ROUNDS: u64 = 150;
/// Number of points that are restored.
const POINTS: usize = 24;

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn keys_of(directory: Arc<dyn Directory>, engine: EngineKind) -> BTreeSet<Vec<u8>> {
    let options = Options { create: false, ..options_for(engine) };
    let database = Database::open_in(directory, options).expect("the restored database");
    let rows = database.open_table("rows").expect("open table").expect("a table");
    let view = database.begin_read_only().expect("begin");
    view.range(&rows, ..).map(|row| row.expect("scan").0).collect()
}

#[test]
fn a_point_has_the_commits_up_to_its_stamp_and_no_others() {
    ENGINES.into_iter().for_each(beside);
}

fn beside(engine: EngineKind) {
    let database = Database::open_in(directory(), options_for(engine)).expect("open");
    let rows = database.table("rows").expect("table");
    let (backup, kept) = (directory(), directory());
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
    let (running, copied) = (AtomicUsize::new(THREADS), AtomicBool::new(false));
    let (begun, mut commits) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (database, rows, running, copied) = (&database, &rows, &running, &copied);
                scope.spawn(move || {
                    let (mut commits, mut left) = (Vec::new(), ROUNDS);
                    for number in 0u64.. {
                        if left == 0 {
                            break;
                        }
                        left -= u64::from(copied.load(Ordering::Acquire));
                        let key = format!("{thread}-{number}").into_bytes();
                        // Several transactions are open at once, and do not commit in the order in
                        // which they began.
                        let [first, second] = [(); 2].map(|()| database.begin().expect("begin"));
                        first.put(rows, &key, [1; 300]).expect("put");
                        let other = [&key[..], b"+"].concat();
                        second.put(rows, &other, [2; 300]).expect("put");
                        commits.push((second.commit().expect("commit"), other));
                        commits.push((first.commit().expect("commit"), key));
                    }
                    running.fetch_sub(1, Ordering::Release);
                    commits
                })
            })
            .collect();
        let begun = database.backup_in(backup.clone(), &BackupOptions::default()).map(|made| made.stamp);
        copied.store(true, Ordering::Release);
        let begun = begun.expect("backup");
        while running.load(Ordering::Acquire) > 0 {
            archive.take(&mut archiver).expect("archive");
        }
        archive.take(&mut archiver).expect("archive");
        let commits = writers.into_iter().flat_map(|writer| writer.join().expect("no panic"));
        (begun, commits.collect::<Vec<(CommitStamp, Vec<u8>)>>())
    });
    drop(archive);
    commits.sort();
    let last = commits[commits.len() - 1].0;
    let stamps: Vec<CommitStamp> =
        commits.iter().map(|(stamp, _)| *stamp).filter(|stamp| *stamp >= begun).collect();
    let every = stamps.len().div_ceil(POINTS).max(1);
    for wanted in stamps.iter().copied().step_by(every).chain([last]) {
        let (to, point) = (directory(), RestorePoint::Stamp(wanted));
        let from = std::slice::from_ref(&backup);
        let report =
            Database::restore_to_in(from, kept.clone(), point, to.clone(), &BackupOptions::default());
        assert!(report.expect("restore").copy.stamp <= wanted);
        let expected = commits.iter().take_while(|(stamp, _)| *stamp <= wanted).map(|(_, key)| key.clone());
        assert!(keys_of(to, engine) == expected.collect(), "{engine} engine, stamp {wanted}");
    }
    // A restore to the end has all commits, whatever the stamps of the last ones are.
    let to = directory();
    Database::restore_to_in(&[backup], kept, RestorePoint::End, to.clone(), &BackupOptions::default())
        .expect("restore");
    assert_eq!(keys_of(to, engine).len(), commits.len());
}
