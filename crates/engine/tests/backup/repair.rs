//! Repair on a device that forgets un-synced bytes, and repair of a database with transactions that
//! had not ended.

use crate::common::{assert_sound, contents, options_for};
use katydid::{
    BackupOptions, Database, EngineKind, Error, MemoryDirectory, Options, PagedOptions, RepairFault,
    RepairMode, RepairOutcome,
};
use katydid_device::{
    Create, Directory, DirectoryLock, Fault, File, Method, Result, SimDevice, Survival, Verb,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let engine = PagedOptions { page_bytes: 4096, cache_bytes: 64 * 4096, ..PagedOptions::default() };
    let mut options = Options { engine: engine.into(), ..options_for(EngineKind::Paged) };
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.background = katydid::testing::Background::Caller;
    options
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Returns a database after a crash, and its committed rows. At the crash a transaction was open
/// that had changed, deleted and inserted rows; all of its changes are in the log and on pages.
fn crashed() -> (SimDevice, Rows) {
    let device = SimDevice::new(7);
    let database = Database::open_in(device.directory(), options()).expect("open");
    let table = database.table("rows").expect("table");
    let mut rows = Rows::new();
    for number in 0..400 {
        let value = vec![number as u8; if number % 50 == 0 { 6_000 } else { 100 }];
        database.put(&table, key(number), &value).expect("put");
        rows.insert(key(number), value);
    }
    let txn = database.begin().expect("begin");
    for number in (0..400).step_by(3) {
        txn.put(&table, key(number), [255; 100]).expect("put");
    }
    for number in (1..400).step_by(3) {
        txn.delete(&table, key(number)).expect("delete");
    }
    (1000..1100).for_each(|number| txn.put(&table, key(number), [255; 100]).expect("put"));
    // Some changes are rolled back, and some rows are changed once more.
    let savepoint = txn.savepoint();
    (0..60).for_each(|number| txn.put(&table, key(number), [254; 90]).expect("put"));
    txn.rollback_to(&savepoint).expect("back");
    (0..30).for_each(|number| txn.put(&table, key(number), [253; 80]).expect("put"));
    database.checkpoint().expect("a checkpoint");
    database.put(&database.table("other").expect("table"), "a", "b").expect("put");
    let left = device.reopen_after_crash(7);
    drop(txn);
    (left, rows)
}

fn check(device: &SimDevice, rows: &Rows, place: &str) {
    let options = Options { create: false, ..options() };
    let database =
        Database::open_in(device.directory(), options).unwrap_or_else(|error| panic!("{place}: {error}"));
    let table = database.open_table("rows").expect("open").expect("the table");
    let found = contents(&database, &table);
    for (key, value) in &found {
        assert!(rows.get(key) == Some(value), "{place}: key {key:?} has {:?}", &value[..4]);
    }
    assert_eq!(found.len(), rows.len(), "{place}");
    assert_sound(&database.verify(None).expect("verify"));
    database.close().expect("close");
}

/// Only the control file is lost. This file names the position where recovery begins, so the repair
/// has to do what recovery does.
#[test]
fn what_had_not_committed_is_taken_back() {
    let (device, rows) = crashed();
    check(&device.reopen_after_kill(), &rows, "recovered");
    let device = device.reopen_after_kill();
    device.directory().remove("katydid.control").expect("it is there");
    assert!(Database::open_in(device.directory(), options()).is_err());
    let report = Database::repair_in(device.directory(), RepairMode::Apply).expect("repair");
    assert_eq!(report.outcome, RepairOutcome::Repaired);
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    check(&device.reopen_after_crash(1), &rows, "repaired");
}

/// After a crash at each call, with un-synced bytes lost, kept or torn, a second repair has the
/// same result.
#[test]
fn a_crash_at_any_call_leaves_what_can_be_repaired_again() {
    let (base, rows) = crashed();
    base.directory().remove("katydid.control").expect("it is there");
    let base = base.reopen_after_kill();
    let whole = base.reopen_after_kill();
    Database::repair_in(whole.directory(), RepairMode::Apply).expect("repair");
    let steps = whole.steps();
    let stride = (steps / 60).max(1) as usize;
    for step in (0..steps).step_by(stride) {
        for survival in [Survival::Random, Survival::DropAll, Survival::KeepAll] {
            let place = format!("step {step} of {steps}, {survival:?}");
            let device = base.reopen_after_kill();
            device.crash_at(step);
            let _interrupted = Database::repair_in(device.directory(), RepairMode::Apply);
            let left = device.reopen_with(step, survival);
            Database::repair_in(left.directory(), RepairMode::Apply)
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            check(&left.reopen_with(step, Survival::DropAll), &rows, &place);
        }
    }
}

#[test]
fn a_database_that_is_open_is_not_repaired() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let database = Database::open(&path).expect("open");
    for mode in [RepairMode::DryRun, RepairMode::Apply] {
        let error = Database::repair(&path, mode).expect_err("it is open");
        assert!(matches!(error, Error::Locked { .. }), "{error}");
    }
    database.close().expect("close");
    assert_eq!(Database::repair(&path, RepairMode::Apply).expect("repair").outcome, RepairOutcome::Sound);
}

