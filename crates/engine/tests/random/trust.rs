//! Opening makes durable what it builds on. A process that dies leaves names and bytes in the page
//! cache that were never synced. The next opening reads them and builds on them. If the opening did
//! not sync them first, a crash of the machine after the next acknowledged commit would take back
//! what that commit depends on.
//!
//! Worse are bytes whose sync has failed: they are in the page cache, and no later sync takes them
//! to the device. So opening drops the cached bytes before it reads.

use crate::common::{self, contents, key};
use katydid::{Database, EngineKind, Error, Method, Options};
use katydid_device::{Directory, Fault, Id, SimDevice, StripedDirectory, Survival, Verb};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store under test.
#[derive(Debug, Clone, Copy)]
struct Store {
    engine: EngineKind,
    method: Method,
    /// Method of the paged engine's pages, which is not the log's.
    page_method: Method,
    /// Number of directories over which the store is striped.
    directories: usize,
}

impl Store {
    /// Makes a store in one directory.
    fn new(engine: EngineKind, method: Method) -> Store {
        let page_method = if method == Method::Buffered { Method::Direct } else { Method::Buffered };
        Store { engine, method, page_method, directories: 1 }
    }

    fn open(self, device: &SimDevice) -> Result<Database, Error> {
        let directory: Arc<dyn Directory> = match self.directories {
            1 => device.directory(),
            count => {
                let inside = |nth: usize| device.directory().subdirectory(&nth.to_string());
                let directories = (0..count).map(inside).collect::<Result<_, _>>()?;
                Arc::new(StripedDirectory::open(directories, 4096)?)
            }
        };
        Database::open_in(directory, options(self))
    }
}

fn options(store: Store) -> Options {
    let mut options = common::with_streams(common::options_for(store.engine), 2);
    if let Some(paged) = options.engine.paged_mut() {
        paged.page_method = store.page_method;
    }
    options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions {
        segment_bytes: 64 << 10,
        ring_bytes: 16 << 10,
        ..files
    });
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.run_ahead_bytes = 8 << 10;
    options.advanced.log.background = katydid::testing::Background::Caller;
    options.advanced.log.log_id = Some(Id::new(1));
    options.advanced.log.method = store.method;
    options
}

/// Creates a store, commits, takes a checkpoint, commits more, and closes. Stops when a call fails.
/// Returns the acknowledged rows.
fn live(device: &SimDevice, store: Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut acknowledged = BTreeMap::new();
    let mut put = |database: &Database, from: u64| -> Result<(), katydid::Error> {
        let table = database.table("t")?;
        for number in from..from + 12 {
            let value = vec![number as u8; 700];
            database.put(&table, key(number), &value)?;
            acknowledged.insert(key(number), value);
        }
        Ok(())
    };
    let mut run = || -> Result<(), katydid::Error> {
        for life in 0..2 {
            let database = store.open(device)?;
            put(&database, life * 100)?;
            database.checkpoint()?;
            put(&database, life * 100 + 50)?;
            database.checkpoint()?;
            database.close()?;
        }
        Ok(())
    };
    if let Err(error) = run() {
        let is_of_device = device.is_crashed() || error.is_poisoned() || matches!(error, Error::Device(_));
        assert!(is_of_device, "failed without a fault: {error}");
    }
    acknowledged
}

/// End of a process.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The process dies at this step.
    Dies(u64),
    /// The sync in this step fails, of a file or of a durable write. The process gets the error,
    /// and ends.
    SyncFails(u64),
    /// The first write to a file fails. This number divided by [`SEEDS`] is the number of files
    /// that were written to before that file. The process gets the error, and ends.
    FirstWriteFails(u64),
}

/// Number of seeds for each file.
const SEEDS: u64 = 4;

