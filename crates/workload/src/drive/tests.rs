//! The driver, with YCSB and with inserts, on the store in memory.

use super::*;
use crate::insert::{Inserts, KeyOrder};
use crate::memory_store::MemoryStore;
use crate::properties::Properties;
use crate::ycsb::{Settings, YcsbLoad, YcsbRun};
use std::sync::atomic::Ordering;

fn settings(text: &str) -> Settings {
    Settings::from_properties(&Properties::parse(text).unwrap()).unwrap()
}

fn run<W: Workload>(store: &MemoryStore, workload: &Arc<W>, plan: &Plan) -> Result<Outcome, DriveError> {
    drive(store, &["t"], workload, plan, &AtomicBool::new(false), &mut |_| ())
}

#[test]
fn loads_then_runs_every_mix_blocking_and_with_callbacks() {
    let mixes = [
        "readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian",
        "readproportion=0.5\nupdateproportion=0.5\nwriteallfields=true\nreadallfields=false",
        "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05\nrequestdistribution=latest",
        "readproportion=0\nupdateproportion=0\ninsertproportion=0.2\nscanproportion=0.8\nmaxscanlength=10",
        "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5\ndataintegrity=true",
        "insertproportion=0.5\nrequestdistribution=exponential\ndataintegrity=true\ninsertorder=ordered",
        "fieldlengthdistribution=zipfian\nupdateproportion=1\nreadproportion=0\nrequestdistribution=hotspot",
        "fieldlengthdistribution=uniform\nminfieldlength=5\nupdateproportion=1\nrequestdistribution=sequential",
    ];
    for mix in mixes {
        for (threads, in_flight) in [(1, 1), (3, 1), (3, 100)] {
            let settings = settings(&format!("recordcount=300\nfieldcount=3\nfieldlength=20\n{mix}"));
            let store = MemoryStore { conflict_every: 7, refuse_every: 11, ..Default::default() };
            let plan = Plan { threads, in_flight, transactions: Some(1 << 40), ..Default::default() };
            let loaded = run(&store, &YcsbLoad::new(&settings), &plan).unwrap();
            assert_eq!((loaded.transactions, store.len()), (300, 300));
            let ycsb = YcsbRun::new(&settings, 300, 2000);
            let plan = Plan { transactions: Some(2000), ..plan };
            let outcome = run(&store, &ycsb, &plan).unwrap();
            assert_eq!(outcome.transactions, 2000, "{mix}");
            assert_eq!(outcome.latencies.count(), 2000);
            assert_eq!(store.len() as u64, ycsb.next_record(), "{mix}");
            assert_eq!(outcome.counters.syncs, Some(2000));
            assert_eq!(outcome.counters.bytes_synced, None);
            assert!(outcome.conflicts > 0 && !outcome.stopped);
        }
    }
}

#[test]
fn inserts_count_and_end() {
    let store = MemoryStore::default();
    for (number, in_flight) in [(0, 1), (1, 50)] {
        let plan = Plan { threads: 2, in_flight, transactions: Some(1001), ..Default::default() };
        let outcome = run(&store, &Inserts::new(20, 100, KeyOrder::Hashed, number), &plan).unwrap();
        assert_eq!((outcome.transactions, outcome.latencies.reads.len()), (1001, 0));
        assert_eq!(outcome.latencies.commits.len(), 1001);
    }
    assert_eq!(store.len(), 2002);
}

