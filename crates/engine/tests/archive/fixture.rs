//! For each version of the format, restores a kept backup and its archive to each of the archive's
//! stamps and times. `tests/fixtures` has the backup and the archive as that version wrote them.
//! Version 1 is of the paged engine, version 2 of the memory engine.
//!
//! `KATYDID_WRITE_FIXTURES=1 cargo test -p katydid --test archive fixture::` writes missing
//! fixtures. This is right only for a new version of the format, in a folder of its own: the files
//! of a released version stay as they are.

use crate::common::assert_sound;
use crate::history::{Rows, options, rows_in, rows_of};
use katydid::{
    ArchiveMark, BackupOptions, CommitStamp, Database, EngineKind, FileOptions, LogArchive, MemoryDirectory,
    RestorePoint, RestoreReport, Transaction,
};
use katydid_device::{Create, Directory, Method, WriteMode};
use std::fmt::Write as _;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

const VERSIONS: [(u32, EngineKind); 2] = [(1, EngineKind::Paged), (2, EngineKind::Memory)];
const PAGES: &str = "katydid.pages";
/// Bytes by which a file of pages grows. The fixtures leave out the zeros at the end of the file.
const GROWTH_BYTES: usize = 512 << 10;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (version, engine) in VERSIONS {
        let folder = folder.join(format!("archive-v{version}"));
        if std::env::var_os("KATYDID_WRITE_FIXTURES").is_some() && !folder.exists() {
            write_anew(&folder, engine);
        }
    }
    folder
});

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Copies a folder into memory, so that the kept files stay as they are.
fn copy(folder: &Path, to: &Arc<dyn Directory>) {
    for entry in std::fs::read_dir(folder).expect("a kept folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &to.subdirectory(&name).expect("a folder"));
        } else {
            let mut bytes = std::fs::read(entry.path()).expect("a kept file");
            if name == PAGES {
                bytes.resize(bytes.len().next_multiple_of(GROWTH_BYTES), 0);
            }
            let file = to.open(&name, Create::New, Method::Buffered).expect("a file");
            file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable).expect("write");
        }
    }
}

/// Writes the files of a directory, and of its subdirectories with these names.
fn save(from: &dyn Directory, folders: &[&str], to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for name in folders {
        if let Some(folder) = from.existing_subdirectory(name).expect("list") {
            save(folder.as_ref(), folders, &to.join(name));
        }
    }
    for name in from.list().expect("list") {
        let Ok(file) = from.open_read_only(&name) else { continue };
        let mut bytes = vec![0; file.len().expect("length") as usize];
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), bytes.len());
        if name == PAGES {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(used.next_multiple_of(4096));
        }
        std::fs::write(to.join(name), bytes).expect("write");
    }
}

fn folder(version: u32) -> PathBuf {
    FOLDER.join(format!("archive-v{version}"))
}

/// Returns the kept backup and the kept archive.
fn kept(version: u32) -> (Arc<dyn Directory>, Arc<dyn Directory>) {
    let (backup, archive) = (directory(), directory());
    copy(&folder(version).join("backup"), &backup);
    copy(&folder(version).join("archive"), &archive);
    (backup, archive)
}

/// Returns the rows as one text: for each its table, its key, and the length and beginning of its
/// value.
fn shown(rows: &Rows) -> String {
    let mut text = String::new();
    for ((table, key), value) in rows {
        let (key, start) =
            (String::from_utf8_lossy(key), String::from_utf8_lossy(&value[..value.len().min(8)]));
        write!(text, " {table}/{key}={}:{start}", value.len()).expect("a string");
    }
    text
}

/// A kept point: a commit, the first moment that the archive has noted after it, and the rows.
#[derive(Debug, PartialEq, Eq)]
struct Point {
    stamp: CommitStamp,
    /// The moment in milliseconds since 1970.
    moment: u64,
    rows: String,
}

fn points(version: u32) -> Vec<Point> {
    let text = std::fs::read_to_string(folder(version).join("points.txt")).expect("the kept points");
    let point = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next().expect("a word").parse::<u64>().expect("a number");
        let (stamp, moment) = (CommitStamp::new(number()), number());
        Point { stamp, moment, rows: format!(" {}", words.next().unwrap_or_default()) }
    };
    text.lines().map(point).collect()
}

