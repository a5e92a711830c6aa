//! Events and numbers: each is reported once, with the fields that a reader needs. The test runs
//! with both engines, and only with the features `tracing` and `metrics`.
//!
//! There is one test, because a subscriber and a recorder belong to the whole process, and
//! background threads report checkpoints.

use katydid::testing::Background;
use katydid::{ConflictKind, Database, EngineKind, Error, MemoryDirectory, Options, RecoveryProgress, Table};
use katydid_device::{self as device, Create, Directory, DirectoryLock, File, HandClock, Method, Watch};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// An event: its target, and its fields with the message.
#[derive(Debug, Clone)]
struct ReportedEvent {
    target: String,
    fields: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<ReportedEvent>>>);

impl Visit for ReportedEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("katydid")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut reported =
            ReportedEvent { target: event.metadata().target().to_owned(), fields: BTreeMap::new() };
        event.record(&mut reported);
        self.0.lock().expect("no panic").push(reported);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Events {
    /// Returns the events of a target since the last call for this target.
    fn take(&self, target: &str) -> Vec<ReportedEvent> {
        self.0.lock().expect("no panic").extract_if(.., |event| event.target == target).collect()
    }
}

/// Counters and the number of values of histograms, by name.
#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

struct Values(Arc<AtomicU64>);

impl HistogramFn for Values {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Numbers {
    fn of(&self, name: &str) -> Arc<AtomicU64> {
        self.0.lock().expect("no panic").entry(name.to_owned()).or_default().clone()
    }

    fn get(&self, name: &str) -> u64 {
        self.of(name).load(Ordering::Relaxed)
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key.name()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Values(self.of(key.name()))))
    }
}

fn options(engine: EngineKind) -> Options {
    let mut options =
        Options { engine: engine.into(), lock_wait: Duration::from_millis(20), ..Options::default() };
    options.advanced.log.background = Background::Caller;
    options
}

fn field<'a>(report: &'a ReportedEvent, name: &str) -> &'a str {
    report.fields.get(name).unwrap_or_else(|| panic!("{report:?} has no {name}"))
}

/// Waits until the oldest open transaction is 30 ms old.
fn wait_until_old(database: &Database) {
    let oldest = || database.stat().expect("stat").transactions_open[0].age;
    while oldest() < Duration::from_millis(30) {
        std::thread::yield_now();
    }
}

fn each_is_reported(engine: EngineKind, events: &Events, numbers: &Numbers) {
    // This drops the event of the engine that was tested before.
    events.take("katydid::open");
    let directory = Arc::new(MemoryDirectory::new());
    let before = numbers.get("katydid_commit_seconds");
    let database = Database::open_in(directory.clone(), options(engine)).expect("open");
    let opened = events.take("katydid::open");
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(field(&opened[0], "engine"), engine.to_string());
    let table = database.table("fruit").expect("a table");
    for key in 0..10u8 {
        database.put(&table, [key], "red").expect("put");
    }
    assert!(numbers.get("katydid_commit_seconds") >= before + 10, "{engine}");

    events.take("katydid::checkpoint");
    let checkpoints = numbers.get("katydid_checkpoint_seconds");
    database.checkpoint().expect("a checkpoint");
    assert_eq!(events.take("katydid::checkpoint").len(), 1, "{engine}");
    assert_eq!(numbers.get("katydid_checkpoint_seconds"), checkpoints + 1);

    let (conflicts, waits) = (numbers.get("katydid_conflicts_total"), numbers.get("katydid_wait_seconds"));
    match engine {
        EngineKind::Memory => changed_is_reported(&database, &table, events),
        _ => {
            timeout_is_reported(&database, &table, events);
            assert_eq!(numbers.get("katydid_wait_seconds"), waits + 1);
        }
    }
    assert!(numbers.get("katydid_conflicts_total") > conflicts, "{engine}");
    assert!(events.take("katydid::slow_transaction").is_empty(), "none was slow");
    database.close().expect("close");
    slow_is_reported(events, numbers, directory, engine);
}

/// Tests the events about a transaction that has waited too long for a lock.
fn timeout_is_reported(database: &Database, table: &Table, events: &Events) {
    let one = database.begin().expect("begin");
    one.put(table, [1], "green").expect("put");
    // The wait is on another thread, because a thread does not wait for its own transactions.
    let victim = std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            let other = database.begin().expect("begin");
            let error = other.put(table, [1], "blue").expect_err("a conflict");
            assert!(matches!(error, Error::Conflict { kind: ConflictKind::Timeout, .. }), "{error}");
            other.id().get()
        });
        wait.join().expect("no panic")
    });
    conflict_is_reported(events, victim, Some(one.id().get()));
}

/// Tests the events about a transaction that has read a row which another transaction changed.
fn changed_is_reported(database: &Database, table: &Table, events: &Events) {
    let (one, other) = (database.begin().expect("begin"), database.begin().expect("begin"));
    other.get(table, [1]).expect("get");
    one.put(table, [1], "green").expect("put");
    one.commit().expect("commit");
    let victim = other.id().get();
    other.put(table, [2], "blue").and_then(|()| other.commit().map(|_| ())).expect_err("a conflict");
    conflict_is_reported(events, victim, None);
}

