//! Histories of transactions at real replicas whose leader changes. The crate `adya` checks them
//! for anomalies, as Jepsen's Elle does.
//!
//! Each transaction reads lists and appends unique elements to lists. The checker infers the order
//! of the transactions from the lists that were read, and from real time.

use crate::cluster::{Cluster, request};
use adya::{History, Opts, Valid, Workload, check};
use katydid::EngineKind;
use katydid_replica::{Error, Replica, ReplicaId, Transaction, WriteOptions};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const TABLE: &str = "lists";
/// Number of lists that are in use at a time.
const LISTS: u64 = 3;
/// Number of transactions after which other lists are in use, so that no list becomes long.
const LISTS_FOR: u64 = 60;

/// One operation of a transaction.
#[derive(Debug, Clone)]
enum Operation {
    Append(u64, u64),
    /// The list, and its elements once they were read.
    Read(u64, Option<Vec<u64>>),
}

fn elements(bytes: &[u8]) -> Vec<u64> {
    let chunks = bytes.chunks_exact(8);
    chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))).collect()
}

impl Operation {
    fn run(&self, txn: &Transaction) -> Result<Operation, Error> {
        let list = |list: &u64| Ok::<_, Error>(txn.get(TABLE, list.to_be_bytes())?.unwrap_or_default());
        match self {
            Operation::Append(of, element) => {
                let mut bytes = list(of)?;
                bytes.extend(element.to_le_bytes());
                txn.put(TABLE, of.to_be_bytes(), bytes)?;
                Ok(self.clone())
            }
            Operation::Read(of, _) => Ok(Operation::Read(*of, Some(elements(&list(of)?)))),
        }
    }
}

/// The history, one line for each call and each outcome, in the order in which they happened.
#[derive(Default)]
struct Recorder(Mutex<String>);