impl End {
    fn step(self) -> u64 {
        let (End::Dies(step) | End::SyncFails(step) | End::FirstWriteFails(step)) = self;
        step
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs a process until `end`. Returns the device that the process leaves, and the rows that the
/// store acknowledged as durable. Returns `None` if the failing step syncs no file whose path has
/// `part` in it.
fn lives(end: End, part: &'static str, store: Store) -> Option<(SimDevice, Rows)> {
    let step = end.step();
    let device = SimDevice::new(common::seed(0).wrapping_add(step));
    let failed = Arc::new(AtomicBool::new(false));
    match end {
        End::Dies(step) => device.crash_at(step),
        End::SyncFails(step) => {
            let failed = failed.clone();
            device.fail_when(move |verb, path, number| {
                let syncs = matches!(verb, Verb::Write | Verb::Sync | Verb::Prepare);
                let fails = number == step && syncs && path.contains(part);
                failed.fetch_or(fails, Ordering::Relaxed);
                fails.then_some(Fault::SyncIo)
            });
        }
        End::FirstWriteFails(step) => {
            let (failed, mut written) = (failed.clone(), BTreeSet::new());
            device.fail_when(move |verb, path, _| {
                let is_first = verb == Verb::Write && path.contains(part) && written.insert(path.to_owned());
                let fails = is_first && written.len() as u64 == step / SEEDS + 1;
                failed.fetch_or(fails, Ordering::Relaxed);
                fails.then_some(Fault::SyncIo)
            });
        }
    }
    let acknowledged = live(&device, store);
    let is_wanted = matches!(end, End::Dies(_)) || failed.load(Ordering::Relaxed);
    is_wanted.then(|| (device.reopen_after_kill(), acknowledged))
}

/// Ends a process; the next one opens, commits, and perhaps takes a checkpoint that the machine's
/// crash cuts short. Returns `false` if the step that is to fail syncs nothing.
fn ends(end: End, cut: Option<u64>, survival: Survival, store: Store) -> bool {
    let step = end.step();
    let part = if store.directories > 1 { "0/" } else { "" };
    let Some((device, mut expected)) = lives(end, part, store) else { return false };
    let database = store.open(&device).expect("open after a kill");
    let table = database.table("t").expect("table");
    for (key, value) in &expected {
        assert_eq!(database.get(&table, key).expect("get").as_ref(), Some(value), "lost by the kill");
    }
    for number in 900..910 {
        database.put(&table, key(number), "after").expect("put");
        expected.insert(key(number), b"after".to_vec());
    }
    if let Some(cut) = cut {
        device.crash_at(device.steps() + cut);
        // The checkpoint goes as far as the crash allows.
        let _outcome = database.checkpoint();
    }
    // If the device were not frozen, the drop would close the database, which syncs its files.
    device.freeze();
    drop((table, database));
    let device = device.reopen_with(common::seed(0).wrapping_add(step), survival);
    let database = has(&device, &expected, store);
    common::assert_sound(&database.verify(None).expect("verify"));
    true
}

/// Opens after a crash of the machine, and looks for `expected`.
fn has(device: &SimDevice, expected: &Rows, store: Store) -> Database {
    let database = store.open(device).expect("open after the crash");
    let found = match database.open_table("t").expect("open table") {
        Some(table) => contents(&database, &table),
        None => Rows::new(),
    };
    for (key, value) in expected {
        let name = String::from_utf8_lossy(key);
        assert!(found.get(key) == Some(value), "{name}: acknowledged, and lost by the machine's crash");
    }
    database
}

suite! {
    what_a_dead_process_never_synced_is_made_durable_before_it_is_built_on,
    what_a_failed_sync_left_in_the_cache_is_not_built_on,
    the_header_of_a_striped_file_that_a_failed_sync_left_in_the_cache_is_not_built_on,
    what_a_failed_sync_left_of_a_control_file_survives_a_crash_of_the_next_opening,
}

fn what_a_dead_process_never_synced_is_made_durable_before_it_is_built_on(engine: EngineKind) {
    for method in [Method::Direct, Method::Buffered] {
        let store = Store::new(engine, method);
        let whole = SimDevice::new(1);
        live(&whole, store);
        let steps = whole.steps();
        assert!(steps > 60, "only {steps} steps");
        for step in 0..steps {
            println!("{engine}, {method:?}: the process dies at step {step} of {steps}");
            ends(End::Dies(step), None, Survival::DropAll, store);
            let survival = if step % 16 < 8 { Survival::DropAll } else { Survival::Random };
            ends(End::Dies(step), Some(step % 8), survival, store);
        }
    }
}

fn what_a_failed_sync_left_in_the_cache_is_not_built_on(engine: EngineKind) {
    for method in [Method::Direct, Method::Buffered] {
        let store = Store::new(engine, method);
        let whole = SimDevice::new(1);
        live(&whole, store);
        let mut failed = 0;
        for step in 0..whole.steps() {
            println!("{engine}, {method:?}: the sync in step {step} fails");
            let cut = (step % 4 == 3).then_some(step / 4 % 8);
            failed += u64::from(ends(End::SyncFails(step), cut, Survival::DropAll, store));
        }
        assert!(failed > 40, "only {failed} syncs");
    }
}

/// The first write to a striped file in the set's first directory writes the file's header, which
/// says where the rest of the file is.
fn the_header_of_a_striped_file_that_a_failed_sync_left_in_the_cache_is_not_built_on(engine: EngineKind) {
    let store = Store { directories: 2, ..Store::new(engine, Method::Direct) };
    let mut step = 0;
    loop {
        println!("{engine}: the first write to file {} fails, seed {step}", step / SEEDS);
        if !ends(End::FirstWriteFails(step), None, Survival::DropAll, store) {
            break;
        }
        step += 1;
    }
    assert!(step > 5 * SEEDS, "only {step} first writes");
}

/// A control file has two slots. If one is lost on the device, and only the cache shows it, the
/// next opening must write the lost slot, not the sound one.
fn what_a_failed_sync_left_of_a_control_file_survives_a_crash_of_the_next_opening(engine: EngineKind) {
    let (store, first) = (Store::new(engine, Method::Direct), common::seed(0));
    let whole = SimDevice::new(1);
    live(&whole, store);
    let mut failed = 0;
    for step in 0..whole.steps() {
        let Some((left, acknowledged)) = lives(End::SyncFails(step), "control", store) else { continue };
        failed += 1;
        let (mut crashed, mut at) = (true, 0);
        while crashed {
            println!("{engine}: the sync in step {step} fails, the machine crashes at step {at} of opening");
            let device = left.reopen_after_kill();
            device.crash_at(at);
            let outcome = store.open(&device);
            crashed = device.is_crashed();
            drop(outcome);
            for seed in 0..3 {
                has(&device.reopen_after_crash(first.wrapping_add(seed)), &acknowledged, store);
            }
            at += 1;
        }
    }
    assert!(failed > 4, "only {failed} syncs of control files");
}
