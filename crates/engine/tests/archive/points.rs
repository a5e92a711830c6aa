//! A restore to a commit's stamp has the model's state, from any backup that is old enough. The
//! tests also restore to times.
//!
//! With `KATYDID_SECONDS` the campaign goes on for this time with new histories, and restores to
//! every stamp of each history (`cargo xtask restore --seconds N`); `KATYDID_SEED` is the first
//! seed.

use crate::common::{assert_sound, fresh_seed, options_for, seed, seeds};
use crate::history::{Backup, Commit, ENGINES, History, Rows, options, rows_of};
use katydid::{
    ArchiveFault, BackupOptions, CommitStamp, Database, EngineKind, Error, LogArchive, LogStretch,
    MemoryDirectory, RestorePoint, RestoreReport,
};
use katydid_device::{Create, Directory, Method, SimDevice, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: usize = 260;

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn restore(
    chain: &[Arc<dyn Directory>],
    archive: Arc<dyn Directory>,
    point: RestorePoint,
) -> (katydid::Result<RestoreReport>, Arc<dyn Directory>) {
    let to = directory();
    let report = Database::restore_to_in(chain, archive, point, to.clone(), &BackupOptions::default());
    (report, to)
}

/// Description of a run.
struct Run<'a> {
    seed: u64,
    engine: EngineKind,
    archive: &'a SimDevice,
}

impl Run<'_> {
    fn check(&self, backup: &Backup, stamp: CommitStamp, wanted: &Rows) -> Arc<dyn Directory> {
        let Run { seed, engine, .. } = self;
        let place = format!("seed {seed}, {engine} engine, stamp {stamp}, backup of {}", backup.stamp);
        let point = RestorePoint::Stamp(stamp);
        let (report, to) = restore(&backup.chain, self.archive.directory(), point);
        let report = report.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(report.copy.stamp <= stamp, "{place}: {report:?}");
        let found = rows_of(&to);
        if found != *wanted {
            let missing = wanted.iter().filter(|(key, value)| found.get(*key) != Some(*value)).count();
            let more = found.keys().filter(|key| !wanted.contains_key(*key)).count();
            panic!("{place}: {missing} rows of {} are missing or others, {more} are more", wanted.len());
        }
        to
    }
}

/// Restores to commits of a history, to each commit from one of the backups that are old enough.
/// Returns the number of restores.
fn restored(seed: u64, engine: EngineKind, most: usize) -> usize {
    let mut history = History::new(seed, engine);
    (0..STEPS).for_each(|_| history.step());
    let (crashes, mut rng) = (history.crashes, history.rng.clone());
    let (mut commits, backups, archive) = history.end();
    commits.sort_by_key(|commit| commit.stamp);
    let run = Run { seed, engine, archive: &archive };
    let every = commits.len().div_ceil(most.max(1)).max(1);
    let (mut rows, mut points, mut newest) = (Rows::new(), 0, 0);
    for (nth, commit) in commits.iter().enumerate() {
        let Commit { stamp, after_drop, .. } = *commit;
        let before = rows.clone();
        commit.apply(&mut rows);
        let is_chosen = nth % every == 0 || nth + 1 == commits.len();
        let old: Vec<&Backup> = backups.iter().filter(|backup| backup.stamp <= stamp).collect();
        if !is_chosen || old.is_empty() {
            continue;
        }
        // Use the newest backup most of the time, and now and then any of them.
        let backup = if rng.u8(..4) == 0 { rng.usize(..old.len()) } else { old.len() - 1 };
        newest += usize::from(backup + 1 == old.len());
        let to = run.check(old[backup], stamp, &rows);
        points += 1;
        if rng.u8(..16) == 0 {
            assert_sound(&Database::verify_in(to, None).expect("verify"));
        }
        let just_before = CommitStamp::new(stamp.get() - 1);
        if !after_drop && rng.u8(..4) == 0 && old[backup].stamp <= just_before {
            run.check(old[backup], just_before, &before);
            points += 1;
        }
    }
    println!(
        "seed {seed}, {engine} engine: {points} points of {} commits, {} backups, {newest} from the newest, {crashes} crashes, {} archived files",
        commits.len(),
        backups.len(),
        archive.image().len()
    );
    points
}

