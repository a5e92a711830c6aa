//! A database that has lost one or two of its files. Files are lost by a fault of the file system,
//! by a restore that left something out, or by an operator.
//!
//! Opening fails with an error that names the file, and leaves every byte where it was, so that
//! putting the file back is enough. If other files hold everything that the lost file held, opening
//! shows all rows instead.

use crate::common::{self, contents, key, options_for};
use katydid::{Database, EngineKind, Error, FileOptions, LogKind, Method, Options};
use katydid_device::{Directory, FileDirectory, StripedDirectory};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

suite! {
    a_lost_file_is_named_and_nothing_is_changed,
    a_file_that_is_lost_with_the_control_file_does_not_hide_the_loss,
    the_other_engine_does_not_take_a_database_without_a_control_file_for_its_own_creation,
    an_interrupted_creation_is_begun_again,
    an_interrupted_creation_with_another_log_is_refused_and_kept,
    a_striped_database_that_lost_a_file_is_refused,
    not_to_create_leaves_no_trace,
}

const CONTROL: &str = "katydid.control";
/// File with copies of pages that a crash of the machine might tear. The copies are not needed if
/// only the process has died.
const DOUBLE_WRITE: &str = "doublewrite";

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns all files below `folder` except the lock's, by their paths in the folder.
fn files(folder: &Path) -> Files {
    fn walk(root: &Path, folder: &Path, found: &mut Files) {
        for entry in fs::read_dir(folder).expect("read folder") {
            let path = entry.expect("entry").path();
            match path.is_dir() {
                true => walk(root, &path, found),
                false if path.ends_with("LOCK") => {}
                false => {
                    let name = path.strip_prefix(root).expect("below it").to_owned();
                    found.insert(name, fs::read(&path).expect("read file"));
                }
            }
        }
    }
    let mut found = Files::new();
    walk(folder, folder, &mut found);
    found
}

/// Returns the files that differ.
fn changes<'a>(before: &'a Files, after: &'a Files) -> Vec<&'a PathBuf> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect()
}

/// Makes `folder` hold these files.
fn lay(folder: &Path, files: &Files) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("create folder");
        fs::write(path, bytes).expect("write file");
    }
}

fn options(engine: EngineKind, log: LogKind) -> Options {
    let options = common::with_streams(common::with_log(options_for(engine), log), 2);
    let mut options = common::with_memory(options, 512 << 10);
    options.advanced.log = options.advanced.log.map_files(|files| FileOptions {
        segment_bytes: 64 << 10,
        ring_bytes: 64 << 10,
        spare_segments: 1,
        ..files
    });
    options.advanced.log.reserve_bytes = 16 << 10;
    options.advanced.log.run_ahead_bytes = 32 << 10;
    options.advanced.log.method = Method::Buffered;
    options.advanced.log.background = katydid::testing::Background::Caller;
    options
}

/// Makes a database with rows in a checkpoint and after it, enough for a log of several segments.
/// The database is closed, or left as a killed process leaves it.
fn sample(engine: EngineKind, log: LogKind, closed: bool) -> (Files, Rows) {
    let folder = tempfile::tempdir().expect("folder");
    let mut rows = Rows::new();
    let database = Database::open_with(folder.path(), options(engine, log)).expect("create");
    let table = database.table("t").expect("table");
    for number in 0..200 {
        let value = vec![number as u8; 1000];
        database.put(&table, key(number), &value).expect("put");
        rows.insert(key(number), value);
        if number == 60 {
            database.checkpoint().expect("checkpoint");
        }
    }
    if closed {
        database.close().expect("close");
    }
    (files(folder.path()), rows)
}

/// Opens what is left of a sample. Returns the rows, or the refusal.
fn open(folder: &Path, options: Options) -> Result<Rows, Error> {
    let database = Database::open_with(folder, options)?;
    let table = database.open_table("t")?.map(|table| contents(&database, &table));
    database.close()?;
    Ok(table.unwrap_or_default())
}

