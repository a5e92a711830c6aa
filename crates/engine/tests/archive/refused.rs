//! Gaps, damage, other databases, and points that cannot be restored give typed errors with file
//! and position.

use crate::common::{kinds_in_nvram, options_for, with_log};
use crate::history::{ENGINES, options};
use katydid::{
    ArchiveFault, BackupOptions, CommitStamp, Database, EngineKind, Error, LogArchive, LogStretch,
    MemoryDirectory, RestorePoint,
};
use katydid_device::{Create, Directory, Method, SimDevice, WriteMode};
use std::fmt::Debug;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::sync::Arc;

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn fault<T: Debug>(outcome: katydid::Result<T>) -> ArchiveFault {
    match outcome {
        Err(Error::Archive { fault, .. }) => *fault,
        other => panic!("{other:?}"),
    }
}

fn put(database: &Database, number: u64) -> CommitStamp {
    let rows = database.table("rows").expect("table");
    let txn = database.begin().expect("begin");
    txn.put(&rows, number.to_le_bytes(), vec![number as u8; 3_000]).expect("put");
    txn.commit().expect("commit")
}

fn restore(
    backup: &Arc<dyn Directory>,
    archive: Arc<dyn Directory>,
    stamp: CommitStamp,
) -> katydid::Result<CommitStamp> {
    let point = RestorePoint::Stamp(stamp);
    let to = SimDevice::new(9);
    let report = Database::restore_to_in(
        std::slice::from_ref(backup),
        archive,
        point,
        to.directory(),
        &BackupOptions::default(),
    );
    assert!(report.is_ok() || to.image().is_empty(), "the target was changed");
    report.map(|report| report.copy.stamp)
}

/// Makes a database, its backup, and six stretches. Each stretch has one commit and is returned
/// with the stamp of that commit; the first stretch is returned with the stamp of the backup.
fn stretches(
    device: &SimDevice,
    engine: EngineKind,
) -> (Database, Arc<dyn Directory>, Vec<(LogStretch, CommitStamp)>) {
    let database = Database::open_in(device.directory(), options(engine)).expect("open");
    let mut archiver = database.log_archiver("test", 1 << 30).expect("archiver");
    let backup = directory();
    put(&database, 0);
    let report = database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let mut found = vec![(archiver.next().expect("a stretch"), report.stamp)];
    for number in 1..6 {
        let stamp = put(&database, number);
        found.push((archiver.next().expect("a stretch"), stamp));
    }
    archiver.acknowledge().expect("acknowledge");
    (database, backup, found)
}

fn keep<'a>(stretches: impl IntoIterator<Item = &'a LogStretch>) -> Arc<dyn Directory> {
    let directory = directory();
    for stretch in stretches {
        let file = directory.open(&stretch.file_name(), Create::New, Method::Buffered).expect("a file");
        file.write_at(&[IoSlice::new(&stretch.to_bytes())], 0, WriteMode::Durable).expect("write");
    }
    directory
}

/// A program may store the stretches in any way: files that contain them are an archive.
#[test]
fn a_missing_stretch_is_named_where_it_is_needed() {
    ENGINES.into_iter().for_each(missing_is_named);
}

fn missing_is_named(engine: EngineKind) {
    let (_database, backup, found) = stretches(&SimDevice::new(1), engine);
    let last = found[5].1;
    assert_eq!(restore(&backup, keep(found.iter().map(|(stretch, _)| stretch)), last).expect("all"), last);
    for missing in 1..5 {
        let rest = || found.iter().enumerate().filter(move |(nth, _)| *nth != missing).map(|(_, of)| &of.0);
        let (gone, before) = (&found[missing].0, found[missing - 1].1);
        let wanted = ArchiveFault::Missing { from: gone.from(), to: gone.to() };
        assert_eq!(fault(restore(&backup, keep(rest()), last)), wanted);
        // The stamp of the memory engine's backup may be the stamp of no commit. An archive is
        // complete up to such a stamp only after a later commit.
        if engine == EngineKind::Paged || missing > 1 {
            assert_eq!(restore(&backup, keep(rest()), before).expect("before the gap"), before);
        }
    }
    let short = || keep(found[..4].iter().map(|(stretch, _)| stretch));
    match fault(restore(&backup, short(), last)) {
        ArchiveFault::EndsBefore { end, wanted } => assert!(end >= found[3].1 && wanted == last),
        other => panic!("{other}"),
    }
    let gap = keep([&found[0].0, &found[2].0]);
    let plain = BackupOptions::default();
    let ends = |archive, point| {
        fault(Database::restore_to_in(std::slice::from_ref(&backup), archive, point, directory(), &plain))
    };
    // A restore to the end, or to a time after the gap, fails at the gap. The restore must not
    // return the state before the gap.
    for point in
        [RestorePoint::End, RestorePoint::Time(found[2].0.moment() + std::time::Duration::from_secs(86_400))]
    {
        match (ends(gap.clone(), point), point) {
            (ArchiveFault::Missing { from, to }, _) => {
                assert_eq!((from, to), (found[0].0.to(), found[2].0.from()));
            }
            (other, point) => panic!("{point:?}: {other}"),
        }
    }
    assert_eq!(fault(restore(&backup, directory(), last)), ArchiveFault::Empty);
    let early = CommitStamp::new(found[0].1.get() - 1);
    let (wanted, archive) = (early, keep(found.iter().map(|(stretch, _)| stretch)));
    let later = ArchiveFault::BackupIsLater { backup: found[0].1, wanted };
    assert_eq!(fault(restore(&backup, archive, early)), later);
}