#[test]
fn the_state_at_every_stamp_is_the_models() {
    for engine in ENGINES {
        let points: usize = seeds(1, 2, 1).map(|seed| restored(seed, engine, 20)).sum();
        assert!(points >= 50, "{points} points");
    }
}

/// Restores to every stamp of new histories until the time is up. Does nothing unless
/// `KATYDID_SECONDS` is set.
#[test]
fn campaign() {
    let seconds = std::env::var("KATYDID_SECONDS").ok().and_then(|text| text.parse().ok());
    let Some(length) = seconds.map(Duration::from_secs) else { return };
    let (start, mut seed) = (Instant::now(), seed(fresh_seed()));
    let mut points = 0;
    while start.elapsed() < length {
        println!("KATYDID_SEED={seed}");
        points += ENGINES.map(|engine| restored(seed, engine, usize::MAX)).iter().sum::<usize>();
        seed = seed.wrapping_add(1);
    }
    println!("evidence: {points} restored points");
}

/// The pages file of a restored database is as long as the archived log requires.
#[test]
fn a_file_that_has_grown_since_the_backup_is_restored() {
    let database =
        Database::open_in(SimDevice::new(6).directory(), options(EngineKind::Paged)).expect("open");
    let rows = database.table("rows").expect("table");
    let (backup, kept) = (directory(), directory());
    drop(database.log_archiver("test", 1 << 30).expect("archiver"));
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let length = |of: &Arc<dyn Directory>| of.open_read_only("katydid.pages").and_then(|file| file.len());
    let before = length(&backup).expect("a length");
    let mut number = 0u32;
    while number < 600 {
        let batch = number..number + 100;
        database
            .transact(|txn| batch.clone().try_for_each(|key| txn.put(&rows, key.to_be_bytes(), [7; 16_000])))
            .expect("put");
        number += 100;
        katydid::testing::run_background(&database);
    }
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
    archive.take(&mut archiver).expect("archive");
    drop(archive);
    let (report, to) = restore(&[backup], kept, RestorePoint::End);
    report.expect("restore");
    assert!(length(&to).expect("a length") > before + (4 << 20), "it has not grown");
    assert_sound(&Database::verify_in(to.clone(), None).expect("verify"));
    assert_eq!(rows_of(&to).len(), 600);
}

/// Puts 600 rows, each in four pages, and commits one more row. Returns the stamp of that commit.
fn put_long_rows(database: &Database) -> CommitStamp {
    let rows = database.table("rows").expect("table");
    for first in (0..600u32).step_by(100) {
        let batch = first..first + 100;
        database
            .transact(|txn| batch.clone().try_for_each(|key| txn.put(&rows, key.to_be_bytes(), [7; 16_000])))
            .expect("put");
        katydid::testing::run_background(database);
    }
    let txn = database.begin().expect("begin");
    txn.put(&rows, "last", "one").expect("put");
    txn.commit().expect("commit")
}

fn archived(database: &Database, kept: &Arc<dyn Directory>) {
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    let mut archiver = archive.archiver(database, "test", 1 << 30).expect("archiver");
    archive.take(&mut archiver).expect("archive");
}

fn compacted(database: Database, device: &SimDevice) -> Database {
    database.close().expect("close");
    let report = Database::compact_in(device.directory(), None).expect("compact");
    assert!(report.bytes_after < report.bytes_before / 2, "{report:?}");
    Database::open_in(device.directory(), options(EngineKind::Paged)).expect("open again")
}

fn pages_length(of: &Arc<dyn Directory>) -> u64 {
    of.open_read_only("katydid.pages").and_then(|file| file.len()).expect("a length")
}

/// The log is archived only after a compaction, so the stretch with the wanted commit names the
/// length of the file after the compaction. At the commit the file was longer.
#[test]
fn a_point_before_a_compaction_is_restored_from_a_stretch_that_ends_behind_it() {
    let device = SimDevice::new(6);
    let database = Database::open_in(device.directory(), options(EngineKind::Paged)).expect("open");
    let (backup, kept) = (directory(), directory());
    archived(&database, &kept);
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let stamp = put_long_rows(&database);
    assert!(database.drop_table("rows").expect("drop"));
    let database = compacted(database, &device);
    archived(&database, &kept);
    let (report, to) = restore(&[backup], kept, RestorePoint::Stamp(stamp));
    assert_eq!(report.expect("restore").copy.stamp, stamp);
    assert_sound(&Database::verify_in(to.clone(), None).expect("verify"));
    assert_eq!(rows_of(&to).len(), 601);
}

