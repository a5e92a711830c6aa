//! Commits arrive at all replicas, in one order, and once.

use crate::cluster::{Cluster, LONG, request, rows};
use katydid::EngineKind;
use katydid_replica::{
    Client, ClientOptions, Error, Outcome, ReadAt, Replica, ReplicaOptions, Replicated, Result, WriteOptions,
    WriteSet,
};
use std::collections::BTreeSet;
use std::time::Duration;

const ENGINES: [EngineKind; 2] = [EngineKind::Paged, EngineKind::Memory];

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[test]
fn a_commit_is_at_every_replica_and_survives_restarts() {
    for engine in ENGINES {
        let mut cluster = Cluster::of_three(engine);
        let leader = cluster.leader().clone();
        let client = leader.open_client().expect("a client");
        let set =
            WriteSet::default().put("t", "a", "1").put("t", "b", "2").delete("t", "a").create_table("u");
        let all = WriteOptions { durability: Replicated::All, wait: LONG };
        let committed = leader.write(request(client, 1), set, all).expect("commit");
        assert_eq!(committed.unconfirmed, [].into());
        let b = vec![(b"b".to_vec(), b"2".to_vec())];
        assert_eq!(leader.read(|view| view.range("t", .., 9)).expect("read"), b);
        for replica in cluster.open.values() {
            replica.wait_until(LONG, move |status| status.applied >= committed.index).expect("applied");
            assert_eq!(rows(replica, "t"), b);
            assert_eq!(rows(replica, "katydid.other"), []);
        }
        drop(leader);
        for id in 1..=3 {
            cluster.close(id);
        }
        for id in 1..=3 {
            cluster.open(id);
        }
        assert_eq!(cluster.same_rows(&["t"])["t"], b);
        let leader = cluster.leader();
        let twice = WriteSet::default().put("t", "b", "twice");
        leader.write(request(client, 1), twice.clone(), WriteOptions::default()).expect("its former answer");
        assert_eq!(cluster.same_rows(&["t"])["t"], b, "a retry is not applied");
        leader.write(request(client, 2), twice, WriteOptions::default()).expect("commit");
        assert_eq!(cluster.same_rows(&["t"])["t"][0].1, b"twice");
    }
}

#[test]
fn transactions_of_many_threads_take_place_one_after_the_other() {
    const THREADS: u64 = 4;
    const EACH: u64 = 25;
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    // Each transaction counts the entries and adds an entry under that number, so two transactions
    // that overlap would use one number twice.
    let append = |client, sequence| {
        leader.transact(request(client, sequence), WriteOptions::default(), |txn| {
            let count = txn.range("list", .., usize::MAX)?.len() as u64;
            let total = number(txn.get("total", "all")?);
            txn.insert("list", count.to_be_bytes(), client.to_le_bytes())?;
            txn.put("total", "all", (total + 1).to_le_bytes())?;
            Ok::<_, Error>(count)
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let client = leader.open_client().expect("a client");
                for sequence in 1..=EACH {
                    while let Err(error) = append(client, sequence) {
                        assert!(matches!(error, Error::Conflict { .. }), "{error}");
                    }
                }
            });
        }
    });
    let found = cluster.same_rows(&["list", "total"]);
    assert_eq!(found["list"].len() as u64, THREADS * EACH);
    assert_eq!(number(Some(found["total"][0].1.clone())), THREADS * EACH);
}

#[test]
fn a_write_that_not_all_have_in_time_has_committed_all_the_same() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let client = leader.open_client().expect("a client");
    let away = (1..=3).find(|id| *id != leader.status().id).expect("a follower");
    cluster.isolate(away);
    let put = || WriteSet::default().put("t", "k", "v");
    let short = WriteOptions { durability: Replicated::All, wait: Duration::from_secs(3) };
    let committed = leader.write(request(client, 1), put(), short).expect("commit");
    assert_eq!(committed.unconfirmed, [away].into());
    let error = committed.clone().confirmed().expect_err("a follower is cut off");
    assert_eq!((error.index, error.unconfirmed), (committed.index, [away].into()));
    let remote = Client::new(ClientOptions::new([leader.address()])).expect("a client");
    let committed = remote.write(request(client, 2), put(), short).expect("commit");
    assert_eq!(committed.unconfirmed, [away].into());
    cluster.heal();
    let all = WriteOptions { durability: Replicated::All, wait: LONG };
    let committed = cluster.leader().write(request(client, 3), put(), all).expect("commit");
    assert_eq!(committed.unconfirmed, [].into());
}