fn conflict_is_reported(events: &Events, victim: u64, holder: Option<u64>) {
    let reports = events.take("katydid::conflict");
    let report = reports.first().expect("a conflict was reported");
    assert_eq!(field(report, "victim"), victim.to_string());
    if let Some(holder) = holder {
        assert_eq!(field(report, "holder"), holder.to_string());
    }
    assert!(field(report, "contested").contains("fruit"), "{report:?}");
}

fn slow_is_reported(events: &Events, numbers: &Numbers, directory: Arc<MemoryDirectory>, engine: EngineKind) {
    events.take("katydid::open");
    events.take("katydid::recovery");
    let ended = numbers.get("katydid_slow_transactions_total");
    let heard = Arc::new(AtomicU64::new(0));
    let progress: RecoveryProgress = {
        let heard = heard.clone();
        Arc::new(move |_, _, _| _ = heard.fetch_add(1, Ordering::Relaxed))
    };
    let slow = Duration::from_millis(30);
    let mut options = options(engine);
    options.advanced.slow_transaction = slow;
    options.advanced.on_recovery = Some(progress);
    let database = Database::open_in(directory, options).expect("open");
    assert!(heard.load(Ordering::Relaxed) > 0, "the caller's own receiver gets the progress");
    let phases: Vec<_> =
        events.take("katydid::recovery").iter().map(|report| field(report, "phase").to_owned()).collect();
    assert!(phases.contains(&"redo".to_owned()), "{engine}: {phases:?}");
    // The memory engine reports a restore only after each large piece, so a small database has no
    // such event.
    assert!(engine == EngineKind::Memory || phases.contains(&"restore".to_owned()), "{phases:?}");
    let mut once = phases.clone();
    once.dedup();
    assert_eq!(once, phases, "each phase ends once");

    let txn = database.begin().expect("begin");
    let line = line!() - 1;
    wait_until_old(&database);
    (0..2).for_each(|_| database.checkpoint().expect("a checkpoint"));
    drop(txn);
    let reports = events.take("katydid::slow_transaction");
    let open: Vec<_> = reports.iter().map(|report| field(report, "open")).collect();
    assert_eq!(open, ["true", "false"], "{engine}: by one checkpoint, and at its end");
    for report in &reports {
        assert!(field(report, "origin").contains(&format!("main.rs:{line}:")), "{report:?}");
        assert!(field(report, "age_ms").parse::<u64>().expect("a number") >= 30, "{report:?}");
    }
    assert_eq!(numbers.get("katydid_slow_transactions_total"), ended + 1);
    database.close().expect("close");
}

/// A directory whose sync takes two seconds by the watch's clock, and calls the watch during these
/// seconds.
#[derive(Debug)]
struct Slow {
    inner: MemoryDirectory,
    watch: Watch,
    clock: HandClock,
}

impl Directory for Slow {
    fn open(&self, name: &str, create: Create, method: Method) -> device::Result<Arc<dyn File>> {
        self.inner.open(name, create, method)
    }

    fn open_read_only(&self, name: &str) -> device::Result<Arc<dyn File>> {
        self.inner.open_read_only(name)
    }

    fn list(&self) -> device::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> device::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> device::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> device::Result<()> {
        self.clock.advance(Duration::from_secs(2));
        self.watch.check();
        self.inner.sync()
    }

    fn lock(&self) -> device::Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn subdirectory(&self, name: &str) -> device::Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }

    fn existing_subdirectory(&self, name: &str) -> device::Result<Option<Arc<dyn Directory>>> {
        self.inner.existing_subdirectory(name)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

fn stall_is_reported(events: &Events) {
    let (watch, clock) = Watch::by_hand(Duration::from_secs(1));
    let slow = Slow { inner: MemoryDirectory::new(), watch: watch.clone(), clock };
    watch.before(Arc::new(slow)).sync().expect("sync");
    let reports = events.take("katydid::device");
    let under_way: Vec<_> = reports.iter().map(|report| field(report, "under_way")).collect();
    assert_eq!(under_way, ["true", "false"], "{reports:?}");
    assert_eq!(field(&reports[0], "lasts_ms"), "2000");
}

#[test]
fn each_event_is_reported_with_its_fields() {
    let (events, numbers) = (Events::default(), Numbers::default());
    tracing::subscriber::set_global_default(events.clone()).expect("the first subscriber");
    assert!(metrics::set_global_recorder(numbers.clone()).is_ok());
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        each_is_reported(engine, &events, &numbers);
    }
    stall_is_reported(&events);
    let missing = Options { create: false, ..options(EngineKind::Paged) };
    assert!(Database::open_in(Arc::new(MemoryDirectory::new()), missing).is_err());
    let reports = events.take("katydid::open");
    assert!(
        reports
            .iter()
            .any(|report| report.fields.get("error").is_some_and(|error| error.contains("no database"))),
        "{reports:?}"
    );
}