/// After a crash the database's clock goes on from the last commit. So a later opening may use
/// stamps that the clock had passed without a commit.
#[test]
fn what_is_committed_after_a_crash_is_not_taken_for_archived_before() {
    let device = SimDevice::new(1);
    let (backup, kept) = (directory(), directory());
    let open = |device: &SimDevice| {
        Database::open_in(device.directory(), options(EngineKind::Memory)).expect("open")
    };
    let archive = |database: &Database| {
        let mut archive = LogArchive::open_in(kept.clone()).expect("open the archive");
        let mut archiver = archive.archiver(database, "test", 1 << 30).expect("archiver");
        archive.take(&mut archiver).expect("archive");
        archive.stamp()
    };
    let database = open(&device);
    put(&database, 0);
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let first = put(&database, 1);
    // Each of these calls moves the clock on, although nothing is committed.
    (0..60).for_each(|_| assert_eq!(archive(&database), Some(first)));
    device.freeze();
    drop(database);
    let database = open(&device.reopen_after_crash(1));
    let second = put(&database, 2);
    assert_eq!(archive(&database), Some(second));
    for (stamp, rows) in [(first, 2), (second, 3)] {
        let to = directory();
        let from = std::slice::from_ref(&backup);
        let point = RestorePoint::Stamp(stamp);
        Database::restore_to_in(from, kept.clone(), point, to.clone(), &BackupOptions::default())
            .expect("restore");
        assert_eq!(crate::history::rows_of(&to).len(), rows, "stamp {stamp}");
    }
}

/// Damages each file that the restore needs: changes one byte of the file, or cuts the file short.
#[test]
fn damage_is_named_with_file_and_position() {
    ENGINES.into_iter().for_each(damage_is_named);
}

fn damage_is_named(engine: EngineKind) {
    let (_database, backup, found) = stretches(&SimDevice::new(1), engine);
    let last = found[5].1;
    let mut rng = fastrand::Rng::with_seed(crate::common::seed(3));
    for (stretch, _) in &found[1..] {
        let length = stretch.to_bytes().len();
        for at in (0..130).step_by(7).chain((0..20).map(|_| rng.usize(..length))) {
            let archive = keep(found.iter().map(|(stretch, _)| stretch));
            let file = archive.open(&stretch.file_name(), Create::Never, Method::Buffered).expect("the file");
            let mut byte = [0];
            file.read_at(&mut byte, at as u64).expect("read");
            file.write_at(&[IoSlice::new(&[byte[0] ^ 0x10])], at as u64, WriteMode::Durable).expect("write");
            match fault(restore(&backup, archive, last)) {
                ArchiveFault::Corrupt { file, at: position, .. } => {
                    assert_eq!((file, position), (stretch.file_name(), stretch.from()), "byte {at}");
                }
                other => panic!("byte {at}: {other}"),
            }
        }
        for length in [0, 5, 127, 128, length - 1] {
            let archive = keep(found.iter().map(|(stretch, _)| stretch));
            let file = archive.open(&stretch.file_name(), Create::Never, Method::Buffered).expect("the file");
            file.truncate(length as u64).expect("truncate");
            match fault(restore(&backup, archive, last)) {
                ArchiveFault::Corrupt { file, .. } => assert_eq!(file, stretch.file_name()),
                other => panic!("{length} bytes: {other}"),
            }
        }
    }
}

/// The log is kept for an archiver up to the archiver's limit in bytes. If the log was trimmed
/// beyond the archiver's position, an error names the gap, and a new archiver begins above the gap.
#[test]
fn a_log_that_was_trimmed_is_a_gap() {
    ENGINES.into_iter().for_each(trimmed_is_a_gap);
}