#[test]
fn a_client_waits_for_all_voters_longer_than_for_one_answer() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let away = (1..=3).find(|id| *id != leader.status().id).expect("a follower");
    let mut options = ClientOptions::new(cluster.open.values().map(Replica::address));
    options.patience = Duration::from_millis(200);
    let client = Client::new(options).expect("a client");
    let session = client.open_client().expect("a session");
    cluster.isolate(away);
    let before = leader.status().last_index;
    let all = WriteOptions { durability: Replicated::All, wait: LONG };
    let (sender, outcome) = std::sync::mpsc::channel();
    client.write_with(request(session, 1), WriteSet::default().put("t", "k", "v"), all, move |outcome| {
        sender.send(outcome).expect("the test listens");
    });
    // Each try adds an entry.
    leader.wait_until(LONG, move |status| status.last_index >= before + 3).expect("three tries");
    cluster.heal();
    let committed = outcome.recv().expect("the callback is called").expect("commit");
    assert_eq!(committed.unconfirmed, [].into());
}

/// A busy machine may hold an election at any time. The writes that fail are then made again under
/// their ids, as a program does.
#[test]
fn thousands_of_writes_are_in_flight_at_once() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let replicas = cluster.open.values().map(Replica::address);
    let client = Client::new(ClientOptions::new(replicas)).and_then(|client| client.open_client());
    let client = client.expect("a session");
    let options = WriteOptions { wait: LONG, ..WriteOptions::default() };
    let mut missing: BTreeSet<u64> = (1..=4_000).collect();
    let mut indexes = BTreeSet::new();
    while !missing.is_empty() {
        let leader = cluster.leader();
        let (sender, outcomes) = std::sync::mpsc::channel();
        for sequence in missing.iter().copied() {
            let sender = sender.clone();
            let set = WriteSet::default().put("t", sequence.to_be_bytes(), "x");
            leader.write_with(request(client, sequence), set, options, move |outcome| {
                sender.send((sequence, outcome)).expect("the test listens");
            });
        }
        drop(sender);
        for (sequence, outcome) in outcomes {
            match outcome {
                Ok(committed) => {
                    missing.remove(&sequence);
                    indexes.insert(committed.index);
                }
                Err(Error::NotLeader { .. } | Error::NoQuorum { .. } | Error::Unknown { .. }) => {}
                Err(error) => panic!("write {sequence}: {error}"),
            }
        }
    }
    assert_eq!(indexes.len(), 4_000);
    assert_eq!(cluster.same_rows(&["t"])["t"].len(), 4_000);
}

#[test]
fn a_call_that_waits_fails_in_a_callback_and_a_write_with_a_callback_does_not() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader().clone();
    let session = leader.open_client().expect("a client");
    let remote = Client::new(ClientOptions::new([leader.address()])).expect("a client");
    let options = WriteOptions { wait: LONG, ..WriteOptions::default() };
    let set = || WriteSet::default().put("t", "k", "v");

    let (told, outcome) = std::sync::mpsc::channel();
    let again = remote.clone();
    remote.write_with(request(session, 1), set(), options, move |first| {
        first.expect("commit");
        let refused = again.write(request(session, 2), set(), options);
        assert!(matches!(refused, Err(Error::InCallback)), "{refused:?}");
        let refused = again.get("t", "k", ReadAt::Leader);
        assert!(matches!(refused, Err(Error::InCallback)), "{refused:?}");
        again.write_with(request(session, 3), set(), options, move |second| drop(told.send(second)));
    });
    outcome.recv_timeout(LONG).expect("an outcome").expect("commit");

    let (told, outcome) = std::sync::mpsc::channel();
    let again = leader.clone();
    leader.write_with(request(session, 4), set(), options, move |first| {
        first.expect("commit");
        let refused = again.write(request(session, 5), set(), options);
        assert!(matches!(refused, Err(Error::InCallback)), "{refused:?}");
        let refused = again.transact(request(session, 6), options, |txn| txn.get("t", "k"));
        assert!(matches!(refused, Err(Error::InCallback)), "{refused:?}");
        again.write_with(request(session, 7), set(), options, move |second| drop(told.send(second)));
    });
    outcome.recv_timeout(LONG).expect("an outcome").expect("commit");
}