impl Recorder {
    fn note(&self, kind: &str, process: u64, operations: &[Operation]) {
        let words = operations.iter().map(|operation| match operation {
            Operation::Append(list, element) => format!(r#"["append",{list},{element}]"#),
            Operation::Read(list, None) => format!(r#"["r",{list},null]"#),
            Operation::Read(list, Some(elements)) => format!(r#"["r",{list},{elements:?}]"#),
        });
        let words = words.collect::<Vec<_>>().join(",");
        let mut lines = self.0.lock().expect("the history");
        writeln!(lines, r#"{{"type":"{kind}","process":{process},"value":[{words}]}}"#).expect("a string");
    }
}

/// Counters of a run.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    unknown: AtomicU64,
    elements: AtomicU64,
    is_over: AtomicBool,
}

/// Ends the transactions when it is dropped, so that a failed test ends, too.
struct Ends<'c>(&'c AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs transactions one after another, at the replica that leads.
fn work(
    thread: u64,
    client: u64,
    open: &RwLock<BTreeMap<ReplicaId, Replica>>,
    recorder: &Recorder,
    counts: &Counts,
) {
    let options = WriteOptions { wait: Duration::from_secs(2), ..WriteOptions::default() };
    let mut random = fastrand::Rng::new();
    let (mut process, mut at) = (thread, 0);
    for sequence in 1.. {
        if counts.is_over.load(Ordering::Relaxed) {
            return;
        }
        let first = counts.committed.load(Ordering::Relaxed) / LISTS_FOR * LISTS;
        let draw = |random: &mut fastrand::Rng| {
            let list = first + random.u64(..LISTS);
            match random.bool() {
                true => Operation::Read(list, None),
                false => Operation::Append(list, counts.elements.fetch_add(1, Ordering::Relaxed)),
            }
        };
        let operations: Vec<_> = (0..random.u64(1..=4)).map(|_| draw(&mut random)).collect();
        let replica = {
            let open = open.read().expect("replicas");
            open.values().nth(at % open.len()).expect("a replica").clone()
        };
        recorder.note("invoke", process, &operations);
        let body = |txn: &Transaction| -> Result<Vec<Operation>, Error> {
            operations.iter().map(|operation| operation.run(txn)).collect()
        };
        match replica.transact(request(client, sequence), options, body) {
            Ok(committed) => {
                recorder.note("ok", process, &committed.value);
                counts.committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Unknown { .. }) => {
                recorder.note("info", process, &operations);
                counts.unknown.fetch_add(1, Ordering::Relaxed);
                // For the checker a process ends with an unknown outcome, so this thread goes on as
                // a new process.
                process += THREADS;
                at += 1;
            }
            Err(
                Error::NotLeader { .. }
                | Error::NoQuorum { .. }
                | Error::Conflict { .. }
                | Error::Closed
                | Error::Stopped { .. }
                | Error::Engine(katydid::Error::Closed),
            ) => {
                recorder.note("fail", process, &operations);
                at += 1;
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs transactions while the leader is cut off, closed, and asked to hand over, and returns the
/// history and the number of committed transactions.
fn history(engine: EngineKind) -> (String, u64) {
    let mut cluster = Cluster::of_three(engine);
    let clients: Vec<u64> = (0..THREADS).map(|_| cluster.leader().open_client().expect("a client")).collect();
    let open = RwLock::new(cluster.open.clone());
    let (recorder, counts) = (Recorder::default(), Counts::default());
    std::thread::scope(|scope| {
        let _ends = Ends(&counts.is_over);
        let spawn = |(thread, &client)| {
            let (open, recorder, counts) = (&open, &recorder, &counts);
            scope.spawn(move || work(thread, client, open, recorder, counts))
        };
        let workers: Vec<_> = (0..).zip(&clients).map(spawn).collect();
        let progress = |more: u64| {
            let enough = counts.committed.load(Ordering::Relaxed) + more;
            while counts.committed.load(Ordering::Relaxed) < enough {
                assert!(!workers.iter().any(|worker| worker.is_finished()), "a worker has panicked");
                std::thread::yield_now();
            }
        };
        progress(50);
        let leader = cluster.leader().status().id;
        cluster.isolate(leader);
        progress(50);
        cluster.heal();
        progress(20);
        let leader = cluster.leader().status().id;
        open.write().expect("replicas").remove(&leader);
        cluster.close(leader);
        progress(50);
        cluster.open(leader);
        open.write().expect("replicas").insert(leader, cluster.open[&leader].clone());
        let leader = cluster.leader().clone();
        let to = (1..=3).find(|id| *id != leader.status().id).expect("a follower");
        leader.transfer_leader(to).expect("a request to hand over");
        progress(50);
    });
    cluster.same_rows(&[TABLE]);
    let committed = counts.committed.into_inner();
    println!("{committed} committed, {} unknown", counts.unknown.into_inner());
    (recorder.0.into_inner().expect("the history"), committed)
}

/// Panics unless the history is strict serializable.
fn assert_strict_serializable(history: &str) {
    let parsed = History::from_json(history).expect("a history");
    let report =
        check(&parsed, Workload::ListAppend, &Opts { timeout: Duration::from_secs(60), ..Opts::default() });
    if report.valid != Valid::True {
        let found = report.anomalies.values().flatten().map(|anomaly| anomaly.explanation.as_str());
        let found = found.take(5).collect::<Vec<_>>().join("\n");
        panic!("{:?}: {:?}\n{found}", report.valid, report.anomaly_types);
    }
}

#[test]
fn transactions_are_strict_serializable_while_leaders_change() {
    let seconds = std::env::var("KATYDID_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut histories = 0;
    loop {
        for engine in [EngineKind::Paged, EngineKind::Memory] {
            let (history, committed) = history(engine);
            assert!(committed >= 200, "{committed}");
            assert_strict_serializable(&history);
            histories += 1;
        }
        if Instant::now() >= end {
            break;
        }
    }
    println!("evidence: {histories} histories of transactions are strict serializable");
}

#[test]
#[should_panic(expected = "lost-update")]
fn a_lost_append_is_rejected() {
    let recorder = Recorder::default();
    let operations =
        |read: Vec<u64>, element| [Operation::Read(1, Some(read)), Operation::Append(1, element)];
    for (process, element) in [(0, 10), (1, 11)] {
        recorder.note("invoke", process, &operations(Vec::new(), element));
        recorder.note("ok", process, &operations(Vec::new(), element));
    }
    recorder.note("invoke", 2, &[Operation::Read(1, None)]);
    recorder.note("ok", 2, &[Operation::Read(1, Some(vec![11]))]);
    assert_strict_serializable(&recorder.0.into_inner().expect("the history"));
}
