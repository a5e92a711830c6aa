//! Leaders that stop or are cut off.

use crate::cluster::{Cluster, LONG, request};
use katydid::EngineKind;
use katydid_replica::{Error, Outcome, Replica, ReplicaId, Status, UnknownReason, WriteOptions, WriteSet};
use std::collections::BTreeMap;
use std::sync::RwLock;
use std::time::Duration;

/// Increments the counter of `key` once under this id, at the replica that leads.
fn increment(open: &RwLock<BTreeMap<ReplicaId, Replica>>, client: u64, sequence: u64, key: &str) {
    let options = WriteOptions { wait: Duration::from_secs(5), ..WriteOptions::default() };
    for attempt in 0_usize.. {
        let replica = {
            let open = open.read().expect("replicas");
            open.values().nth(attempt % open.len()).expect("a replica").clone()
        };
        let done = replica.transact(request(client, sequence), options, |txn| {
            let count = txn.get("counts", key)?.map_or(0, |count| count[0]);
            txn.put("counts", key, [count + 1])
        });
        match done {
            Ok(_) => return,
            Err(Error::NotLeader { .. }) => std::thread::yield_now(),
            Err(
                Error::Unknown { .. }
                | Error::NoQuorum { .. }
                | Error::Closed
                | Error::Stopped { .. }
                | Error::Conflict { .. }
                | Error::Engine(katydid::Error::Closed),
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nothing_acknowledged_is_missing_or_applied_twice_when_leaders_stop() {
    const THREADS: u64 = 3;
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let clients: Vec<u64> = (0..THREADS).map(|_| cluster.leader().open_client().expect("a client")).collect();
    let open = RwLock::new(cluster.open.clone());
    let acknowledged = RwLock::new(BTreeMap::new());
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for &client in &clients {
            let (open, over, acknowledged) = (&open, &over, &acknowledged);
            scope.spawn(move || {
                for sequence in 1.. {
                    if over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    increment(open, client, sequence, &format!("{client}/{sequence}"));
                    acknowledged.write().expect("acknowledged").insert((client, sequence), 1_u8);
                }
            });
        }
        let progress = |more: usize| {
            let before = acknowledged.read().expect("acknowledged").len();
            while acknowledged.read().expect("acknowledged").len() < before + more {
                std::thread::yield_now();
            }
        };
        for _ in 0..2 {
            progress(30);
            let leader = cluster.leader().status().id;
            open.write().expect("replicas").remove(&leader);
            cluster.close(leader);
            progress(30);
            cluster.open(leader);
            open.write().expect("replicas").insert(leader, cluster.open[&leader].clone());
        }
        progress(10);
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let counts = &cluster.same_rows(&["counts"])["counts"];
    let expected = acknowledged.into_inner().expect("acknowledged");
    let found: BTreeMap<(u64, u64), u8> = counts
        .iter()
        .map(|(key, count)| {
            let key = std::str::from_utf8(key).expect("a name").split_once('/').expect("two numbers");
            ((key.0.parse().expect("a number"), key.1.parse().expect("a number")), count[0])
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_leader_that_is_cut_off_answers_nothing_and_its_writes_are_resolved_elsewhere() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let old = cluster.leader().clone();
    let id = old.status().id;
    let client = old.open_client().expect("a client");
    let put = |value: &str| WriteSet::default().put("t", "k", value);
    old.write(request(client, 1), put("before"), WriteOptions::default()).expect("commit");
    cluster.isolate(id);
    let short = WriteOptions { wait: Duration::from_millis(300), ..WriteOptions::default() };
    let unknown = old.write(request(client, 2), put("cut off"), short);
    let Err(Error::Unknown { id: asked, reason }) = unknown else { panic!("{unknown:?}") };
    assert_eq!((asked, reason), (request(client, 2), UnknownReason::TimedOut));
    let stale = old.read(|view| view.get("t", "k"));
    assert!(matches!(stale, Err(Error::NoQuorum { .. } | Error::NotLeader { .. })), "{stale:?}");
    let stale = old.transact(request(client, 3), short, |txn| txn.get("t", "k"));
    assert!(matches!(stale, Err(Error::NoQuorum { .. } | Error::NotLeader { .. })), "{stale:?}");

    let others: Vec<ReplicaId> = (1..=3).filter(|other| *other != id).collect();
    let new = cluster.leader_among(&others);
    assert_eq!(new.resolve(request(client, 1)).expect("resolve"), Outcome::Committed);
    assert_eq!(new.resolve(request(client, 2)).expect("resolve"), Outcome::NotCommitted);
    new.write(request(client, 4), put("after"), WriteOptions::default()).expect("commit");
    cluster.heal();
    let late = cluster.leader().write(request(client, 2), put("late"), WriteOptions::default());
    assert!(matches!(late, Err(Error::Cancelled { .. })), "{late:?}");
    assert_eq!(cluster.same_rows(&["t"])["t"], [(b"k".to_vec(), b"after".to_vec())]);
    let term = cluster.leader().status().term;
    old.wait_until(LONG, move |status| status.term >= term && status.leader != Some(id)).expect("it follows");
}

#[test]
fn a_write_in_flight_at_a_leader_that_is_deposed_gets_an_outcome() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let old = cluster.leader().clone();
    let id = old.status().id;
    let client = old.open_client().expect("a client");
    cluster.isolate(id);
    let options = WriteOptions { wait: LONG, ..WriteOptions::default() };
    let (told, outcome) = std::sync::mpsc::channel();
    let set = WriteSet::default().put("t", "k", "lost");
    old.write_with(request(client, 1), set, options, move |outcome| drop(told.send(outcome)));
    let others: Vec<ReplicaId> = (1..=3).filter(|other| *other != id).collect();
    let new = cluster.leader_among(&others);
    // The new leader's entries replace the entry of the write above.
    new.write(request(client, 2), WriteSet::default().put("t", "other", "1"), options).expect("commit");
    cluster.heal();
    let outcome = outcome.recv().expect("an outcome");
    let lost = Error::Unknown { id: request(client, 1), reason: UnknownReason::LeadershipLost };
    match &outcome {
        Err(Error::NotLeader { .. }) => {}
        Err(error) => assert_eq!(error.to_string(), lost.to_string()),
        Ok(_) => panic!("{outcome:?}"),
    }
    assert_eq!(cluster.leader().resolve(request(client, 1)).expect("resolve"), Outcome::NotCommitted);
    assert_eq!(cluster.same_rows(&["t"])["t"].len(), 1);
}

/// A replica that has forgotten its votes could help to elect a second leader in a term.
#[test]
fn a_replica_that_lost_its_log_is_not_opened() {
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    leader.open_client().expect("a client");
    let index = leader.status().last_index;
    let id = (1..=3).find(|id| *id != leader.status().id).expect("a follower");
    cluster.open[&id].wait_until(LONG, move |status| status.applied >= index).expect("applied");
    cluster.close(id);
    std::fs::remove_dir_all(cluster.path(id).join("log")).expect("remove");
    let refused = cluster.try_open(id);
    assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
}

/// Closes a leader while one write waits for a majority and another waits for its turn.
fn writes_of_a_replica_that_ends(end: impl FnOnce(Replica)) {
    let mut cluster = Cluster::replicas(0, EngineKind::Paged);
    cluster.in_flight_max = 1;
    (1..=3).for_each(|id| cluster.open(id));
    cluster.initialize();
    let leader = cluster.leader().clone();
    let id = leader.status().id;
    let client = leader.open_client().expect("a client");
    let before = leader.status().last_index;
    cluster.isolate(id);
    let options = WriteOptions { wait: LONG, ..WriteOptions::default() };
    let (sender, outcomes) = std::sync::mpsc::channel();
    let write = |sequence| {
        let sender = sender.clone();
        let set = WriteSet::default().put("t", "k", "v");
        leader.write_with(request(client, sequence), set, options, move |outcome| {
            sender.send((sequence, outcome)).expect("the test listens");
        });
    };
    write(1);
    let is_appended = move |status: &Status| status.last_index > before;
    leader.wait_until(LONG, is_appended).expect("the entry is in the log");
    write(2);
    cluster.open.remove(&id);
    end(leader);
    drop(sender);
    let outcomes: Vec<_> = outcomes.iter().collect();
    assert_eq!(outcomes.len(), 2, "each callback is called once: {outcomes:?}");
    for (sequence, outcome) in outcomes {
        match (sequence, outcome) {
            (1, Err(Error::Unknown { id, reason })) => {
                assert_eq!((id, reason), (request(client, 1), UnknownReason::Stopped));
            }
            (2, Err(Error::Closed)) => {}
            (_, outcome) => panic!("write {sequence}: {outcome:?}"),
        }
    }
}

#[test]
fn each_write_of_a_replica_that_is_closed_gets_one_outcome() {
    writes_of_a_replica_that_ends(|replica| {
        replica.close().expect("close");
        let client = 1;
        let (sender, outcome) = std::sync::mpsc::channel();
        let set = || WriteSet::default().put("t", "k", "v");
        replica.write_with(request(client, 3), set(), WriteOptions::default(), move |outcome| {
            sender.send(outcome).expect("the test listens");
        });
        assert!(matches!(outcome.recv().expect("a call"), Err(Error::Closed)));
        assert!(outcome.recv().is_err(), "it is called once");
        let late = replica.write(request(client, 3), set(), WriteOptions::default());
        assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    });
}

#[test]
fn each_write_of_a_replica_that_is_dropped_gets_one_outcome() {
    writes_of_a_replica_that_ends(drop);
}
