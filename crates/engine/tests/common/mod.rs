//! Code that the engine's tests share.
#![allow(dead_code, unused_macros)] // each test target uses its own part

pub mod uses;

use katydid::{
    AdvancedOptions, CommitStamp, Database, EngineKind, Error, FileOptions, LogKind, MediumSettings,
    MemoryOptions, Method, Options, PagedOptions, Table, VerifyReport,
};
use katydid_device::Directory;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Makes a test of each named function for each engine. The function gets the engine as its
/// argument. With `in_nvram:` before the names, each test runs over all kinds of logs in NVRAM, one
/// after the other (see `over`).
macro_rules! suite {
    (in_nvram: $($case:ident),* $(,)?) => {
        mod in_nvram {
            suite! { @over paged Paged $($case)* }
            suite! { @over memory Memory $($case)* }
        }
    };
    (@over $module:ident $engine:ident $($case:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    for log in crate::common::kinds_in_nvram() {
                        println!("log {log}");
                        crate::common::over(log, || super::super::$case(katydid::EngineKind::$engine));
                    }
                }
            )*
        }
    };
    ($($case:ident),* $(,)?) => {
        suite! { @on paged Paged $($case)* }
        suite! { @on memory Memory $($case)* }
    };
    (@on $module:ident $engine:ident $($case:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    super::$case(katydid::EngineKind::$engine);
                }
            )*
        }
    };
}

pub type Rng = fastrand::Rng;
pub type Row = (Vec<u8>, Vec<u8>);