#[test]
fn ends_when_stopped_and_keeps_intervals() {
    let store = MemoryStore::default();
    let stop = AtomicBool::new(false);
    let plan = Plan {
        threads: 2,
        in_flight: 10,
        intervals: Some(Duration::from_millis(1)),
        progress_every: Duration::from_millis(1),
        ..Default::default()
    };
    let mut seen = 0;
    let outcome =
        drive(&store, &["t"], &Inserts::new(8, 0, KeyOrder::Ascending, 0), &plan, &stop, &mut |progress| {
            seen += 1;
            if progress.transactions > 100 && seen > 3 {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert!(outcome.stopped && outcome.transactions > 100);
    assert_eq!(outcome.transactions, store.len() as u64);
    assert!(outcome.intervals.len() > 1);
    let in_intervals: u64 = outcome.intervals.iter().map(|interval| interval.latencies.count()).sum();
    assert_eq!(in_intervals, outcome.transactions);
    assert_eq!(outcome.latencies.count(), outcome.transactions);
}

#[test]
fn a_time_limit_ends_it() {
    let store = MemoryStore::default();
    let plan = Plan { time: Some(Duration::from_millis(20)), target: Some(1000.0), ..Default::default() };
    let outcome = run(&store, &Inserts::new(8, 8, KeyOrder::Ascending, 0), &plan).unwrap();
    assert!(!outcome.stopped);
    assert_eq!(outcome.transactions, store.len() as u64);
}

/// The time limit is over from the beginning, and the first transaction ends only during the third
/// report of progress.
#[test]
fn a_run_whose_time_is_over_goes_on_until_one_transaction_has_ended() {
    let plan =
        Plan { time: Some(Duration::ZERO), progress_every: Duration::from_micros(1), ..Default::default() };
    let shared = Shared {
        stop: Arc::default(),
        remaining: AtomicU64::new(u64::MAX),
        begin: Barrier::new(1),
        started: OnceLock::new(),
    };
    let sinks = [(); 2].map(|()| Sink::new(&Inserts::new(8, 8, KeyOrder::Ascending, 0), &shared.stop));
    let (worker, ends) = mpsc::channel();
    let (mut worker, mut looks) = (Some(worker), 0);
    let started = shared.started();
    let mut watch = Watch::new(&plan, None, started);
    watch.run(&shared, &sinks, &AtomicBool::new(false), &ends, &mut |_| {
        looks += 1;
        let is_stopped = shared.stop.load(Ordering::Relaxed);
        match looks {
            1..3 => assert!(!is_stopped, "no transaction has ended"),
            3 => sinks[1].acknowledge(Planned { class: Class::Write, ticket: None }, started),
            _ if is_stopped => drop(worker.take()),
            _ => {}
        }
    });
    assert!(worker.is_none() && looks > 3);
    // A worker may go on before the watching thread: then the run began with that worker.
    assert_eq!((watch.started, shared.started()), (started, started));
}

#[test]
fn a_failing_commit_ends_the_run_with_its_cause() {
    for in_flight in [1, 10] {
        let store = MemoryStore { fail_at: 50, ..Default::default() };
        let plan = Plan { threads: 2, in_flight, transactions: Some(1_000_000), ..Default::default() };
        let error = run(&store, &Inserts::new(8, 8, KeyOrder::Ascending, 0), &plan).unwrap_err();
        assert!(error.to_string().contains("on fire"), "{error}");
        assert!(store.commits() < 1_000_000, "the other thread goes on");
    }
}

#[test]
fn a_lost_record_is_found() {
    let settings = settings("recordcount=50\nreadproportion=1\nupdateproportion=0");
    let store = MemoryStore::default();
    let plan = Plan { transactions: Some(10_000), ..Default::default() };
    // The table holds 49 of the 50 records.
    run(&store, &YcsbLoad::new(&settings), &Plan { transactions: Some(49), ..plan.clone() }).unwrap();
    let error = run(&store, &YcsbRun::new(&settings, 50, 0), &plan).unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
}

#[test]
fn reads_borrow_values_if_asked_and_check_them() {
    for borrows_values in [false, true] {
        let text = "recordcount=50\nreadproportion=1\nupdateproportion=0\ndataintegrity=true";
        let settings = Settings { borrows_values, ..settings(text) };
        let store = MemoryStore::default();
        let all = Plan { transactions: Some(500), ..Default::default() };
        run(&store, &YcsbLoad::new(&settings), &all).unwrap();
        let reads = YcsbRun::new(&settings, 50, 0);
        assert_eq!(run(&store, &reads, &all).unwrap().transactions, 500);
        assert_eq!(store.lent.load(Ordering::SeqCst), if borrows_values { 500 } else { 0 });
        for (change, why) in [(1, "does not follow from its key"), (2, "is missing")] {
            match change {
                1 => store.map.lock().unwrap().values_mut().for_each(|value| *value.last_mut().unwrap() ^= 1),
                _ => store.map.lock().unwrap().clear(),
            }
            let error = run(&store, &reads, &all).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}

#[test]
fn refuses_impossible_plans() {
    let store = MemoryStore::default();
    let ycsb = YcsbRun::new(&settings("recordcount=10"), 10, 0);
    for (threads, in_flight) in [(0, 1), (5000, 1), (1, 0), (1000, 1000), (2, usize::MAX)] {
        let plan = Plan { threads, in_flight, ..Default::default() };
        assert!(matches!(run(&store, &ycsb, &plan), Err(DriveError::Plan(_))), "{threads} {in_flight}");
    }
}

/// A workload that computes for [`SLOW`] before each commit.
struct Slow;

/// Time that a transaction of [`Slow`] takes before its commit.
const SLOW: Duration = Duration::from_millis(2);

impl Workload for Slow {
    type Source = Slow;

    fn source(self: &Arc<Self>, _thread: usize, _rng: Rng) -> Slow {
        Slow
    }
}

impl Source for Slow {
    fn plan(&mut self) -> Option<Planned> {
        Some(Planned { class: Class::Write, ticket: None })
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending, StoreError> {
        let begun = Instant::now();
        while begun.elapsed() < SLOW {
            std::hint::spin_loop();
        }
        transaction.put(b"key", b"value")?;
        Ok(Ending::Commit)
    }
}

#[test]
fn what_comes_before_a_commit_counts_if_asked_for() {
    let store = MemoryStore::default();
    for in_flight in [1, 4] {
        let plan = Plan { in_flight, transactions: Some(3), ..Default::default() };
        let plan = Plan { commits_from: CommitsFrom::Begin, ..plan };
        let outcome = run(&store, &Arc::new(Slow), &plan).unwrap();
        // The histogram keeps three digits of a time, so the test allows a deviation of 1 %.
        assert!(outcome.latencies.commits.min() as f64 >= 0.99 * SLOW.as_nanos() as f64);
    }
}