#[test]
fn a_replica_is_not_closed_in_its_own_callback_and_may_be_dropped_there() {
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader().clone();
    let id = leader.status().id;
    let session = leader.open_client().expect("a client");
    let options = WriteOptions { wait: LONG, ..WriteOptions::default() };
    let set = || WriteSet::default().put("t", "k", "v");

    let (told, outcome) = std::sync::mpsc::channel();
    let again = leader.clone();
    leader.write_with(request(session, 1), set(), options, move |_| drop(told.send(again.close())));
    let refused = outcome.recv_timeout(LONG).expect("an outcome");
    assert!(matches!(refused, Err(Error::InCallback)), "{refused:?}");
    leader.write(request(session, 2), set(), options).expect("it is open");

    // The callback drops the last handle.
    let (told, outcome) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    cluster.open.remove(&id);
    let last = leader.clone();
    leader.write_with(request(session, 3), set(), options, move |_| {
        let _dropped = gone.recv();
        drop(last);
        told.send(()).expect("the test listens");
    });
    drop(leader);
    drop(go);
    outcome.recv_timeout(LONG).expect("the drop does not wait for the callback's own thread");
    let end = std::time::Instant::now() + LONG;
    while let Err(error) = cluster.try_open(id) {
        assert!(std::time::Instant::now() < end, "the replica was not closed: {error}");
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_may_be_longer_than_clocks_can_count() {
    let forever = WriteOptions { wait: Duration::MAX, ..WriteOptions::default() };
    let mut options = ReplicaOptions::new("unused", [1; 16], 1, "127.0.0.1:0");
    options.heartbeat = Duration::MAX;
    assert!(matches!(options.validate(), Err(Error::Option { option: "election", .. })));

    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let client = leader.open_client().expect("a client");
    let set = || WriteSet::default().put("t", "k", "v");
    leader.write(request(client, 1), set(), forever).expect("commit");
    leader.transact(request(client, 2), forever, |txn| txn.put("t", "k", "w")).expect("commit");
    leader.wait_until(Duration::MAX, |status| status.applied > 0).expect("a status");
    let mut options = ClientOptions::new([leader.address()]);
    (options.patience, options.wait) = (Duration::MAX, Duration::MAX);
    let remote = Client::new(options).expect("a client");
    remote.write(request(client, 3), set(), forever).expect("commit");
    remote.status(leader.address()).expect("a status");
}

fn refuses_as_follower<T: std::fmt::Debug>(follower: &Replica, leader: u64, outcome: Result<T>) {
    let Err(Error::NotLeader { replica, leader: Some((found, _)) }) = outcome else {
        panic!("{outcome:?} of {follower:?}");
    };
    assert_eq!((Some(replica), found), (Some(follower.status().id), leader));
}

#[test]
fn a_follower_names_the_leader_and_reads_a_state_of_stated_age() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let client = leader.open_client().expect("a client");
    let set = WriteSet::default().put("t", "k", "v");
    let committed = leader.write(request(client, 1), set.clone(), WriteOptions::default()).expect("commit");
    let id = leader.status().id;
    let follower = cluster.open.values().find(|replica| replica.status().id != id).expect("a follower");
    refuses_as_follower(follower, id, follower.write(request(client, 2), set, WriteOptions::default()));
    refuses_as_follower(follower, id, follower.read(|view| view.get("t", "k")));
    refuses_as_follower(follower, id, follower.open_client());
    follower.wait_until(LONG, move |status| status.applied >= committed.index).expect("applied");
    // Until the leader's next message arrives, the follower does not know how old its state is, and
    // refuses the read.
    let read = || follower.read_stale(LONG, |view| Ok::<_, Error>((view.index(), view.get("t", "k")?)));
    let (index, value) = loop {
        match read() {
            Err(Error::TooStale { .. }) => std::thread::yield_now(),
            read => break read.expect("read"),
        }
    };
    assert!(index >= committed.index);
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    cluster.isolate(follower.status().id);
    let stale = loop {
        match follower.read_stale(Duration::ZERO, |view| view.get("t", "k")) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(stale, Error::TooStale { age: Some(_), .. }), "{stale}");
}

/// A program that reads a state of some age asks any replica, which may lead.
#[test]
fn a_leader_reads_a_state_of_stated_age() {
    for replicas in [1, 3] {
        let cluster = Cluster::replicas(replicas, EngineKind::Paged);
        cluster.initialize();
        let leader = cluster.leader();
        let client = leader.open_client().expect("a client");
        let set = WriteSet::default().put("t", "k", "v");
        let committed = leader.write(request(client, 1), set, WriteOptions::default()).expect("commit");
        let read = || leader.read_stale(LONG, |view| Ok::<_, Error>((view.index(), view.get("t", "k")?)));
        // Until a majority has confirmed the leader after the commit, the read is refused.
        let end = std::time::Instant::now() + LONG;
        let (index, value) = loop {
            match read() {
                Err(Error::TooStale { .. }) if std::time::Instant::now() < end => std::thread::yield_now(),
                read => break read.expect("read"),
            }
        };
        assert!(index >= committed.index);
        assert_eq!(value.as_deref(), Some(&b"v"[..]));
    }
}

#[test]
fn a_key_that_is_too_long_for_any_table_is_absent() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let session = leader.open_client().expect("a client");
    let set = WriteSet::default().put("t", "k", "v");
    leader.write(request(session, 1), set, WriteOptions::default()).expect("commit");
    let long = vec![b'k'; katydid::KEY_BYTES_MAX + 1];
    assert_eq!(leader.read(|view| view.get("t", &long)).expect("read"), None);
    let client = Client::new(ClientOptions::new([leader.address()])).expect("a client");
    assert_eq!(client.get("t", &long, ReadAt::Leader).expect("read"), None);
    let rows = client.range("t", long.clone()..=long, 9, ReadAt::Leader).expect("read");
    assert_eq!(rows.rows, []);
}

