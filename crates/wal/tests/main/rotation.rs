//! Continuing in the next segment costs a commit at most two device writes, and no commit waits for
//! segments to be prepared while spare ones are ready. The tests count calls, and do not depend on
//! how long anything takes.

use katydid_device::{Create, Directory, DirectoryLock, File, MemoryDirectory, Method, Result, WriteMode};
use katydid_wal::{Append, Durability, FileOptions, Kind, Log, Lsn, Options, SyncKind};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const SEGMENT: u64 = 16 << 10;
/// Bytes of the log in a segment: all but its header.
const CAPACITY: u64 = SEGMENT - 4096;
const SPARE: usize = 4;

fn options(sync: SyncKind, method: Method) -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: SEGMENT,
            ring_bytes: 16 << 10,
            spare_segments: SPARE,
            sync: sync.into(),
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        sessions_max: 2,
        reserve_bytes: 4 << 10,
        method,
        ..Options::default()
    }
}

/// Counts the device calls of commits, and holds up the thread that prepares segments.
#[derive(Debug, Default)]
struct Watch {
    /// Durable writes and syncs by all threads but the one that prepares segments.
    promises: AtomicU64,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    closed: bool,
    /// True while the thread that prepares segments is held up.
    held: bool,
}

fn prepares() -> bool {
    std::thread::current().name() == Some("katydid-log-maintenance")
}

impl Watch {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, closed: bool) {
        self.gate().closed = closed;
        self.changed.notify_all();
    }

    fn wait_until_held(&self) {
        let mut gate = self.gate();
        while !gate.held {
            gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pass(&self) {
        if prepares() {
            let mut gate = self.gate();
            while gate.closed {
                gate.held = true;
                self.changed.notify_all();
                gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
            }
            gate.held = false;
        }
    }

    fn promise(&self) {
        self.pass();
        if !prepares() {
            self.promises.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn promises(&self) -> u64 {
        self.promises.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Directory>,
    watch: Arc<Watch>,
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    watch: Arc<Watch>,
}

impl Directory for Watched {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        self.watch.pass();
        let inner = self.inner.open(name, create, method)?;
        Ok(Arc::new(WatchedFile { inner, watch: self.watch.clone() }))
    }
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.open_read_only(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.watch.pass();
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn sync(&self) -> Result<()> {
        self.watch.promise();
        self.inner.sync()
    }
    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
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

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        match mode {
            WriteMode::Durable => self.watch.promise(),
            WriteMode::Written => self.watch.pass(),
        }
        self.inner.write_at(parts, offset, mode)
    }
    fn sync(&self) -> Result<()> {
        self.watch.promise();
        self.inner.sync()
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.watch.promise();
        self.inner.prepare(from, to)
    }
    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }
    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }
    fn method(&self) -> Method {
        self.inner.method()
    }
    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}

/// Runs `check` on every protocol with every I/O method.
fn each(check: impl Fn(Log, Arc<Watch>, &str)) {
    for sync in SyncKind::ALL {
        for method in Method::ALL {
            let watch = Arc::new(Watch::default());
            let directory = Watched { inner: Arc::new(MemoryDirectory::new()), watch: watch.clone() };
            let log = Log::open_in(Arc::new(directory), options(sync, method)).expect("open");
            check(log, watch, &format!("{sync}, {method}"));
        }
    }
}

/// Waits until `SPARE` segments are prepared, the number of spare segments in the options.
fn settle(log: &Log) {
    while log.space().prepared < SPARE as u64 * CAPACITY {
        std::thread::yield_now();
    }
}

fn segment(at: Lsn) -> u64 {
    at.get() / CAPACITY
}

#[test]
fn going_on_in_the_next_segment_costs_a_commit_at_most_two_device_writes() {
    each(|log, watch, what| {
        settle(&log);
        let mut session = log.session().expect("session");
        let (mut crossings, mut most) = (0, 0);
        for round in 0..400 {
            let from = log.first().durable();
            let before = watch.promises();
            let end = session.append(&Append::new(Kind::USER, &[&[7; 2900]])).expect("append").end;
            log.first().wait(end, Durability::Durable).expect("wait");
            let cost = watch.promises() - before;
            let crosses = segment(from) != segment(end);
            assert!(cost <= if crosses { 2 } else { 1 }, "{what}, round {round}: {cost} device writes");
            crossings += u64::from(crosses);
            most = most.max(cost);
            // Trims like a checkpoint, so that segments are used again. The trim does not count as
            // part of a commit.
            if round % 16 == 15 {
                log.first().trim(end).expect("trim");
            }
        }
        assert!(crossings > 80 && most == 2, "{what}: {crossings} rotations, at most {most} device writes");
    });
}

#[test]
fn no_commit_waits_for_preparing_while_spare_segments_are_ready() {
    each(|log, watch, what| {
        let mut session = log.session().expect("session");
        let mut commit = || {
            let end = session.append(&Append::new(Kind::USER, &[&[7; 2900]])).expect("append").end;
            log.first().wait(end, Durability::Durable).expect("wait");
            end
        };
        for _ in 0..3 {
            settle(&log);
            watch.close(true);
            let stalls = log.counters().stalls;
            let first = segment(log.first().durable());
            // The loop would never end if a commit waited for the preparation that is held up.
            while segment(commit()) < first + SPARE as u64 - 1 {}
            watch.wait_until_held();
            assert_eq!(log.counters().stalls, stalls, "{what}: an append was held up");
            watch.close(false);
        }
    });
}