/// A compaction before the backup has given pages back to the file system. A restore does not make
/// these pages again.
#[test]
fn a_restored_file_is_no_longer_than_the_log_since_the_backup_requires() {
    let device = SimDevice::new(6);
    let database = Database::open_in(device.directory(), options(EngineKind::Paged)).expect("open");
    let (backup, kept) = (directory(), directory());
    archived(&database, &kept);
    put_long_rows(&database);
    archived(&database, &kept);
    assert!(database.drop_table("rows").expect("drop"));
    let database = compacted(database, &device);
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    database.put(&database.table("rows").expect("table"), "a", "1").expect("put");
    archived(&database, &kept);
    let length = pages_length(&backup);
    let (report, to) = restore(&[backup], kept, RestorePoint::End);
    report.expect("restore");
    assert!(pages_length(&to) <= length, "{} bytes from a backup of {length}", pages_length(&to));
    assert_eq!(rows_of(&to).len(), 1);
}

/// A restored database is another database than its source. The restored database can be written
/// to, backed up and archived.
#[test]
fn a_restored_database_goes_on() {
    ENGINES.into_iter().for_each(goes_on);
}

fn goes_on(engine: EngineKind) {
    let mut history = History::new(77, engine);
    (0..60).for_each(|_| history.step());
    let (commits, backups, archive) = history.end();
    let (report, to) = restore(&backups[0].chain, archive.directory(), RestorePoint::End);
    let report = report.expect("restore");
    assert!(report.copy.stamp >= commits[commits.len() - 1].stamp && report.moment.is_some());
    let database = Database::open_in(to, options(engine)).expect("open");
    let own = LogArchive::open_in(archive.directory()).expect("open the archive of another one");
    match own.archiver(&database, "test", 1 << 30) {
        Err(Error::Archive { fault, .. }) => {
            assert!(matches!(*fault, ArchiveFault::OtherDatabase { .. }), "{fault}");
        }
        other => panic!("{other:?}"),
    }
    drop(own);
    let (backup, kept) = (directory(), directory());
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let txn = database.begin().expect("begin");
    txn.put(&database.table("rows").expect("table"), "once", "more").expect("put");
    let stamp = txn.commit().expect("commit");
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
    archive.take(&mut archiver).expect("archive");
    let (again, to) = restore(&[backup], kept, RestorePoint::Stamp(stamp));
    assert_eq!(again.expect("restore").copy.stamp, stamp);
    assert_eq!(rows_of(&to)[&("rows", b"once".to_vec())], b"more");
}

/// A note is a stretch without log bytes. Its file must stay, because no other file contains the
/// note.
#[test]
fn opening_an_archive_keeps_a_note_in_a_file_of_its_own() {
    for engine in ENGINES {
        let database = Database::open_in(SimDevice::new(6).directory(), options_for(engine)).expect("open");
        database.put(&database.table("rows").expect("table"), "a", "1").expect("put");
        let mut archiver = database.log_archiver("hook", 1 << 30).expect("archiver");
        let kept = directory();
        let store = |stretch: LogStretch| {
            let file = kept.open(&stretch.file_name(), Create::New, Method::Buffered).expect("a file");
            file.write_at(&[IoSlice::new(&stretch.to_bytes())], 0, WriteMode::Durable).expect("write");
        };
        while let Some(stretch) = archiver.try_next().expect("stretch") {
            store(stretch);
        }
        let note = archiver.note().expect("note").expect("some log is archived");
        let name = note.file_name();
        store(note);
        drop(archiver);
        let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
        assert!(kept.list().expect("list").contains(&name), "{name} was removed");
        // The archive joins the next file with the note's file, and can still be opened.
        let mut archiver = archive.archiver(&database, "hook", 1 << 30).expect("archiver");
        database.put(&database.table("rows").expect("table"), "a", "2").expect("put");
        archive.take(&mut archiver).expect("archive");
        drop(archive);
        LogArchive::open_in(kept.clone()).expect("open an archive");
    }
}