#[test]
fn a_request_is_answered_once_for_all() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let client = leader.open_client().expect("a client");
    let put = |value: &str| WriteSet::default().put("t", "k", value);
    let options = WriteOptions::default();
    leader.write(request(client, 1), put("first"), options).expect("commit");
    assert_eq!(leader.resolve(request(client, 1)).expect("resolve"), Outcome::Committed);
    assert_eq!(leader.resolve(request(client, 2)).expect("resolve"), Outcome::NotCommitted);
    let cancelled = leader.write(request(client, 2), put("late"), options);
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    let unknown = leader.write(request(client + 1, 1), put("stranger"), options);
    assert!(matches!(unknown, Err(Error::UnknownClient { .. })), "{unknown:?}");
    leader.write(request(client, 5_000), put("last"), options).expect("commit");
    let old = leader.write(request(client, 3), put("old"), options);
    assert!(matches!(old, Err(Error::TooOld { .. })), "{old:?}");
    let reserved = leader.write(
        request(client, 5_001),
        WriteSet::default().delete("katydid.replica", "applied"),
        options,
    );
    assert!(matches!(reserved, Err(Error::Inadmissible { .. })), "{reserved:?}");
    // A retry of a transaction runs the body again. Its writes are dropped, because the request is
    // already committed.
    let again = leader.transact(request(client, 5_000), options, |txn| {
        txn.put("t", "k", "again")?;
        Ok::<_, Error>(())
    });
    again.expect("its former answer");
    assert_eq!(cluster.same_rows(&["t"])["t"], [(b"k".to_vec(), b"last".to_vec())]);
}

#[test]
fn a_body_that_fails_or_only_reads_leaves_nothing_behind() {
    let cluster = Cluster::of_three(EngineKind::Memory);
    let leader = cluster.leader();
    let client = leader.open_client().expect("a client");
    leader
        .write(request(client, 1), WriteSet::default().put("t", "k", "v"), WriteOptions::default())
        .expect("commit");
    let before = leader.status().last_index;
    let failed = leader.transact(request(client, 2), WriteOptions::default(), |txn| {
        txn.put("t", "k", "never")?;
        txn.insert("t", "k", "never")
    });
    assert!(matches!(failed, Err(Error::KeyExists { .. })), "{failed:?}");
    let read = leader.transact(request(client, 3), WriteOptions::default(), |txn| txn.get("t", "k"));
    assert_eq!(read.expect("read").value.as_deref(), Some(&b"v"[..]));
    assert_eq!(leader.status().last_index, before);
}