/// A directory in which another process begins a repair and is killed. This happens after a call
/// has looked into the directory and before the call gets the directory's lock.
#[derive(Debug)]
struct RepairedMeanwhile {
    inner: Arc<dyn Directory>,
    device: SimDevice,
    is_repaired: AtomicBool,
}

impl Directory for RepairedMeanwhile {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        self.inner.open(name, create, method)
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.open_read_only(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        if !self.is_repaired.swap(true, Ordering::Relaxed) {
            self.device.fail_when(|verb, _, _| (verb == Verb::Remove).then_some(Fault::Io));
            Database::repair_in(self.inner.clone(), RepairMode::Apply).expect_err("no file can be removed");
            self.device.heal();
        }
        self.inner.lock()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        self.inner.existing_subdirectory(name)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// The interrupted repair has left all files of the damaged database in their places. If a call
/// changed these files, the next repair would throw the changes away.
#[test]
fn a_repair_that_was_begun_before_a_call_got_the_lock_is_noticed() {
    let source = Database::in_memory_with(options()).expect("open");
    let table = source.table("rows").expect("table");
    (0..400).for_each(|number| source.put(&table, key(number), [7; 100]).expect("put"));
    // The test takes three checkpoints, so that redo needs no earlier record.
    (0..3).for_each(|_| source.checkpoint().expect("checkpoint"));
    type Call = fn(Arc<dyn Directory>) -> katydid::Result<()>;
    let calls: [(&str, Call); 4] = [
        ("open", |directory| Database::open_in(directory, options()).map(drop)),
        ("verify", |directory| Database::verify_in(directory, None).map(drop)),
        ("compact", |directory| Database::compact_in(directory, None).map(drop)),
        ("restore", |directory| {
            let to = Arc::new(MemoryDirectory::new());
            Database::restore_in(directory, to, &BackupOptions::default()).map(drop)
        }),
    ];
    for (name, call) in calls {
        let device = SimDevice::new(1);
        source.backup_in(device.directory(), &BackupOptions::default()).expect("backup");
        if name == "compact" {
            Database::open_in(device.directory(), options()).expect("open").close().expect("close");
        }
        let pages = device.image()["katydid.pages"].len() as u64 / 4096;
        assert!(pages > 8 && (3..pages).all(|page| device.corrupt("katydid.pages", page * 4096 + 100, 1)));
        let inner = device.directory();
        let directory =
            RepairedMeanwhile { inner, device: device.clone(), is_repaired: AtomicBool::new(false) };
        let refused = call(Arc::new(directory)).expect_err(name);
        let interrupted = matches!(refused, Error::Repair { fault: RepairFault::Interrupted, .. });
        assert!(interrupted, "{name}: {refused}");
    }
}