fn trimmed_is_a_gap(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options(engine)).expect("open");
    let (near, far) = (directory(), directory());
    let mut kept = LogArchive::open_in(near.clone()).expect("open an archive");
    let mut archiver = kept.archiver(&database, "near", 1 << 30).expect("archiver");
    let mut lost = LogArchive::open_in(far.clone()).expect("open an archive");
    let mut slow = lost.archiver(&database, "far", 64 << 10).expect("archiver");
    kept.take(&mut archiver).expect("archive");
    lost.take(&mut slow).expect("archive");
    let end = lost.end().expect("it has something");
    for number in 0..200 {
        put(&database, number);
        if number % 10 == 0 {
            database.checkpoint().expect("checkpoint");
        }
    }
    // The archiver that takes its stretches in time loses nothing.
    kept.take(&mut archiver).expect("archive");
    for _ in 0..3 {
        database.checkpoint().expect("checkpoint");
    }
    let gap = fault(lost.take(&mut slow));
    let ArchiveFault::LogTrimmed { archived_to, log_start } = gap else { panic!("{gap}") };
    // In the memory engine `archived_to` is a position in one stream, and the archive's end is the
    // sum of the positions in all streams.
    assert!(log_start > archived_to && (archived_to == end) == (engine == EngineKind::Paged), "{gap}");
    // The gap is still there when the archive or the archiver is opened again.
    drop(lost);
    let lost = LogArchive::open_in(far).expect("open the archive again");
    assert!(matches!(fault(lost.archiver(&database, "far", 1 << 30)), ArchiveFault::LogTrimmed { .. }));
    assert!(matches!(fault(database.log_archiver("far", 1 << 30)), ArchiveFault::LogTrimmed { .. }));
    assert!(database.remove_log_archiver("far").expect("remove"));
    assert!(database.log_archiver("far", 1 << 30).expect("a new one").position() > end);
}

/// An archive does not go on with an older copy of its database, nor with another database.
#[test]
fn an_archive_goes_on_with_its_own_history_only() {
    ENGINES.into_iter().for_each(own_history_only);
}

fn own_history_only(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options(engine)).expect("open");
    put(&database, 0);
    database.close().expect("close");
    let (device, older) = (device.reopen_after_kill(), device.reopen_after_kill());
    let kept = directory();
    for (device, commits) in [(&device, 3), (&older, 1), (&older, 9)] {
        let database = Database::open_in(device.directory(), options(engine)).expect("open");
        for number in 0..commits {
            put(&database, number + 5 * commits);
        }
        let mut archive = LogArchive::open_in(kept.clone()).expect("open the archive");
        let archiver = archive.archiver(&database, "test", 1 << 30);
        if commits == 3 {
            archive.take(&mut archiver.expect("archiver")).expect("archive");
        } else {
            let refusal = fault(archiver);
            assert!(matches!(refusal, ArchiveFault::OtherHistory { .. }), "{refusal}");
        }
        database.close().expect("close");
    }
    let (other, backup, found) = stretches(&SimDevice::new(3), engine);
    let archive = LogArchive::open_in(kept.clone()).expect("open the archive");
    let refusal = fault(archive.archiver(&other, "test", 1 << 30));
    assert!(matches!(refusal, ArchiveFault::OtherDatabase { .. }), "{refusal}");
    let refusal = fault(restore(&backup, kept, found[5].1));
    assert!(matches!(refusal, ArchiveFault::OtherDatabase { .. }), "{refusal}");
}

/// A compaction moves pages. So log records after it do not fit the pages of an earlier backup.
#[test]
fn a_backup_is_restored_to_no_point_after_a_compacting() {
    let device = SimDevice::new(1);
    let mut database = Database::open_in(device.directory(), options(EngineKind::Paged)).expect("open");
    let kept = directory();
    let mut backups = Vec::new();
    let mut stamps = Vec::new();
    for round in 0..4u64 {
        let backup = directory();
        database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
        backups.push(backup);
        (0..20).for_each(|number| stamps.push(put(&database, number * (round + 1))));
        let mut archive = LogArchive::open_in(kept.clone()).expect("open the archive");
        let mut archiver = archive.archiver(&database, "test", 1 << 30).expect("archiver");
        archive.take(&mut archiver).expect("archive");
        drop(archiver);
        // Round 0 is not followed by a compaction.
        database.close().expect("close");
        if round > 0 {
            Database::compact_in(device.directory(), None).expect("compact");
        }
        database = Database::open_in(device.directory(), options(EngineKind::Paged)).expect("open again");
    }
    for (round, backup) in backups.iter().enumerate() {
        for (of, stamp) in stamps.iter().enumerate().map(|(nth, stamp)| (nth / 20, *stamp)) {
            let outcome = restore(backup, kept.clone(), stamp);
            match of {
                _ if of < round => {
                    assert!(matches!(fault(outcome), ArchiveFault::BackupIsLater { .. }));
                }
                // There is no compaction between rounds 0 and 1.
                _ if of == round || (round, of) == (0, 1) => assert_eq!(outcome.expect("restore"), stamp),
                _ => assert!(matches!(fault(outcome), ArchiveFault::Compacted { .. }), "{round} to {of}"),
            }
        }
    }
}

