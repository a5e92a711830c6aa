//! Tests of page writes in step with the log. In each test, about one page for each row is dirty
//! when a checkpoint ends. Commits of one row each then advance the log to the next checkpoint.

use crate::paged::double_write;
use crate::paged::engine::Engine;
use crate::paged::pool::Pool;
use crate::paged::space;
use crate::paged::spread::batch_pages;
use crate::{Database, Lsn, Options, PagedOptions, Result, Table};
use katydid_device::{Fault, SimDevice, Survival, Verb};
use katydid_wal::Background;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const PAGE_BYTES: usize = 4096;
const CHECKPOINT_BYTES: u64 = 1 << 20;
/// Number of rows of a test. Each row of the large table has a page of its own.
const ROWS: u32 = 600;
const LONG_LOG: u64 = 64 << 20;

fn options(checkpoint_bytes: u64, log_soft_bytes: u64) -> Options {
    let pages =
        PagedOptions { page_bytes: PAGE_BYTES, cache_bytes: 4096 * PAGE_BYTES, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), ..Options::default() };
    options.advanced.checkpoint_bytes = checkpoint_bytes;
    options.advanced.log_soft_bytes = log_soft_bytes;
    options.advanced.log.medium =
        katydid_wal::FileOptions { segment_bytes: 256 << 10, spare_segments: 1, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 256 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

/// A database with dirty pages from before its last checkpoint.
struct Store {
    database: Database,
    large: Table,
    small: Table,
    /// Begin record of the last checkpoint.
    begin: Lsn,
    /// Number of dirty pages from before `begin`.
    dirty: u64,
}

impl Store {
    fn open(device: &SimDevice, options: Options, rows: u32) -> Store {
        let database = Database::open_in(device.directory(), options).expect("open");
        let (large, small) =
            (database.table("large").expect("table"), database.table("small").expect("table"));
        let txn = database.begin().expect("begin");
        for row in 0..rows {
            txn.put(&large, row.to_be_bytes(), [1; 2500]).expect("put");
        }
        txn.commit().expect("commit");
        database.checkpoint().expect("a checkpoint");
        let engine = database.paged().engine();
        let begin = engine.last_checkpoint();
        let dirty = engine.pool.dirty_before(begin).len() as u64;
        assert!(dirty >= u64::from(rows), "{dirty} pages");
        Store { database, large, small, begin, dirty }
    }

    fn engine(&self) -> &Engine {
        self.database.paged().engine()
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.engine().pool
    }

    /// Bytes of log since `begin`.
    fn passed(&self) -> u64 {
        self.engine().log.reserved().since(self.begin)
    }

    fn is_before_checkpoint(&self) -> bool {
        self.engine().last_checkpoint() == self.begin
    }

    /// Commits a row of the small table.
    fn put(&self, number: u32) -> Result<()> {
        self.database.put(&self.small, (number % 50).to_be_bytes(), number.to_be_bytes())
    }

    /// Commits a row of the small table, and then does the worker's work if the commit has notified
    /// the worker.
    fn step(&self, number: u32) -> Result<()> {
        self.put(number)?;
        self.database.run_background();
        Ok(())
    }

    /// Commits rows until half of the pages are written.
    fn write_half(&self) {
        let before = self.pool().stat().written;
        for number in 0.. {
            self.step(number).expect("a commit");
            assert!(self.is_before_checkpoint(), "a checkpoint came first");
            if self.pool().stat().written - before >= self.dirty / 2 {
                break;
            }
        }
    }
}

#[test]
fn pages_are_written_in_step_with_the_log_and_none_is_left_for_the_checkpoint() {
    let store = Store::open(&SimDevice::new(1), options(CHECKPOINT_BYTES, LONG_LOG), ROWS);
    let span = CHECKPOINT_BYTES / 100 * 80;
    let limit = batch_pages(PAGE_BYTES) as u64;
    let (first, mut last) = (store.pool().stat(), store.pool().stat());
    let (mut due, mut steps) = (0, 0);
    for number in 0.. {
        store.step(number).expect("a commit");
        if !store.is_before_checkpoint() {
            break;
        }
        let (now, passed) = (store.pool().stat(), store.passed());
        let written = now.written - first.written;
        assert!(now.batches - last.batches <= 1, "{} batches after {passed}", now.batches - last.batches);
        assert!(now.written - last.written <= limit, "{} pages in a batch", now.written - last.written);
        assert!(written >= due, "{written} pages of {due} after {passed} bytes of log");
        // The records behind the commit's record count for the next step.
        due = (store.dirty * passed / span).min(store.dirty);
        assert!(written <= due + limit, "{written} pages, {due} due after {passed} bytes of log");
        steps += 1;
        last = now;
    }
    assert!(steps > 100, "{steps} steps show little");
    assert_eq!(last.written - first.written, store.dirty, "pages before the checkpoint was due");
    // The first batch of the next list, whose pages the last commits have changed, is due at once.
    let batches = store.pool().stat().batches - last.batches;
    assert!(batches <= 1, "{batches} batches when the checkpoint was due");
    assert!(store.engine().log.trimmed_to() >= store.begin, "trimmed to {}", store.engine().log.trimmed_to());
}

/// Returns the sizes of the batches that `work` writes, in pages.
fn batches(device: &SimDevice, pool: &Arc<Pool>, work: impl FnOnce()) -> Vec<u64> {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (sizes, watched) = (written.clone(), pool.clone());
    device.fail_when(move |verb, path, _| {
        if verb == Verb::Write && path == double_write::FILE_NAME {
            sizes.lock().expect("no panic").push(watched.stat().written);
        }
        None
    });
    work();
    device.heal();
    let mut written = written.lock().expect("no panic").clone();
    written.push(pool.stat().written);
    written.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_due_checkpoint_writes_small_batches_unless_a_thread_or_the_log_waits_for_it() {
    let (small, full) = (batch_pages(PAGE_BYTES) as u64, double_write::batch_pages(PAGE_BYTES) as u64);
    assert!(small < full);
    let background: fn(&Database) = |database| database.run_background();
    let explicit: fn(&Database) = |database| database.checkpoint().expect("a checkpoint");
    let cases =
        [(LONG_LOG, background, small), (CHECKPOINT_BYTES, background, full), (LONG_LOG, explicit, full)];
    for (case, (soft, take, expected)) in cases.into_iter().enumerate() {
        let device = SimDevice::new(1);
        let store = Store::open(&device, options(CHECKPOINT_BYTES, soft), ROWS);
        for number in 0.. {
            store.put(number).expect("a commit");
            if store.passed() > CHECKPOINT_BYTES {
                break;
            }
        }
        assert!(store.is_before_checkpoint());
        let sizes = batches(&device, store.pool(), || take(&store.database));
        assert!(!store.is_before_checkpoint(), "case {case}: no checkpoint");
        assert_eq!(sizes.iter().max(), Some(&expected), "case {case}: {sizes:?}");
        assert!(sizes.iter().sum::<u64>() >= store.dirty, "case {case}: {sizes:?}");
        let trimmed = store.engine().log.trimmed_to();
        assert!(trimmed >= store.begin, "case {case}: trimmed to {trimmed}");
    }
}

#[test]
fn a_checkpoint_and_a_closing_write_the_pages_that_are_left() {
    let store = Store::open(&SimDevice::new(1), options(CHECKPOINT_BYTES, LONG_LOG), ROWS);
    let before = store.pool().stat().written;
    store.write_half();
    store.database.checkpoint().expect("a checkpoint");
    assert!(store.pool().dirty_before(store.begin).is_empty());
    assert_eq!(store.pool().stat().written - before, store.dirty, "each page is written once");
    assert!(store.engine().log.trimmed_to() >= store.begin);
    // The next list of pages begins with this checkpoint.
    let txn = store.database.begin().expect("begin");
    for row in 0..ROWS {
        txn.put(&store.large, row.to_be_bytes(), [2; 2500]).expect("put");
    }
    txn.commit().expect("commit");
    store.database.checkpoint().expect("a checkpoint");
    let (begin, written) = (store.engine().last_checkpoint(), store.pool().stat().written);
    store.step(0).expect("a commit");
    assert_eq!(store.pool().stat().written - written, batch_pages(PAGE_BYTES) as u64, "the first batch");
    assert!(store.pool().dirty_before(begin).len() > ROWS as usize / 2);
    let (pool, database) = (store.pool().clone(), store.database.clone());
    drop(store);
    database.close().expect("close");
    let dirty = pool.dirty_pages();
    assert!(dirty.is_empty(), "dirty pages of a closed database: {dirty:?}");
}

#[test]
fn a_database_at_rest_writes_no_pages() {
    let device = SimDevice::new(1);
    let store = Store::open(&device, options(CHECKPOINT_BYTES, LONG_LOG), ROWS);
    store.write_half();
    store.database.run_background();
    let (steps, written) = (device.steps(), store.pool().stat().written);
    for _ in 0..100 {
        store.database.run_background();
    }
    assert_eq!((device.steps(), store.pool().stat().written), (steps, written), "calls of the device");
    assert!(!store.pool().dirty_before(store.begin).is_empty(), "no page was left to write");
}

#[test]
fn a_failed_write_of_a_batch_in_step_shuts_the_gate_and_loses_nothing() {
    let failures = [
        (Verb::Write, double_write::FILE_NAME),
        (Verb::Write, space::FILE_NAME),
        (Verb::Sync, space::FILE_NAME),
    ];
    for (verb, file) in failures {
        let device = SimDevice::new(1);
        let store = Store::open(&device, options(CHECKPOINT_BYTES, LONG_LOG), ROWS);
        store.write_half();
        device.fail_when(move |what, path, _| (what == verb && path == file).then_some(Fault::Io));
        let (mut acknowledged, written) = (Vec::new(), store.pool().stat().written);
        let error = (0..).find_map(|number| match store.step(1000 + number) {
            Ok(()) => {
                acknowledged.push(1000 + number);
                assert!(store.is_before_checkpoint(), "{verb:?} {file}: no batch before the checkpoint");
                None
            }
            Err(error) => Some(error),
        });
        device.heal();
        assert!(error.is_some_and(|error| error.is_poisoned()), "{verb:?} {file}");
        assert!(store.engine().gate.is_shut(), "{verb:?} {file}");
        assert_eq!(store.pool().stat().written, written, "{verb:?} {file}: pages that count as written");
        assert!(store.put(0).is_err(), "{verb:?} {file}: the device is sound again, the gate is not open");
        let device = device.reopen_with(1, Survival::DropAll);
        let database =
            Database::open_in(device.directory(), options(CHECKPOINT_BYTES, LONG_LOG)).expect("open");
        let small = database.table("small").expect("table");
        for number in acknowledged.iter().rev().take(50) {
            let value = database.get(&small, (number % 50_u32).to_be_bytes()).expect("get");
            assert_eq!(value, Some(number.to_be_bytes().to_vec()), "{verb:?} {file}");
        }
        assert!(database.verify(None).expect("verify").is_sound());
    }
}

/// Rows of the large table in the test of crashes: their pages make three batches.
const CRASH_ROWS: u32 = 70;

/// Value of a row of the large table after the commit of this number.
fn changed(number: u32) -> Vec<u8> {
    [number.to_be_bytes().as_slice(), &[2; 496], &[1; 2000]].concat()
}

/// Commits changes of the large table, with the worker's work after each, until a checkpoint was
/// taken, and then a few more. A crash ends the run. Returns the number of acknowledged commits,
/// the number of batches that were written before the checkpoint, and the steps of the device.
fn run_to_checkpoint(device: &SimDevice, crash_at: Option<u64>) -> (u32, u64, Range<u64>) {
    let store = Store::open(device, options(64 << 10, LONG_LOG), CRASH_ROWS);
    let (first, before) = (device.steps(), store.pool().stat().batches);
    if let Some(step) = crash_at {
        device.crash_at(step);
    }
    let (mut number, mut batches, mut left) = (0, 0, 3);
    loop {
        // Each commit changes a page that is listed, before or after the page was written.
        let row = (number * 11 % CRASH_ROWS).to_be_bytes();
        if store.database.put(&store.large, row, changed(number)).is_err() {
            return (number, batches, first..device.steps());
        }
        store.database.run_background();
        if store.is_before_checkpoint() {
            batches = store.pool().stat().batches - before;
        } else {
            left -= 1;
        }
        number += 1;
        if left == 0 || device.is_crashed() {
            return (number, batches, first..device.steps());
        }
    }
}

#[test]
fn a_crash_at_any_call_while_pages_are_written_in_step_loses_nothing() {
    let (commits, batches, steps) = run_to_checkpoint(&SimDevice::new(1), None);
    assert!(batches >= 3 && commits > CRASH_ROWS / 4, "{batches} batches, {commits} commits");
    for step in steps {
        let survival = [Survival::DropAll, Survival::KeepAll, Survival::Random, Survival::Prefix];
        let survival = survival[step as usize % survival.len()];
        let crashed = SimDevice::new(1);
        let (acknowledged, _, _) = run_to_checkpoint(&crashed, Some(step));
        assert!(crashed.is_crashed(), "no crash at step {step}");
        let device = crashed.reopen_with(step, survival);
        let what = format!("step {step}, {survival:?}, {acknowledged} acknowledged");
        let database = Database::open_in(device.directory(), options(64 << 10, LONG_LOG))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let large = database.open_table("large").expect("open table").expect("the table");
        for row in 0..CRASH_ROWS {
            let value = database.get(&large, row.to_be_bytes()).expect("get").expect("the row");
            let last = (0..acknowledged).rev().find(|number| number * 11 % CRASH_ROWS == row);
            let expected = last.map_or_else(|| vec![1; 2500], changed);
            // The commit during which the machine crashed may be in the log.
            let is_next = acknowledged * 11 % CRASH_ROWS == row && value == changed(acknowledged);
            assert!(value == expected || is_next, "{what}: row {row}");
        }
        assert!(database.verify(None).expect("verify").is_sound(), "{what}");
    }
}