/// Returns whether a database may do without the file. Such files are copies of pages, and
/// segments, some of which are kept only for reuse.
fn is_redundant(file: &Path) -> bool {
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    name == DOUBLE_WRITE || (name.starts_with("log.0") && name.len() == 20)
}

/// Asserts that opening without the `lost` files fails with an error that names them and changes
/// nothing, and that all rows are there once the files are put back.
fn assert_refused(case: &str, all: &Files, lost: &[&PathBuf], rows: &Rows, options: &Options) {
    let folder = tempfile::tempdir().expect("folder");
    let left: Files =
        all.iter().filter(|(name, _)| !lost.contains(name)).map(|(n, b)| (n.clone(), b.clone())).collect();
    lay(folder.path(), &left);
    // A lost file leaves its folder behind, so the test makes the folder.
    for name in lost {
        fs::create_dir_all(folder.path().join(name).parent().expect("in the folder")).expect("folder");
    }
    let verified = Database::verify_path(folder.path(), None);
    match open(folder.path(), options.clone()) {
        Ok(found) if lost.len() == 1 && is_redundant(lost[0]) => {
            assert!(found == *rows, "{case}: {} of {} rows", found.len(), rows.len());
            return;
        }
        Ok(found) => panic!("{case}: opened, with {} of {} rows", found.len(), rows.len()),
        Err(error) => {
            let text = error.to_string();
            println!("{case}: {text}");
            let is_named = lost.iter().any(|name| {
                let name = name.file_name().expect("a name").to_string_lossy().into_owned();
                text.contains(&name)
            });
            assert!(is_named, "{case}: the error names another file: {text}");
            assert!(matches!(error, Error::Corrupt { .. } | Error::LogOpen(_)), "{case}: {error:?}");
        }
    }
    // Without the control file nothing can be checked.
    if !lost.iter().any(|name| name.as_path() == Path::new(CONTROL)) {
        let report = verified.unwrap_or_else(|error| panic!("{case}: verify: {error}"));
        assert!(!report.is_sound(), "{case}: {report:?}");
    }
    assert_eq!(changes(&left, &files(folder.path())), Vec::<&PathBuf>::new(), "{case}: changed");
    lay(folder.path(), all);
    let mended = open(folder.path(), options.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(mended == *rows, "{case}: put back, {} of {} rows", mended.len(), rows.len());
}

/// Returns a sample of every kind of log, closed and killed.
fn samples(engine: EngineKind) -> impl Iterator<Item = (String, LogKind, Files, Rows)> {
    let kinds = LogKind::ALL.into_iter().flat_map(|log| [(log, true), (log, false)]);
    kinds.map(move |(log, closed)| {
        let (all, rows) = sample(engine, log, closed);
        assert!(all.len() > 3, "{:?}", all.keys());
        (format!("{engine}, {log}, {}", if closed { "closed" } else { "killed" }), log, all, rows)
    })
}

fn a_lost_file_is_named_and_nothing_is_changed(engine: EngineKind) {
    let mut kinds = BTreeSet::new();
    for (name, log, all, rows) in samples(engine) {
        for lost in all.keys() {
            let case = format!("{name}, without {}", lost.display());
            assert_refused(&case, &all, &[lost], &rows, &options(engine, log));
            kinds.insert(lost.file_name().expect("a name").to_string_lossy().into_owned());
        }
    }
    let own: &[&str] = match engine {
        EngineKind::Paged => &[DOUBLE_WRITE, "katydid.pages", "log.control"],
        _ => &["manifest-", "part-", "streams.control"],
    };
    for name in own.iter().chain(&[CONTROL, "log.0", "log.nvram"]) {
        assert!(
            kinds.iter().any(|kind: &String| kind.starts_with(name)),
            "{name} was in no sample: {kinds:?}"
        );
    }
}

fn a_file_that_is_lost_with_the_control_file_does_not_hide_the_loss(engine: EngineKind) {
    let kinds = [LogKind::Disk, LogKind::NvRing];
    for (name, log, all, rows) in samples(engine).filter(|(_, log, ..)| kinds.contains(log)) {
        let control = PathBuf::from(CONTROL);
        for also in all.keys().filter(|name| **name != control) {
            let case = format!("{name}, without {CONTROL} and {}", also.display());
            assert_refused(&case, &all, &[&control, also], &rows, &options(engine, log));
        }
        // A whole folder is lost.
        for part in ["log", "checkpoints"] {
            let folder: Vec<_> =
                all.keys().filter(|name| name.starts_with(part) || **name == control).collect();
            if folder.len() > 1 {
                let case = format!("{name}, without {CONTROL} and {part}");
                assert_refused(&case, &all, &folder, &rows, &options(engine, log));
            }
        }
    }
}

fn the_other_engine_does_not_take_a_database_without_a_control_file_for_its_own_creation(engine: EngineKind) {
    let other = match engine {
        EngineKind::Paged => EngineKind::Memory,
        _ => EngineKind::Paged,
    };
    let (all, rows) = sample(engine, LogKind::Disk, true);
    let folder = tempfile::tempdir().expect("folder");
    lay(folder.path(), &all);
    fs::remove_file(folder.path().join(CONTROL)).expect("remove");
    let left = files(folder.path());
    let error = open(folder.path(), options(other, LogKind::Disk)).expect_err("it holds data");
    assert!(error.to_string().contains(CONTROL), "{error}");
    assert!(files(folder.path()) == left, "changed");
    lay(folder.path(), &all);
    assert!(open(folder.path(), options(engine, LogKind::Disk)).expect("put back") == rows);
}

/// Returns the files of a creation that was interrupted at its last step.
fn interrupted(engine: EngineKind, log: LogKind) -> Files {
    let folder = tempfile::tempdir().expect("folder");
    let directory = Arc::new(FileDirectory::open(folder.path()).expect("folder"));
    let refusing = Arc::new(NoControl(directory));
    let error = Database::open_in(refusing, options(engine, log)).expect_err("interrupted");
    assert!(!matches!(error, Error::Corrupt { .. }), "{error}");
    files(folder.path())
}

/// A directory in which the control file never gets its name.
#[derive(Debug)]
struct NoControl(Arc<FileDirectory>);

impl Directory for NoControl {
    fn open(
        &self,
        name: &str,
        create: katydid_device::Create,
        method: Method,
    ) -> katydid_device::Result<Arc<dyn katydid_device::File>> {
        self.0.open(name, create, method)
    }
    fn open_read_only(&self, name: &str) -> katydid_device::Result<Arc<dyn katydid_device::File>> {
        self.0.open_read_only(name)
    }
    fn list(&self) -> katydid_device::Result<Vec<String>> {
        self.0.list()
    }
    fn rename(&self, from: &str, to: &str) -> katydid_device::Result<()> {
        if to == CONTROL {
            let gone = std::io::Error::other("the machine stops here");
            return Err(katydid_device::Error::from_io(katydid_device::Verb::Rename, from, gone));
        }
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> katydid_device::Result<()> {
        self.0.remove(name)
    }
    fn sync(&self) -> katydid_device::Result<()> {
        self.0.sync()
    }
    fn lock(&self) -> katydid_device::Result<Box<dyn katydid_device::DirectoryLock>> {
        self.0.lock()
    }
    fn subdirectory(&self, name: &str) -> katydid_device::Result<Arc<dyn Directory>> {
        self.0.subdirectory(name)
    }
    fn existing_subdirectory(&self, name: &str) -> katydid_device::Result<Option<Arc<dyn Directory>>> {
        self.0.existing_subdirectory(name)
    }
    fn nvram(
        &self,
        name: &str,
        bytes: u64,
        want: katydid_device::nvram::Persistence,
    ) -> katydid_device::Result<Arc<katydid_device::nvram::NvRegion>> {
        self.0.nvram(name, bytes, want)
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn an_interrupted_creation_is_begun_again(engine: EngineKind) {
    for log in LogKind::ALL {
        let all = interrupted(engine, log);
        assert!(all.contains_key(Path::new("katydid.control.new")), "{:?}", all.keys());
        let folder = tempfile::tempdir().expect("folder");
        lay(folder.path(), &all);
        let database = Database::open_with(folder.path(), options(engine, log)).expect("begun again");
        let table = database.table("t").expect("table");
        database.put(&table, "k", "v").expect("put");
        database.close().expect("close");
        drop((table, database));
        let rows = open(folder.path(), options(engine, log)).expect("open");
        assert_eq!(rows, Rows::from([(b"k".to_vec(), b"v".to_vec())]));
    }
}

fn an_interrupted_creation_with_another_log_is_refused_and_kept(engine: EngineKind) {
    let all = interrupted(engine, LogKind::Disk);
    let folder = tempfile::tempdir().expect("folder");
    lay(folder.path(), &all);
    let error = open(folder.path(), options(engine, LogKind::NvRing)).expect_err("another kind of log");
    let text = error.to_string();
    assert!(text.contains("creation") && text.contains("disk"), "{text}");
    assert!(files(folder.path()) == all, "changed");
    assert_eq!(open(folder.path(), options(engine, LogKind::Disk)).expect("gone on with"), Rows::new());
}

fn a_striped_database_that_lost_a_file_is_refused(engine: EngineKind) {
    let root = tempfile::tempdir().expect("folder");
    let set = |folder: &Path| -> Arc<dyn Directory> {
        let directories = ["a", "b"].map(|name| {
            let directory: Arc<dyn Directory> =
                Arc::new(FileDirectory::open(folder.join(name)).expect("folder"));
            directory
        });
        Arc::new(StripedDirectory::open(directories.to_vec(), 4096).expect("set"))
    };
    let mut rows = Rows::new();
    let database = Database::open_in(set(root.path()), options(engine, LogKind::Disk)).expect("create");
    let table = database.table("t").expect("table");
    for number in 0..100 {
        database.put(&table, key(number), vec![7; 1000]).expect("put");
        rows.insert(key(number), vec![7; 1000]);
    }
    database.checkpoint().expect("checkpoint");
    database.close().expect("close");
    drop((table, database));
    let all = files(root.path());
    for lost in all.keys() {
        let folder = tempfile::tempdir().expect("folder");
        let mut left = all.clone();
        left.remove(lost);
        lay(folder.path(), &left);
        let case = format!("{engine}, striped, without {}", lost.display());
        let directories = ["a", "b"].map(|name| {
            let directory: Arc<dyn Directory> =
                Arc::new(FileDirectory::open(folder.path().join(name)).expect("folder"));
            directory
        });
        let opened = StripedDirectory::open(directories.to_vec(), 4096)
            .map_err(Error::from)
            .and_then(|set| Database::open_in(Arc::new(set), options(engine, LogKind::Disk)))
            .and_then(|database| Ok(database.open_table("t")?.map(|table| contents(&database, &table))));
        match opened {
            Ok(found) => assert!(found.unwrap_or_default() == rows, "{case}: opened without all rows"),
            Err(error) => {
                println!("{case}: {error}");
                assert_eq!(changes(&left, &files(folder.path())), Vec::<&PathBuf>::new(), "{case}: changed");
            }
        }
        lay(folder.path(), &all);
        let database = Database::open_in(set(folder.path()), options(engine, LogKind::Disk))
            .unwrap_or_else(|error| panic!("{case}: put back: {error}"));
        let table = database.open_table("t").expect("table").expect("there");
        assert!(contents(&database, &table) == rows, "{case}: put back");
    }
}

fn not_to_create_leaves_no_trace(engine: EngineKind) {
    let folder = tempfile::tempdir().expect("folder");
    let options = Options { create: false, ..options(engine, LogKind::Disk) };
    let error = Database::open_with(folder.path(), options).expect_err("nothing is there");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0, "something was left");
}