fn restore(
    point: RestorePoint,
    (backup, archive): (Arc<dyn Directory>, Arc<dyn Directory>),
) -> (RestoreReport, Arc<dyn Directory>) {
    let to = directory();
    let report = Database::restore_to_in(&[backup], archive, point, to.clone(), &BackupOptions::default());
    (report.expect("restore"), to)
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

#[test]
fn each_version_is_restored_to_each_point_and_goes_on() {
    VERSIONS.into_iter().for_each(|(version, engine)| each_point(version, engine));
}

fn each_point(version: u32, engine: EngineKind) {
    let points = points(version);
    assert_eq!(points.len(), 6);
    for point in &points {
        let (report, to) = restore(RestorePoint::Stamp(point.stamp), kept(version));
        let moment = report.moment.map(millis).expect("a moment");
        let found = Point { stamp: report.copy.stamp, moment, rows: shown(&rows_of(&to)) };
        assert_eq!(found, *point);
        assert_sound(&Database::verify_in(to, None).expect("verify"));
        // A restore to the time of a moment has all commits up to the last one before that moment.
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(point.moment);
        let (_, to) = restore(RestorePoint::Time(time), kept(version));
        let last = points.iter().rfind(|other| other.moment == point.moment).expect("itself");
        assert_eq!(shown(&rows_of(&to)), last.rows);
    }
    let (_, to) = restore(RestorePoint::End, kept(version));
    assert_eq!(shown(&rows_of(&to)), points[5].rows);
    let database = Database::open_in(to, options(engine)).expect("open");
    let rows = database.table("rows").expect("table");
    database.put(&rows, "apple", "of today").expect("put");
    assert_eq!(database.get(&rows, "apple").expect("get").as_deref(), Some(&b"of today"[..]));
}

#[test]
fn an_archive_of_each_version_is_gone_on_with_by_its_mark() {
    for (version, _) in VERSIONS {
        let (_, archive) = kept(version);
        let mut files = archive.list().expect("list");
        files.retain(|name| name.ends_with("katydid-log"));
        for name in &files {
            let mut head = [0; 12];
            let file = archive.open_read_only(name).expect("open");
            assert_eq!(file.read_at(&mut head, 0).expect("read"), 12);
            assert_eq!((&head[..8], head[8]), (&b"KTYDARCH"[..], version as u8), "{name}");
        }
        assert!(files.len() > 1, "several files");
        let archive = LogArchive::open_in(archive).expect("open the archive");
        let mark = archive.mark().expect("it is not empty");
        assert_eq!(Some(mark.position()), archive.end());
        assert_eq!(ArchiveMark::from_bytes(&mark.to_bytes()).expect("a mark"), mark);
    }
}

/// Runs only on request: see the head of this file.
fn write_anew(folder: &Path, engine: EngineKind) {
    let mut options = options(engine);
    options.advanced.log =
        options.advanced.log.map_files(|files| FileOptions { segment_bytes: 8 << 10, ..files });
    let database = Database::open_in(directory(), options).expect("open");
    let [rows, passing] = ["rows", "passing"].map(|name| database.table(name).expect("table"));
    database.put(&rows, "apple", "red").expect("put");
    database.put(&rows, "pear", "green").expect("put");
    database.checkpoint().expect("checkpoint");
    let (backup, kept) = (directory(), directory());
    let mut archive = LogArchive::open_in(kept.clone()).expect("an archive");
    let mut archiver = archive.archiver(&database, "fixture", 1 << 30).expect("archiver");
    database.backup_in(backup.clone(), &BackupOptions::default()).expect("backup");
    let open = database.begin().expect("begin");
    open.put(&rows, "open", "never committed").expect("put");
    let changes: [&dyn Fn(&Transaction); 6] = [
        &|txn| (0..40).for_each(|nth| txn.put(&rows, format!("many {nth}"), [b'a'; 60]).expect("put")),
        &|txn| assert!(txn.delete(&rows, "pear").expect("delete")),
        &|txn| txn.put(&rows, "long", "long ".repeat(1_200)).expect("put"),
        &|txn| txn.put(&passing, "in another table", "here").expect("put"),
        &|txn| txn.put(&rows, "long", "short").expect("put"),
        &|txn| (0..40).for_each(|nth| assert!(txn.delete(&rows, format!("many {nth}")).expect("delete"))),
    ];
    let mut points = Vec::new();
    for (nth, change) in changes.into_iter().enumerate() {
        let txn = database.begin().expect("begin");
        change(&txn);
        // Each commit has a thread of its own, so that in the memory engine each goes to another
        // stream of the log.
        let stamp = std::thread::scope(|scope| scope.spawn(|| txn.commit()).join().expect("no panic"))
            .expect("commit");
        points.push((stamp, shown(&rows_in(&database))));
        if nth % 2 == 1 {
            archive.take(&mut archiver).expect("archive");
            // Wait until the clock has moved on, so that each time belongs to one call of `take`.
            let looked = SystemTime::now();
            while SystemTime::now() < looked + Duration::from_millis(5) {
                std::thread::yield_now();
            }
        }
    }
    drop((open, archive));
    let mut text = String::new();
    for (stamp, rows) in points {
        let (report, _) = restore(RestorePoint::Stamp(stamp), (backup.clone(), kept.clone()));
        writeln!(text, "{stamp} {}{rows}", millis(report.moment.expect("a moment"))).expect("a string");
    }
    save(
        backup.as_ref(),
        &["log", "checkpoints", "stream-000", "stream-001", "stream-002"],
        &folder.join("backup"),
    );
    save(kept.as_ref(), &[], &folder.join("archive"));
    std::fs::write(folder.join("points.txt"), text).expect("write");
}