/// While a database has no commits, its archive only notes the moment: no archived log is written
/// again, however often the moment is noted.
#[test]
fn a_note_is_joined_with_the_log_that_is_archived_next() {
    for engine in ENGINES {
        let database = Database::open_in(SimDevice::new(6).directory(), options_for(engine)).expect("open");
        let rows = database.table("rows").expect("table");
        let (backup, kept) = (directory(), directory());
        archived(&database, &kept);
        database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
        (0..50u8).for_each(|key| database.put(&rows, [key], [key; 900]).expect("put"));
        let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
        let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
        archive.take(&mut archiver).expect("archive");
        let files = || {
            let length = |name: &String| kept.open_read_only(name).and_then(|file| file.len());
            let names = kept.list().expect("list").into_iter();
            names.map(|name| (length(&name).expect("a length"), name)).collect::<Vec<_>>()
        };
        let before = files();
        for _ in 0..3 {
            assert_eq!(archive.take(&mut archiver).expect("archive"), 0);
            assert_eq!(files(), before, "{engine}");
        }
        database.put(&rows, "last", "one").expect("put");
        archive.take(&mut archiver).expect("archive");
        drop((archive, archiver));
        assert!(files().len() <= before.len() + 2, "{engine}: {:?}", files());
        let (report, to) = restore(&[backup], kept.clone(), RestorePoint::End);
        report.expect("restore");
        assert_eq!(rows_of(&to).len(), 51);
    }
}

/// A restore to a time restores the last moment that the archive has noted at or before that time.
#[test]
fn a_time_is_the_last_moment_noted() {
    ENGINES.into_iter().for_each(times);
}

fn times(engine: EngineKind) {
    let device = SimDevice::new(5);
    let database = Database::open_in(device.directory(), options_for(engine)).expect("open");
    let rows = database.table("rows").expect("table");
    let (backup, kept) = (directory(), directory());
    let mut archiver = database.log_archiver("hook", 1 << 30).expect("archiver");
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let mut archive = LogArchive::open_in(kept.clone()).expect("open an archive");
    let mut moments = Vec::new();
    for number in 0..12u64 {
        database.put(&rows, "last", number.to_le_bytes()).expect("put");
        while let Some(stretch) = archiver.try_next().expect("stretch") {
            archive.push(&stretch).expect("archive");
            archiver.acknowledge().expect("acknowledge");
            moments.push((stretch.moment(), number));
        }
    }
    drop(archive);
    let last = moments[moments.len() - 1].0;
    for (moment, _) in &moments {
        // If several moments are in one millisecond, a restore to this time restores the last of
        // them.
        let (_, wanted) = moments.iter().rfind(|(other, _)| other == moment).expect("itself");
        let (report, to) = restore(std::slice::from_ref(&backup), kept.clone(), RestorePoint::Time(*moment));
        let report = report.expect("restore");
        assert_eq!(report.moment, Some(*moment));
        assert_eq!(rows_of(&to)[&("rows", b"last".to_vec())], wanted.to_le_bytes());
        assert!(report.next_moment.is_none_or(|next| next > *moment), "{report:?}");
        // A restore to a time between two moments restores the first of them.
        if *moment < last {
            let between = RestorePoint::Time(*moment + Duration::from_nanos(999_999));
            let (between, _) = restore(std::slice::from_ref(&backup), kept.clone(), between);
            assert_eq!(between.expect("restore").copy.stamp, report.copy.stamp);
        }
    }
    let day = Duration::from_secs(86_400);
    for outside in [moments[0].0 - day, last + day] {
        match restore(std::slice::from_ref(&backup), kept.clone(), RestorePoint::Time(outside)).0 {
            Err(Error::Archive { fault, .. }) => {
                let known = ArchiveFault::TimeUnknown { first: Some(moments[0].0), last: Some(last) };
                assert_eq!(*fault, known);
            }
            other => panic!("{other:?}"),
        }
    }
}