/// Returns the seed in `KATYDID_SEED`, which replays a failure, or `default` if the variable is not
/// set.
pub fn seed(default: u64) -> u64 {
    std::env::var("KATYDID_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns a seed that no run had before. The seed leaves room above itself, because tests add
/// numbers to seeds.
pub fn fresh_seed() -> u64 {
    fastrand::u64(..1 << 48)
}

/// Returns the seeds of a test: `fixed` seeds that begin at `first` in every run, and then `fresh`
/// new seeds, the first of which is printed. If `KATYDID_SEED` is set, the same number of seeds
/// begins at that seed instead.
pub fn seeds(first: u64, fixed: u64, fresh: u64) -> impl Iterator<Item = u64> {
    let is_replay = std::env::var("KATYDID_SEED").is_ok();
    let new = if is_replay { seed(first).wrapping_add(fixed) } else { fresh_seed() };
    if !is_replay && fresh > 0 {
        println!("new seeds: KATYDID_SEED={new}");
    }
    let first = seed(first);
    let all = (0..fixed).map(move |nth| first.wrapping_add(nth));
    all.chain((0..fresh).map(move |nth| new.wrapping_add(nth)))
}

pub fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// The smallest pages and cache.
pub const SMALL_PAGES: PagedOptions = PagedOptions {
    page_bytes: 4096,
    cache_bytes: 16 * 4096,
    page_method: Method::Buffered,
    undo_bytes: 4 << 10,
    view_bytes_max: 64 << 20,
};

/// Returns options with the smallest cache, small segments, and frequent checkpoints.
pub fn small_options() -> Options {
    let mut options = Options {
        engine: SMALL_PAGES.into(),
        advanced: AdvancedOptions {
            checkpoint_bytes: 256 << 10,
            log_soft_bytes: 8 << 20,
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    options.advanced.log.medium =
        FileOptions { segment_bytes: 256 << 10, spare_segments: 1, ..FileOptions::default() }.into();
    options.advanced.log.reserve_bytes = 256 << 10;
    options
}

/// Returns small options for an engine, with more streams than a machine of one processor would
/// have, and with a log of the kind that the test is to run over.
pub fn options_for(engine: EngineKind) -> Options {
    let memory = MemoryOptions { streams: 3, ..MemoryOptions::default() };
    let options = Options { engine: engine.with(SMALL_PAGES, memory), ..small_options() };
    with_log(options, LOG.get())
}

/// Returns `options` after a change of the advanced ones.
pub fn with_advanced(mut options: Options, change: impl FnOnce(&mut AdvancedOptions)) -> Options {
    change(&mut options.advanced);
    options
}

/// Returns `options` with this number of streams, if the engine has streams.
pub fn with_streams(mut options: Options, streams: u16) -> Options {
    if let Some(memory) = options.engine.memory_mut() {
        memory.streams = streams;
    }
    options
}

/// Returns `options` with a log of this kind. A log in NVRAM gets about as many bytes as a log on
/// disk keeps in segments.
pub fn with_log(mut options: Options, log: LogKind) -> Options {
    options.advanced.log.medium = MediumSettings::from(options.advanced.log.medium).medium(log);
    with_memory(options, 8 << 20)
}

/// Returns `options` with this number of bytes of NVRAM, if the log is in NVRAM.
pub fn with_memory(mut options: Options, bytes: u64) -> Options {
    if let Some(memory) = options.advanced.log.medium.memory_mut() {
        memory.bytes = bytes;
    }
    options
}

pub fn kinds_in_nvram() -> impl Iterator<Item = LogKind> {
    LogKind::ALL.into_iter().filter(|kind| kind.in_nvram())
}

thread_local! {
    /// Kind of the log in `options_for` on this thread.
    static LOG: Cell<LogKind> = const { Cell::new(LogKind::Disk) };
}

/// Returns the kind of the log for the test that runs on this thread.
pub fn log() -> LogKind {
    LOG.get()
}

/// Runs a test with a log of this kind.
pub fn over(log: LogKind, test: impl FnOnce()) {
    LOG.set(log);
    test();
    LOG.set(LogKind::Disk);
}

/// Returns `options` with a log in which each session fills a chunk of its own. So a record often
/// lies below older records of other sessions.
pub fn chunked(mut options: Options) -> Options {
    let chunks = katydid::InserterDesign::Chunked { chunk_bytes: 1024, always: true };
    if let Some(inserter) = options.advanced.log.medium.inserter_mut() {
        *inserter = chunks;
    }
    options
}

/// Closes the database, so that it can be opened again. Returns the handle, except with a log in
/// NVRAM, whose next opening requires that no handle is left.
pub fn closed(database: Database) -> Option<Database> {
    let in_nvram = database.stat().expect("stat").log.kind.in_nvram();
    database.close().expect("close");
    (!in_nvram).then_some(database)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

/// Returns all rows of a table.
pub fn contents(database: &Database, table: &Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let txn = database.begin().expect("begin");
    let rows: Result<BTreeMap<_, _>, _> = txn.range(table, ..).collect();
    rows.expect("scan")
}

/// Returns the stamp of a commit, if it succeeded. Panics if the paged engine refuses the commit,
/// or if the memory engine refuses it with an error that is not retryable.
pub fn committed(database: &Database, outcome: Result<CommitStamp, Error>) -> Option<CommitStamp> {
    match outcome {
        Ok(stamp) => Some(stamp),
        Err(error) => {
            let is_memory = database.stat().expect("stat").memory().is_some();
            assert!(is_memory && error.is_retryable(), "commit: {error}");
            None
        }
    }
}

/// Returns the contents of all files of a database, by name, without regions of NVRAM.
pub fn files(directory: &dyn Directory) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let log = directory.existing_subdirectory("log").expect("list").expect("a log");
    for (folder, directory) in [("", directory), ("log/", log.as_ref())] {
        for name in directory.list().expect("list").into_iter().filter(|name| !name.ends_with(".nvram")) {
            let file = directory.open_read_only(&name).expect("open");
            let mut bytes = katydid_device::AlignedBuffer::new_zeroed(file.len().expect("len") as usize);
            let read = file.read_at(&mut bytes, 0).expect("read");
            assert_eq!(read, bytes.len());
            files.insert(format!("{folder}{name}"), bytes.to_vec());
        }
    }
    files
}

pub fn assert_sound(report: &VerifyReport) {
    assert!(report.is_sound(), "{:#?}", report.faults);
}

/// Asserts that a check of a database that is not open has found no faults. Such a check does not
/// try to recover a log in NVRAM.
pub fn assert_sound_as_it_lies(report: &VerifyReport) {
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
    let needs_recovery = log().in_nvram() && !report.clean;
    assert_eq!(report.unchecked.is_some(), needs_recovery, "{:?}", report.unchecked);
}

/// Returns the result of a range over the model.
pub fn model_range(
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
    back: bool,
    limit: usize,
) -> Vec<Row> {
    let empty = match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
    };
    if empty {
        return Vec::new();
    }
    let rows = model.range((from.clone(), to.clone())).map(|(key, value)| (key.clone(), value.clone()));
    if back { rows.rev().take(limit).collect() } else { rows.take(limit).collect() }
}