#[test]
fn what_has_no_archives_says_so() {
    for (log, engine) in kinds_in_nvram().flat_map(|log| ENGINES.map(|engine| (log, engine))) {
        let options = with_log(options_for(engine), log);
        let database = Database::open_in(SimDevice::new(1).directory(), options).expect("open");
        assert_eq!(fault(database.log_archiver("test", 1)), ArchiveFault::LogInNvram { log });
    }
    let (database, _, _) = stretches(&SimDevice::new(5), EngineKind::Paged);
    for name in ["", "Upper", &"x".repeat(57)] {
        assert!(matches!(database.log_archiver(name, 1), Err(Error::Log(_))), "{name}");
    }
    let feed = database.consumer("archive-test", 1, &katydid::ChangesFrom::Now);
    assert!(matches!(feed, Err(Error::Option { option: "name", .. })), "{feed:?}");
}

/// A program may store stretches and marks as bytes. The bytes are read back unchanged, and damage
/// to them is noticed.
#[test]
fn bytes_of_stretches_and_marks_are_read_back_and_damage_noticed() {
    ENGINES.into_iter().for_each(bytes_are_read_back);
}

fn bytes_are_read_back(engine: EngineKind) {
    let (database, _, found) = stretches(&SimDevice::new(1), engine);
    let (stretch, _) = &found[3];
    let (bytes, mark) = (stretch.to_bytes(), stretch.mark());
    let back = LogStretch::from_bytes(&bytes).expect("a stretch");
    assert_eq!((back.to_bytes(), back.file_name()), (bytes.clone(), stretch.file_name()));
    assert_eq!(back.mark(), mark);
    assert_eq!(katydid::ArchiveMark::from_bytes(&mark.to_bytes()).expect("a mark"), mark);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(matches!(fault(LogStretch::from_bytes(&damaged)), ArchiveFault::Corrupt { .. }), "byte {at}");
    }
    for length in [0, 1, 127, 128, bytes.len() - 1] {
        fault(LogStretch::from_bytes(&bytes[..length]));
    }
    // The archiver returns the log above the mark, and nothing else.
    let mut archiver = database.log_archiver_after("test", 1 << 30, &mark).expect("archiver");
    assert_eq!(archiver.try_next().expect("a stretch").expect("one").from(), mark.position());
    let other = Database::open_in(SimDevice::new(8).directory(), options(engine)).expect("open");
    let refusal = fault(other.log_archiver_after("test", 1 << 30, &mark));
    assert!(matches!(refusal, ArchiveFault::OtherDatabase { .. }), "{refusal}");
}

/// A run begins at the end of the last stretch that the hook accepted. So the hook gets an accepted
/// stretch only once. If it fails at a stretch, it gets this stretch again.
#[test]
fn a_hook_is_given_each_stretch_until_it_has_it() {
    ENGINES.into_iter().for_each(hook);
}

fn hook(engine: EngineKind) {
    let device = SimDevice::new(1);
    let database = Database::open_in(device.directory(), options(engine)).expect("open");
    let begin = database.log_archiver("hook", 1 << 30).expect("archiver").position();
    let mut reached = begin;
    let mut fails = true;
    for number in 0..8 {
        put(&database, number);
        let mut archiver = database.log_archiver("hook", 1 << 30).expect("archiver");
        let durable =
            database.stat().expect("stat").log.streams.into_iter().map(|stream| stream.durable.get());
        let end = katydid::Lsn::new(durable.sum());
        let outcome = archiver.run(|stretch| {
            assert_eq!(stretch.from(), reached, "a gap, or accepted log once more");
            fails = !fails;
            if fails {
                return Err(Error::Internal("the store of the program is away"));
            }
            reached = stretch.to();
            Ok(if reached >= end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        assert_eq!(outcome.is_err(), fails);
    }
    assert!(reached > begin);
    // The archiver is one of the log's consumers.
    assert!(
        database.stat().expect("stat").log.consumers.iter().any(|consumer| consumer.name == "archive-hook")
    );
}
